"""Two agents and their people talk, wait, decide, close, expire and restart; what is true is always what a model says.

The team and its store are the real ones. The model counts what should have been accepted, and knows nothing of how.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from parley.app.team.channels.posting import Held
from parley.app.team.decisions import exchanges
from parley.app.team.work import sweep
from parley.domain.audit.entry import AuditEntry, entry_hash
from parley.domain.channel.post import Post
from parley.domain.content.classification import Classification, level_of
from parley.domain.directory.callers import DEFAULT_TENANT, SYSTEM
from parley.domain.errors.errors import ParleyError
from parley.domain.exchange.approval import Approval, ApprovalStatus, Cause, Decision
from parley.domain.exchange.exchange import FINAL, Exchange, Outcome
from parley.domain.hashes import digest
from parley.domain.rules.policy import CrossOrg
from parley.domain.store.changes import AuditQuery
from tests.fault.conftest import FULL
from tests.rigs.behind_the_server import spent_of
from tests.rigs.chosen_store import is_postgres
from tests.rigs.governed import decide, person, place, put_policy, send
from tests.rigs.memory import roomy_folder
from tests.rigs.team import Rig, open_rig

pytestmark = [pytest.mark.both_stores, pytest.mark.fault]

T = TypeVar("T")
PEOPLE = {"alice": "ann", "bob": "ben", "carol": "cleo"}
CONVERSATIONS = ("conv-1", "conv-2")
PLAIN, COMMITS = "What is the status?", "We promise it."
WORDS = st.sampled_from([PLAIN, PLAIN, COMMITS])
# Mostly what may pass: what may not ends an exchange, and then there is not much more to see.
LEVELS = st.sampled_from([Classification.INTERNAL] * 6 + list(Classification))
DECISIONS = st.sampled_from([Decision.APPROVE, *Decision])
ROUNDS = 3
# The published automaton: what may become of an exchange from one look to the next. Several steps may lie between.
MAY_BECOME = {
    Outcome.IN_PROGRESS: set(Outcome),
    Outcome.ESCALATED: set(Outcome),
    **{one: {one} for one in FINAL},
}


@dataclass
class Talk:
    """What the model knows of one conversation of a pair."""

    conversation: str
    pair: frozenset[str]
    initiator: str
    accepted: int = 0
    over: bool = False
    ends: Any = None
    # The one escalation of its limit, once somebody was one round too late.
    limit: str = ""
    waits: set[str] = field(default_factory=set)


async def outcome(doing: Coroutine[Any, Any, T]) -> T | ParleyError:
    """What came of it, a refusal as well."""
    try:
        return await doing
    except ParleyError as error:
        return error


class Exchanges(RuleBasedStateMachine):
    """Beside the real store, one `Talk` for each pair in each conversation."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.folder = tempfile.TemporaryDirectory(dir=roomy_folder())
        self.talks: dict[tuple[str, frozenset[str]], Talk] = {}
        self.seen: dict[str, Outcome] = {}
        self.approved: set[str] = set()
        # What was read so far: nothing of it ever changes.
        self.posts: list[Post] = []
        self.read = 0
        self.documents: list[dict[str, Any]] = []
        self.heads: dict[str, tuple[int, str]] = {}
        self.checked = 0

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(doing)

    @initialize()
    def begin(self) -> None:
        async def start() -> Rig:
            rig = await self.stack.enter_async_context(open_rig(Path(self.folder.name)))
            await rig.intent()
            await rig.channel()
            for agent, user in PEOPLE.items():
                unit = "sales" if agent == "carol" else "engineering"
                await place(rig, agent, user_id=user, org_unit=unit, max_classification=Classification.CONFIDENTIAL)
            await put_policy(rig, max_rounds=ROUNDS)
            return rig

        self.rig = self.run(start())

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()

    # ------------------------------------------------------------------ what happens

    @rule(
        sender=st.sampled_from(["alice", "bob"]),
        conversation=st.sampled_from(CONVERSATIONS),
        text=WORDS,
        level=LEVELS,
        human=st.booleans(),
    )
    def say(self, sender: str, conversation: str, text: str, level: Classification, human: bool) -> None:
        to = "bob" if sender == "alice" else "alice"
        self.tell(sender, to, conversation, text, level, human=human)

    @rule(conversation=st.sampled_from(CONVERSATIONS))
    def say_more_than_there_are_rounds(self, conversation: str) -> None:
        for sender, to in [("alice", "bob"), ("bob", "alice")] * 2:
            self.tell(sender, to, conversation, PLAIN, Classification.INTERNAL, human=False)

    @rule(conversation=st.sampled_from(CONVERSATIONS), text=WORDS)
    def say_to_another_org_unit(self, conversation: str, text: str) -> None:
        self.tell("alice", "carol", conversation, text, Classification.INTERNAL, human=False)

    def tell(self, sender: str, to: str, conversation: str, text: str, level: Classification, *, human: bool) -> None:
        talk = self.talk(conversation, sender, to)
        ended = talk is not None and self.past(talk)
        caller = person(PEOPLE[sender], sender) if human else self.rig.caller(sender)
        try:
            done = self.run(send(self.rig, caller, to, text, conversation_id=conversation, classification=level.value))
        except ParleyError as error:
            self.refused(talk, error, to, level, ended=ended)
            return
        assert not ended, "something was said in what is over"
        assert to != "carol" or self.crossing is not CrossOrg.DENY
        assert level.rank <= Classification.CONFIDENTIAL.rank
        if isinstance(done, Held):
            self.held(talk or self.begun(conversation, sender, to), done.approval, text, to, human=human)
            return
        self.accept(talk or self.begun(conversation, sender, to), done, human=human)
        assert human or text == PLAIN
        assert to != "carol" or self.crossing is CrossOrg.ALLOW

    crossing = CrossOrg.DENY

    def refused(self, talk: Talk | None, error: ParleyError, to: str, level: Classification, *, ended: bool) -> None:
        if ended:
            assert error.code in ("exchange_closed", "exchange_expired")
            return
        denied = {"policy_denied": to == "carol" and self.crossing is CrossOrg.DENY}
        denied["classification_exceeded"] = level is Classification.RESTRICTED
        assert denied.get(error.code), error
        if talk is not None:
            self.end(talk)

    def held(self, talk: Talk, approval: Approval, text: str, to: str, *, human: bool) -> None:
        if approval.cause is Cause.ROUND_LIMIT:
            assert talk.accepted >= ROUNDS
            assert not human
            assert talk.limit in ("", approval.id), "a second escalation of one limit"
            assert approval.escalation is not None
            assert approval.escalation["maxRounds"] == ROUNDS
            talk.limit = approval.id
        elif approval.id in talk.waits:
            # The same message again: its approval says why the first one was held, whatever the policy asks for now.
            assert approval.draft is not None
            assert json.loads(approval.draft.payload) == {"text": text}
        elif approval.cause is Cause.CROSS_ORG:
            assert to == "carol"
            assert self.crossing is CrossOrg.APPROVAL
        else:
            assert not human
            assert text == COMMITS
            assert approval.detected_keywords == ("promise",)
        talk.waits.add(approval.id)

    def accept(self, talk: Talk, post: Post, *, human: bool) -> None:
        talk.accepted += 1
        stamped = json.loads(post.metadata)["ocip"]
        assert stamped["exchange_round"] == talk.accepted
        assert human or talk.accepted <= ROUNDS

    @rule(conversation=st.sampled_from(CONVERSATIONS))
    def what_waits_is_approved_after_the_last_round(self, conversation: str) -> None:
        self.tell("alice", "bob", conversation, COMMITS, Classification.INTERNAL, human=False)
        self.say_more_than_there_are_rounds(conversation)
        talk = self.talk(conversation, "alice", "bob")
        for approval_id in sorted(talk.waits) if talk is not None else []:
            if talk is not None and approval_id in talk.waits:
                self.says(talk, approval_id, Decision.APPROVE, right=True)

    @precondition(lambda self: any(talk.waits for talk in self.talks.values()))
    @rule(data=st.data(), decision=DECISIONS, right=st.sampled_from([True, True, True, False]))
    def a_person_decides(self, data: st.DataObject, decision: Decision, right: bool) -> None:
        talk = data.draw(st.sampled_from([one for one in self.talks.values() if one.waits]), "talk")
        self.says(talk, data.draw(st.sampled_from(sorted(talk.waits)), "approval"), decision, right=right)

    def says(self, talk: Talk, approval_id: str, decision: Decision, *, right: bool) -> None:
        approval = self.approval(approval_id)
        over, pending = self.past(talk), approval.pending and approval.expires_at > self.rig.at()
        before = len(self.look())
        given = approval.digest if right else "0" * 64
        done = self.run(outcome(decide(self.rig, approval.user, approval, decision, digest=given)))
        if isinstance(done, ParleyError):
            self.not_decided(talk, approval, done, pending=pending, right=right)
            assert len(self.look()) == before
            return
        assert pending
        assert right
        said = self.look()[before:]
        assert not (over and said)
        if decision is Decision.REJECT:
            assert said == []
            self.end(talk)
            return
        assert done.message_id == said[0].id
        self.accept(talk, said[0], human=decision is Decision.ANSWER)
        talk.waits.discard(approval.id)
        if decision is Decision.APPROVE:
            self.approved.add(said[0].id)
            assert approval.draft is not None
            assert said[0].payload == approval.draft.payload.encode()
        elif approval.cause is Cause.ROUND_LIMIT:
            self.end(talk)

    def not_decided(self, talk: Talk, approval: Approval, error: ParleyError, *, pending: bool, right: bool) -> None:
        assert error.code in (
            "approval_stale",
            "approval_decided",
            "not_releasable",
            "exchange_closed",
            "exchange_expired",
            "policy_denied",
        )
        assert pending or error.code == "approval_decided"
        assert right or error.code in ("approval_stale", "approval_decided", "not_releasable")
        if error.code == "policy_denied":
            self.end(talk)
        if error.code == "not_releasable" and approval.cause is not Cause.ROUND_LIMIT:
            # All rounds were taken meanwhile: that is what a person has to look at now.
            assert talk.accepted >= ROUNDS
            assert talk.limit in ("", error.facts["approval"])
            talk.limit = str(error.facts["approval"])
            talk.waits.add(talk.limit)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), who=st.sampled_from(["alice", "ann", "eve"]))
    def somebody_closes(self, data: st.DataObject, who: str) -> None:
        talk = data.draw(st.sampled_from(list(self.talks.values())), "talk")
        caller = person(who) if who == "ann" else self.rig.caller(who)
        exchange = self.exchange(talk)
        done = self.run(outcome(exchanges.close(self.rig.team, caller, exchange.id, "")))
        if isinstance(done, ParleyError):
            expected = {
                # Nobody knows of what was never said to them.
                "not_found": who == "eve" or (talk.initiator != "alice" and not talk.accepted),
                "human_required": who == "alice" and exchange.outcome is Outcome.ESCALATED,
                "exchange_closed": exchange.over,
            }
            assert expected.get(done.code), done
            return
        assert not exchange.over
        self.end(talk)

    @rule(hours=st.sampled_from([1, 1, 5, 30]))
    def time_passes(self, hours: int) -> None:
        self.rig.clock.pass_by(hours=hours)

    @rule()
    def the_sweep_comes(self) -> None:
        self.run(sweep.sweep(self.rig.team))
        for talk in self.talks.values():
            exchange = self.exchange(talk)
            if exchange.over and not talk.over:
                # By time: its own, or that of what nobody decided about.
                assert exchange.outcome is (Outcome.EXPIRED if self.past(talk) else Outcome.DENIED)
                self.end(talk)
            assert exchange.over == talk.over

    @rule()
    def the_server_starts_again(self) -> None:
        self.run(self.rig.reopen())

    @rule(crossing=st.sampled_from(CrossOrg))
    def the_policy_changes(self, crossing: CrossOrg) -> None:
        self.run(put_policy(self.rig, max_rounds=ROUNDS, cross_org=crossing))
        self.crossing = crossing

    # ------------------------------------------------------------------ the model

    def talk(self, conversation: str, *pair: str) -> Talk | None:
        return self.talks.get((conversation, frozenset(pair)))

    def begun(self, conversation: str, *pair: str) -> Talk:
        talk = Talk(conversation, frozenset(pair), pair[0], ends=self.rig.clock.at + timedelta(hours=24))
        return self.talks.setdefault((conversation, talk.pair), talk)

    def past(self, talk: Talk) -> bool:
        return bool(talk.over or talk.ends <= self.rig.clock.at)

    def end(self, talk: Talk) -> None:
        talk.over = True
        talk.waits.clear()

    # ------------------------------------------------------------------ looking

    def look(self) -> list[Post]:
        """All that agents and people said, after reading what is new of it and of the audit log."""
        for item in self.run(self.rig.store.feed(DEFAULT_TENANT, self.read)):
            self.read = item.position
            self.posts += [item.post] if item.post and item.post.sender != SYSTEM else []
        for entry in self.run(self.rig.store.audits(DEFAULT_TENANT, AuditQuery(after=len(self.documents)))):
            self.follow(entry)
        return self.posts

    def follow(self, entry: AuditEntry) -> None:
        """One more entry, at its place in the tenant's log and on its side's chain."""
        document = json.loads(entry.document)
        seq, before = self.heads.get(entry.side, (0, "0" * 64))
        self.documents.append(document)
        assert (entry.number, entry.seq, document["prev_hash"]) == (len(self.documents), seq + 1, before)
        assert entry.entry_hash == entry_hash(entry.document)
        self.heads[entry.side] = (entry.seq, entry.entry_hash)

    def exchange(self, talk: Talk) -> Exchange:
        found = self.run(self.rig.store.children(Exchange, DEFAULT_TENANT, talk.conversation))
        (one,) = [one for one in found if one.reserved and {one.initiator, one.responder} == talk.pair]
        return one

    def approval(self, approval_id: str) -> Approval:
        found = self.run(self.rig.store.get(Approval, DEFAULT_TENANT, approval_id))
        assert found is not None
        return found

    @invariant()
    def rounds_are_those_of_the_model(self) -> None:
        """I17"""
        for talk in self.talks.values():
            exchange = self.exchange(talk)
            assert exchange.current_round == talk.accepted == len(exchange.transcript)
            assert [turn.round for turn in exchange.transcript] == list(range(1, talk.accepted + 1))
            assert exchange.limit_approval == talk.limit
            assert exchange.max_rounds == ROUNDS

    @invariant()
    def an_exchange_follows_the_automaton(self) -> None:
        """I18"""
        for exchange in self.run(self.rig.store.every(Exchange, DEFAULT_TENANT)):
            before = self.seen.get(exchange.id, Outcome.IN_PROGRESS)
            assert exchange.outcome in MAY_BECOME[before]
            self.seen[exchange.id] = exchange.outcome
            assert (exchange.ended_at != "") == exchange.over
            waits = [self.approval(one) for one in exchange.holds]
            assert all(one.pending for one in waits)
            if exchange.outcome is Outcome.IN_PROGRESS:
                assert not waits
                assert not exchange.limit_approval
            if exchange.outcome is Outcome.ESCALATED:
                assert waits or exchange.limit_approval

    @invariant()
    def nothing_waits_in_what_is_over(self) -> None:
        pending = self.run(self.rig.store.children(Approval, DEFAULT_TENANT, "pending"))
        known = {one for talk in self.talks.values() for one in talk.waits}
        assert {one.id for one in pending} == known
        for one in pending:
            exchange = self.run(self.rig.store.get(Exchange, DEFAULT_TENANT, one.exchange_id))
            assert exchange is not None
            assert not exchange.over

    @invariant()
    def what_was_promised_was_approved_by_a_person_before(self) -> None:
        """I19"""
        documents = self.documents
        for post in self.look()[self.checked :]:
            origin = json.loads(post.metadata)["ocip"]["message_type"]
            if b"promise" in post.payload:
                assert origin in ("agent-assisted", "human")
            assert (origin == "agent-assisted") == (post.id in self.approved)
            if origin != "agent-assisted":
                continue
            delivered = [one for one in documents if one.get("message_id") == post.id]
            approval = delivered[0]["approval"]
            decided = [one for one in documents if one["action"] == "approval_decided" and one["approval"] == approval]
            assert [one["decision"] for one in decided] == ["approved"]
            assert decided[0]["actor"] in PEOPLE.values()
            assert decided[0]["content_digest"] == digest(post.payload)
            assert documents.index(decided[0]) < documents.index(delivered[0])

    @invariant()
    def z_both_sides_say_the_same(self) -> None:
        """I20 and I21 and I23"""
        posts = self.look()
        told = [one for one in self.documents if one.get("outcome") == "delivered"]
        assert len(told) == 2 * len(posts)
        for post in posts[self.checked :]:
            sides = [one for one in told if one["message_id"] == post.id]
            assert [one["role"] for one in sides] == ["sender", "receiver"]
            assert [one["side"] for one in sides] == [post.sender, post.to]
            for key in ("exchange_id", "conversation_id", "round", "classification", "content_digest", "policy"):
                assert sides[0][key] == sides[1][key]
            assert sides[0]["exchange_id"] == post.exchange_id
            assert sides[0]["content_digest"] == digest(post.payload)
            assert level_of(sides[0]["classification"]).rank <= Classification.CONFIDENTIAL.rank
            assert sides[0]["policy"]
        self.checked = len(posts)
        for one in self.documents:
            if one.get("outcome") in ("denied", "held") and one["action"] == "agent_exchange":
                assert one["policy"]
                assert one["reason"]

    @invariant()
    def the_queue_of_each_agent_is_what_waits(self) -> None:
        pending = self.run(self.rig.store.children(Approval, DEFAULT_TENANT, "pending"))
        for agent in PEOPLE:
            spent = self.run(spent_of(self.rig, f"approvals/{agent}"))
            assert spent == len([one for one in pending if one.agent == agent])

    @invariant()
    def what_was_decided_names_who_and_what_came_of_it(self) -> None:
        for one in self.run(self.rig.store.children(Approval, DEFAULT_TENANT, "decided")):
            assert one.decided_by
            assert one.decided_at
            came = one.status in (ApprovalStatus.APPROVED, ApprovalStatus.ANSWERED)
            assert (one.message_id != "") == came


TestExchanges = Exchanges.TestCase
TestExchanges.settings = settings(
    max_examples=2_000 if FULL else 5 if is_postgres() else 25,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
