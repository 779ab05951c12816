"""One held message and everybody who may, or may not, decide about it: it goes out once, as it was shown, or never.

The team and its store are the real ones. The model knows who is who, what was shown, and what time it is.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from parley.app.team.work import sweep
from parley.domain.channel.post import Post
from parley.domain.directory.callers import DEFAULT_TENANT, SYSTEM, Caller, KeyKind
from parley.domain.errors.errors import ParleyError
from parley.domain.exchange.approval import Approval, ApprovalStatus, Decision
from parley.domain.exchange.exchange import Exchange
from tests.fault.conftest import FULL
from tests.rigs.chosen_store import is_postgres
from tests.rigs.governed import decide, held, person, put_policy, two_agents
from tests.rigs.memory import roomy_folder
from tests.rigs.team import Rig, open_rig

pytestmark = [pytest.mark.both_stores, pytest.mark.fault]

T = TypeVar("T")
# ann is whom alice acts for, dee a delegate where the policy names her, ben somebody else's person.
PEOPLE = ("ann", "ann", "ann", "dee", "ben")
# Mostly what leads somewhere.
DECISIONS = st.sampled_from([Decision.APPROVE, *Decision])
MOSTLY = st.sampled_from([True, True, True, False])
OTHER_KEYS = (KeyKind.AGENT, KeyKind.SERVICE, KeyKind.ADMIN)
ANSWER = b'{"text":"I say it myself."}'


@dataclass
class Waiting:
    """What the model knows of one approval."""

    text: str
    # What was shown last to whoever looked, and the policy that it was bound to then.
    digest: str
    label: str
    ends: datetime
    status: ApprovalStatus = ApprovalStatus.PENDING
    by: str = ""


class Approvals(RuleBasedStateMachine):
    """Beside the real store, one `Waiting` for each approval."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.folder = tempfile.TemporaryDirectory(dir=roomy_folder())
        self.waiting: dict[str, Waiting] = {}
        self.delegates: tuple[str, ...] = ()
        self.self_approval = True
        self.label = ""
        self.said: list[bytes] = []

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(doing)

    @initialize()
    def begin(self) -> None:
        async def start() -> Rig:
            rig = await self.stack.enter_async_context(open_rig(Path(self.folder.name)))
            await two_agents(rig)
            return rig

        self.rig = self.run(start())
        self.the_policy_changes((), self_approval=True)

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()

    # ------------------------------------------------------------------ what happens

    @precondition(lambda self: len(self.waiting) < 6)
    @rule()
    def something_is_held(self) -> None:
        text = f"We promise it, {len(self.waiting)}."
        approval = self.run(held(self.rig, "alice", "bob", text))
        ends = self.rig.clock.at + timedelta(hours=24)
        self.waiting[approval.id] = Waiting(text, approval.digest, self.label, ends)
        assert approval.policy_version == self.label

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), user=st.sampled_from(PEOPLE), decision=DECISIONS, seen=MOSTLY)
    def a_person_decides(self, data: st.DataObject, user: str, decision: Decision, seen: bool) -> None:
        self.says(data.draw(st.sampled_from(sorted(self.waiting)), "approval"), user, decision, seen=seen)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def a_person_decides_just_after_the_policy_changed(self, data: st.DataObject) -> None:
        self.the_policy_changes(self.delegates, self_approval=True)
        self.says(data.draw(st.sampled_from(sorted(self.waiting)), "approval"), "ann", Decision.APPROVE, seen=True)

    def says(self, approval_id: str, user: str, decision: Decision, *, seen: bool) -> None:
        model = self.waiting[approval_id]
        expected = self.expected(model, user, decision, seen=seen)
        code = self.decides(person(user), approval_id, decision, model.digest if seen else "f" * 64)
        assert code == expected
        if code == "approval_stale":
            # Whoever looks now sees what is bound to the policy of now.
            model.digest = self.approval(approval_id).digest
            model.label = self.approval(approval_id).policy_version
        if code:
            return
        model.status, model.by = STATUS[decision], user
        if decision is Decision.APPROVE:
            self.said.append(json.dumps({"text": model.text}, separators=(",", ":")).encode())
        elif decision is Decision.ANSWER:
            self.said.append(ANSWER)

    def expected(self, model: Waiting, user: str, decision: Decision, *, seen: bool) -> str:
        """Why this is refused; empty when it is not."""
        delegate = user in self.delegates
        if user != "ann" and not delegate:
            return "not_found"
        if user == "ann" and not self.self_approval:
            return "self_approval"
        if model.status is not ApprovalStatus.PENDING or model.ends <= self.rig.clock.at:
            return "approval_decided"
        if not seen or (decision is Decision.APPROVE and model.label != self.label):
            return "approval_stale"
        return ""

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), kind=st.sampled_from(OTHER_KEYS), decision=st.sampled_from(Decision))
    def no_other_key_decides(self, data: st.DataObject, kind: KeyKind, decision: Decision) -> None:
        approval_id = data.draw(st.sampled_from(sorted(self.waiting)), "approval")
        agent = "alice" if kind is KeyKind.AGENT else ""
        caller = Caller(DEFAULT_TENANT, agent, kind, "key_1", "ann")
        assert self.decides(caller, approval_id, decision, self.waiting[approval_id].digest) == "human_required"

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), first=st.sampled_from(Decision), second=st.sampled_from(Decision))
    def two_decide_at_once(self, data: st.DataObject, first: Decision, second: Decision) -> None:
        approval_id = data.draw(st.sampled_from(sorted(self.waiting)), "approval")
        model = self.waiting[approval_id]
        if any(self.expected(model, "ann", one, seen=True) for one in (first, second)):
            return
        approval = self.approval(approval_id)

        async def both() -> list[Approval | BaseException]:
            doing = [decide(self.rig, "ann", approval, one, answer=ANSWER) for one in (first, second)]
            return await asyncio.gather(*doing, return_exceptions=True)

        done = self.run(both())
        (won,) = [one for one in done if isinstance(one, Approval)]
        (lost,) = [one for one in done if isinstance(one, ParleyError)]
        # Who comes too late may find that the exchange is over, before it finds out by what.
        assert lost.code in ("approval_decided", "exchange_closed")
        model.status, model.by = won.status, "ann"
        if won.status is ApprovalStatus.APPROVED:
            self.said.append(json.dumps({"text": model.text}, separators=(",", ":")).encode())
        elif won.status is ApprovalStatus.ANSWERED:
            self.said.append(ANSWER)

    @rule(delegates=st.sampled_from([(), ("dee",), ("ann", "dee")]), self_approval=MOSTLY)
    def the_policy_changes(self, delegates: tuple[str, ...], self_approval: bool) -> None:
        said: dict[str, Any] = {"approvers": delegates} if delegates else {}
        self.label = self.run(put_policy(self.rig, self_approval=self_approval, **said))
        self.delegates, self.self_approval = delegates, self_approval

    @rule(hours=st.sampled_from([1, 1, 11, 25]))
    def time_passes(self, hours: int) -> None:
        self.rig.clock.pass_by(hours=hours)

    @rule()
    def the_sweep_comes(self) -> None:
        self.run(sweep.sweep(self.rig.team))
        for approval_id, model in self.waiting.items():
            if model.status is ApprovalStatus.PENDING and model.ends <= self.rig.clock.at:
                # Its exchange ends at the same moment: one of the two says so first.
                model.status = self.approval(approval_id).status
                assert model.status in (ApprovalStatus.EXPIRED, ApprovalStatus.CLOSED)
                model.by = "system"

    @rule()
    def the_server_starts_again(self) -> None:
        self.run(self.rig.reopen())

    # ------------------------------------------------------------------ looking

    def decides(self, caller: Caller, approval_id: str, decision: Decision, digest: str) -> str:
        """The code of the refusal; empty when it was decided."""
        approval = self.approval(approval_id)
        try:
            after = self.run(decide(self.rig, caller, approval, decision, digest=digest, answer=ANSWER))
        except ParleyError as error:
            return error.code
        assert (after.status, after.decided_by) == (STATUS[decision], caller.user)
        return ""

    def approval(self, approval_id: str) -> Approval:
        found = self.run(self.rig.store.get(Approval, DEFAULT_TENANT, approval_id))
        assert found is not None
        return found

    def posts(self) -> tuple[list[Post], list[Post]]:
        """What went out, and what the server said about it."""
        found = [item.post for item in self.run(self.rig.store.feed(DEFAULT_TENANT, 0)) if item.post]
        return [one for one in found if one.sender != SYSTEM], [one for one in found if one.sender == SYSTEM]

    @invariant()
    def each_stands_as_the_model_says(self) -> None:
        for approval_id, model in self.waiting.items():
            approval = self.approval(approval_id)
            assert (approval.status, approval.decided_by) == (model.status, model.by)
            assert (approval.digest, approval.policy_version) == (model.digest, model.label)

    @invariant()
    def exactly_what_was_approved_or_answered_went_out_once(self) -> None:
        posts, _ = self.posts()
        assert [one.payload for one in posts] == self.said
        for post in posts:
            ext, stamped = (json.loads(post.metadata)[name] for name in ("ocip_ext", "ocip"))
            if post.payload == ANSWER:
                assert stamped["message_type"] == "human"
                assert "disclosure" not in json.loads(post.metadata)
                continue
            assert stamped["message_type"] == "agent-assisted"
            released = self.waiting[ext["approval"]["id"]]
            assert json.loads(post.payload) == {"text": released.text}
            assert ext["approval"]["by"] == released.by
            assert self.approval(ext["approval"]["id"]).message_id == post.id

    @invariant()
    def the_agent_alone_is_told_of_each_decision_once(self) -> None:
        _, words = self.posts()
        told = [json.loads(one.payload) for one in words]
        over = {one: model for one, model in self.waiting.items() if model.status is not ApprovalStatus.PENDING}
        assert {one["approval_id"]: one["status"] for one in told} == {one: over[one].status.value for one in over}
        assert len(told) == len(over)
        assert {one["message_id"] for one in told} - {None} == {one.id for one in self.posts()[0]}
        assert all((one.to, one.recipients) == ("alice", ("alice",)) for one in words)

    @invariant()
    def what_a_person_refused_is_denied_and_what_one_allowed_goes_on(self) -> None:
        for approval_id, model in self.waiting.items():
            exchange = self.run(self.rig.store.get(Exchange, DEFAULT_TENANT, self.approval(approval_id).exchange_id))
            assert exchange is not None
            allowed = model.status in (ApprovalStatus.APPROVED, ApprovalStatus.ANSWERED)
            assert exchange.current_round == allowed
            if model.status is ApprovalStatus.REJECTED:
                assert exchange.outcome.value == "denied"
            elif model.status is ApprovalStatus.PENDING:
                assert exchange.outcome.value == "escalated"


STATUS = {
    Decision.APPROVE: ApprovalStatus.APPROVED,
    Decision.REJECT: ApprovalStatus.REJECTED,
    Decision.ANSWER: ApprovalStatus.ANSWERED,
}

TestApprovals = Approvals.TestCase
TestApprovals.settings = settings(
    max_examples=2_000 if FULL else 5 if is_postgres() else 30,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
