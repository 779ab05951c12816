from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from parley.app.team.channels import posting
from parley.app.team.channels.posting import Held
from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.channel.post import Post, PostState
from parley.domain.content.classification import Classification, OnOver
from parley.domain.content.disclosure import DISCLOSURE
from parley.domain.directory.callers import DEFAULT_TENANT, SYSTEM
from parley.domain.errors.errors import Invalid
from parley.domain.errors.rules import PolicyUnavailable
from parley.domain.exchange.approval import Approval, ApprovalStatus, Cause, Decision
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import CURRENT, AppliesTo, CrossOrg, PolicySnapshot
from parley.domain.rules.ruling import Proposal, Ruling
from parley.domain.rules.suspension import ALL, Stopped, Suspension, Suspensions
from tests.rigs.governed import (
    a_draft,
    answer,
    decide,
    entries,
    exchange_of,
    held,
    metadata_of,
    person,
    place,
    put_policy,
    refusal,
    said,
    send,
    two_agents,
    waiting,
)
from tests.rigs.team import CHANNEL, Rig, venue, with_rig

NOTE = Pattern.NOTIFY


async def posts(rig: Rig) -> list[Post]:
    """What was said by agents and people; what the server said itself is not part of it."""
    found = [item.post for item in await rig.store.feed(DEFAULT_TENANT, 0) if item.post]
    return [one for one in found if one.sender != SYSTEM]


# ---------------------------------------------------------------- what is governed


@with_rig
async def test_within_an_org_unit_nothing_is_governed_that_does_not_ask_for_it(rig: Rig) -> None:
    await two_agents(rig)

    post = await rig.say("alice", "We promise it.", to="bob")

    assert post.exchange_id == ""
    assert post.metadata == b"{}"
    assert await entries(rig) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"exchange_type": "information_query"},
        {"classification": "public"},
        {"max_rounds": 2},
        {"data": [{"source": "crm", "fields": ["x"], "classification": "public"}]},
        {"ocip_ext": {"approval": {"id": "appr_1", "by": "boss"}}},
    ],
)
@with_rig
async def test_a_sender_puts_its_message_under_the_rules_by_saying_any_of_this(
    rig: Rig, metadata: dict[str, Any]
) -> None:
    await two_agents(rig)

    post = await posting.post(rig.team, rig.caller("alice"), CHANNEL, a_draft("bob", **metadata))

    assert isinstance(post, Post)
    assert post.exchange_id
    assert "approval" not in metadata_of(post)["ocip_ext"]
    assert metadata_of(post)["disclosure"]


@with_rig
async def test_everything_between_org_units_is_governed_and_denied_by_default(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales")

    refused = await refusal(rig.say("alice", to="carol"))

    assert refused.code == "policy_denied"
    assert await posts(rig) == []
    entry, ended = await entries(rig)
    assert (entry["outcome"], entry["code"], entry["side"], entry["target_org"]) == (
        "denied",
        "policy_denied",
        "alice",
        "sales",
    )
    assert (ended["action"], ended["side"], ended["outcome"]) == ("agent_exchange_ended", "alice", "denied")


@with_rig
async def test_where_the_policy_applies_to_all_everything_is_governed(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, applies_to=AppliesTo.ALL)

    post = await rig.say("alice", to="bob")

    exchange = await exchange_of(rig, post)
    assert exchange.outcome is Outcome.RESOLVED  # a notify needs no reply
    assert metadata_of(post)["ocip"]["reply_policy"] == "no-reply-needed"


@with_rig
async def test_an_answer_to_a_governed_message_is_governed(rig: Rig) -> None:
    await two_agents(rig)
    request = await said(rig, "alice", "bob")

    reply = await answer(rig, "bob", request)

    assert isinstance(reply, Post)
    assert reply.exchange_id == request.exchange_id
    assert (metadata_of(reply)["ocip"]["exchange_round"], (await exchange_of(rig, reply)).current_round) == (2, 2)


@with_rig
async def test_what_names_a_running_conversation_of_the_pair_goes_on_with_it(rig: Rig) -> None:
    await two_agents(rig)
    first = await said(rig, "alice", "bob", conversation_id="conv-1")

    draft = a_draft("alice", pattern=NOTE, conversation_id="conv-1")
    second = await posting.post(rig.team, rig.caller("bob"), CHANNEL, draft)

    assert isinstance(second, Post)
    assert second.exchange_id == first.exchange_id


@with_rig
async def test_the_same_conversation_of_another_pair_is_another_exchange(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "dora")
    first = await said(rig, "alice", "bob", conversation_id="conv-1")

    second = await said(rig, "alice", "dora", conversation_id="conv-1")

    assert second.exchange_id != first.exchange_id
    assert metadata_of(second)["ocip_ext"]["hops"] == 1
    onward = await said(rig, "bob", "dora", conversation_id="conv-1")
    assert metadata_of(onward)["ocip_ext"]["hops"] == 2


@with_rig
async def test_what_led_to_a_message_counts_as_a_hop_in_another_conversation(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "dora")
    led = await said(rig, "alice", "bob")

    onward = await said(rig, "bob", "dora", parent_message_id=led.id)

    assert metadata_of(onward)["ocip_ext"]["hops"] == 2


# ---------------------------------------------------------------- delivered


@with_rig
async def test_a_message_that_passes_is_stamped_and_recorded_on_both_sides(rig: Rig) -> None:
    await two_agents(rig)

    post = await said(rig, "alice", "bob", conversation_id="conv-1")

    stamped = metadata_of(post)
    assert stamped["ocip"]["source_agent"] == {
        "instance_id": "alice",
        "user_id": "ann",
        "org_unit": "engineering",
        "tenant_id": "default",
    }
    assert stamped["ocip_ext"]["exchange_id"] == post.exchange_id
    assert stamped["disclosure"] == DISCLOSURE
    assert (post.recipients, post.state) == (("bob",), PostState.DELIVERED)
    mine, others = await entries(rig)
    assert (mine["side"], mine["role"], others["side"], others["role"]) == ("alice", "sender", "bob", "receiver")


@with_rig
async def test_what_may_not_pass_is_not_in_the_message_and_the_record_says_so(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, on_over_classified=OnOver.WITHHOLD)
    data = [
        {"source": "hr", "fields": ["salary"], "classification": "restricted", "description": "what he earns"},
        {"source": "crm", "fields": ["name"], "classification": "public"},
    ]

    post = await said(rig, "alice", "bob", {"name": "Bob", "salary": 100}, data=data)

    assert json.loads(post.payload) == {"name": "Bob"}
    assert [one["source"] for one in metadata_of(post)["data"]] == ["crm"]
    for entry in await entries(rig):
        assert entry["dataShared"] == [{"source": "crm", "fields": ["name"]}]
        assert entry["dataWithheld"] == [{"reason": "restricted is above internal", "description": "what he earns"}]


@with_rig
async def test_a_person_in_its_agents_place_speaks_for_itself(rig: Rig) -> None:
    await two_agents(rig)

    post = await said(rig, person("ann", "alice"), "bob", "We promise it.")

    stamped = metadata_of(post)
    assert stamped["ocip"]["message_type"] == "human"
    assert "disclosure" not in stamped
    assert stamped["ocip_ext"]["disclosure"] is None
    assert {entry["actor"] for entry in await entries(rig)} == {"ann"}


@with_rig
async def test_what_is_for_many_goes_to_those_who_may_have_it(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales")

    post = await posting.post(rig.team, rig.caller("alice"), CHANNEL, a_draft("*", pattern=Pattern.BROADCAST))

    assert isinstance(post, Post)
    assert post.recipients == ("bob",)
    assert (await entries(rig))[0]["excluded"] == [{"agent": "carol", "reason": "policy_denied"}]


@with_rig
async def test_where_there_is_one_org_unit_what_is_for_everyone_stays_for_everyone(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()

    post = await posting.post(rig.team, rig.caller("alice"), CHANNEL, a_draft("*", pattern=Pattern.BROADCAST))

    assert isinstance(post, Post)
    assert post.recipients is None


@with_rig
async def test_what_nobody_can_receive_nobody_can_judge(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(policy=MemberPolicy.EXPLICIT)

    draft = a_draft("*", pattern=Pattern.BROADCAST, exchange_type="information_query")
    refused = await refusal(posting.post(rig.team, rig.caller("alice"), CHANNEL, draft))

    assert refused.code == "policy_denied"


# ---------------------------------------------------------------- held


@with_rig
async def test_a_held_message_is_nowhere_but_in_its_approval(rig: Rig) -> None:
    await two_agents(rig)

    approval = await held(rig, "alice", "bob", "We promise it.", conversation_id="conv-1")

    assert await posts(rig) == []
    assert (approval.cause, approval.detected_keywords, approval.user) == (Cause.COMMITMENT, ("promise",), "ann")
    assert approval.draft is not None
    assert approval.draft.payload == '{"text":"We promise it."}'
    assert await waiting(rig, approval) == replace(approval, version=1)
    exchange = await exchange_of(rig, approval)
    assert (exchange.outcome, exchange.holds, exchange.current_round) == (Outcome.ESCALATED, (approval.id,), 0)
    (entry,) = await entries(rig)
    assert (entry["side"], entry["outcome"], entry["approval"]) == ("alice", "held", approval.id)


@with_rig
async def test_the_fourth_of_three_rounds_opens_one_escalation_however_often_it_is_tried(rig: Rig) -> None:
    await two_agents(rig)
    for sender, to in (("alice", "bob"), ("bob", "alice"), ("alice", "bob")):
        await said(rig, sender, to, f"{sender} says", conversation_id="conv-1")

    first = await held(rig, "bob", "alice", "one more", conversation_id="conv-1")
    await rig.reopen()
    again = await held(rig, "alice", "bob", "and more", conversation_id="conv-1")

    assert first.id == again.id
    assert first.escalation == {
        "exchangeId": first.exchange_id,
        "conversationId": "conv-1",
        "currentRound": 4,
        "maxRounds": 3,
        "conversationSummary": "Round 1 (alice): alice says\nRound 2 (bob): bob says\n"
        "Round 3 (alice): alice says\nRound 4 (bob): one more",
        "reason": "Exchange reached maximum round limit (3). Human review required.",
    }
    assert len(await posts(rig)) == 3
    assert len([one for one in await entries(rig) if one["outcome"] == "held"]) == 2


@pytest.mark.both_stores
@with_rig
async def test_of_many_who_speak_at_once_as_many_are_heard_as_there_are_rounds(rig: Rig) -> None:
    await two_agents(rig)

    done = await asyncio.gather(
        *[send(rig, sender, to, conversation_id="conv-1") for sender, to in [("alice", "bob"), ("bob", "alice")] * 16]
    )

    delivered = [one for one in done if isinstance(one, Post)]
    escalations = {one.approval.id for one in done if isinstance(one, Held)}
    assert sorted(metadata_of(one)["ocip"]["exchange_round"] for one in delivered) == [1, 2, 3]
    assert len(escalations) == 1


@with_rig
async def test_as_many_messages_wait_as_a_persons_patience_allows(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, open_approvals=2)
    first = await held(rig, "alice", "bob", "We promise one.")
    await held(rig, "alice", "bob", "We promise two.")

    refused = await refusal(send(rig, "alice", "bob", "We promise it."))
    await held(rig, "bob", "alice")  # another's queue
    await decide(rig, "ann", first, Decision.REJECT)
    await held(rig, "alice", "bob")

    assert (refused.code, refused.facts["retry_after"]) == ("approval_queue_full", 60)


# ---------------------------------------------------------------- limits of a pair, and of a chain


@with_rig
async def test_a_pair_has_a_budget_for_each_hour_and_one_escalation_of_it(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, pair_budget=2)
    await said(rig, "alice", "bob")
    await said(rig, "bob", "alice")

    first = await refusal(send(rig, "alice", "bob"))
    second = await refusal(send(rig, "bob", "alice"))

    assert first.code == second.code == "pair_budget"
    assert first.facts == second.facts == {"retry_after": 1800, "approval": first.facts["approval"]}
    (approval,) = await rig.store.children(Approval, DEFAULT_TENANT, "pending")
    assert (approval.id, approval.cause) == (first.facts["approval"], Cause.PAIR_BUDGET)
    rig.clock.pass_by(minutes=31)
    await said(rig, "alice", "bob")


@with_rig
async def test_deciding_about_a_limit_frees_no_place_in_the_queue(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, pair_budget=1, open_approvals=1)
    await said(rig, "alice", "bob")
    limit = await refusal(send(rig, "alice", "bob"))
    await held(rig, "alice", "bob")

    found = await rig.store.get(Approval, DEFAULT_TENANT, str(limit.facts["approval"]))
    assert found is not None
    await decide(rig, "ann", found, Decision.REJECT)

    assert (await refusal(send(rig, "alice", "bob", "We promise more."))).code == "approval_queue_full"


@with_rig
async def test_a_circle_of_agents_ends_with_one_escalation(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "dora")
    await put_policy(rig, hop_limit=3, max_rounds=50)
    circle = [("alice", "bob"), ("bob", "dora"), ("dora", "alice")]

    codes: list[str] = []
    escalations = set()
    for number in range(12):
        sender, to = circle[number % 3]
        try:
            done = await said(rig, sender, to, conversation_id="conv-1")
            codes.append(str(metadata_of(done)["ocip_ext"]["hops"]))
        except Exception as error:  # noqa: BLE001  # its code is looked at
            codes.append(getattr(error, "code", str(error)))
            escalations.add(getattr(error, "facts", {}).get("approval"))

    assert codes[:4] == ["1", "2", "3", "loop_detected"]
    assert len(escalations - {None}) == 1
    assert len(await posts(rig)) == len([one for one in codes if one.isdigit()])


# ---------------------------------------------------------------- denied


@with_rig
async def test_a_denial_ends_what_had_begun_and_closes_what_waits_in_it(rig: Rig) -> None:
    await two_agents(rig)
    first = await said(rig, "alice", "bob", conversation_id="conv-1")
    waits = await held(rig, "bob", "alice", conversation_id="conv-1")

    refused = await refusal(send(rig, "alice", "bob", classification="restricted", conversation_id="conv-1"))

    assert refused.code == "classification_exceeded"
    assert (await exchange_of(rig, first)).outcome is Outcome.DENIED
    assert (await waiting(rig, waits)).status is ApprovalStatus.CLOSED
    assert (await refusal(send(rig, "bob", "alice", conversation_id="conv-1"))).code == "exchange_closed"
    closed = [one for one in await entries(rig) if one["action"] == "approval_decided"]
    assert [(one["approval"], one["decision"], one["side"]) for one in closed] == [(waits.id, "closed", "bob")]


@with_rig
async def test_what_is_said_last_in_what_needs_no_reply_closes_what_waits_in_it(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, applies_to=AppliesTo.ALL)

    async def tell(text: str) -> Post | Held:
        draft = a_draft("bob", text, pattern=NOTE, conversation_id="conv-1")
        return await posting.post(rig.team, rig.caller("alice"), CHANNEL, draft)

    first = await tell("We promise it.")
    assert isinstance(first, Held)
    await tell("It is done.")

    assert (await waiting(rig, first.approval)).status is ApprovalStatus.CLOSED


@with_rig
async def test_a_denial_of_what_never_began_leaves_its_conversation_free(rig: Rig) -> None:
    await two_agents(rig)
    await refusal(send(rig, "alice", "bob", classification="restricted", conversation_id="conv-1"))

    post = await said(rig, "alice", "bob", conversation_id="conv-1")

    found = await rig.store.children(Exchange, DEFAULT_TENANT, "conv-1")
    assert [one.outcome for one in found] == [Outcome.DENIED, Outcome.IN_PROGRESS]
    assert found[1].id == post.exchange_id


@with_rig
async def test_an_invalid_envelope_is_refused_recorded_and_takes_no_round(rig: Rig) -> None:
    await two_agents(rig)

    refused = await refusal(send(rig, "alice", "bob", ocip={"version": "1.0"}))

    assert refused.code == "envelope_invalid"
    assert await posts(rig) == []
    (entry,) = await entries(rig)
    assert (entry["outcome"], entry["code"]) == ("denied", "envelope_invalid")


@with_rig
async def test_without_a_policy_nothing_is_sent_and_that_is_recorded(rig: Rig) -> None:
    await two_agents(rig)
    await rig.put(PolicySnapshot(id=CURRENT, tenant_id=DEFAULT_TENANT))

    asked, unasked = await refusal(send(rig, "alice", "bob")), await refusal(rig.say("alice", to="bob"))

    assert asked.code == unasked.code == "policy_unavailable"
    assert [one["code"] for one in await entries(rig)] == ["policy_unavailable"] * 2


@pytest.mark.parametrize("to", ["bob@globex", "nobody@globex", "*@globex", "role:x@globex", "bob@nowhere"])
@with_rig
async def test_nothing_crosses_from_one_tenant_to_another_whatever_is_there(rig: Rig, to: str) -> None:
    await two_agents(rig)
    await rig.tenant("globex")
    await rig.agent("bob", tenant="globex")

    refused = await refusal(posting.post(rig.team, rig.caller("alice"), CHANNEL, a_draft(to)))

    assert (refused.code, refused.message, refused.facts) == (
        "cross_enterprise_blocked",
        "nothing crosses from one tenant to another",
        {},
    )
    (entry,) = await entries(rig)
    assert (entry["side"], entry["to"], entry["code"]) == ("alice", to, "cross_enterprise_blocked")


@with_rig
async def test_the_own_tenant_may_be_named(rig: Rig) -> None:
    await two_agents(rig)

    post = await said(rig, "alice", "bob@default")

    assert (post.to, post.recipients) == ("bob", ("bob",))


# ---------------------------------------------------------------- suspended


@with_rig
async def test_who_is_suspended_sends_nothing_and_gets_nothing_governed_or_not(rig: Rig) -> None:
    await two_agents(rig)
    stop = Suspension(what=Stopped.AGENT, name="bob", by="admin", at=rig.at())
    await rig.put(Suspensions(id=ALL, tenant_id=DEFAULT_TENANT, stopped=(stop,)))

    codes = [
        (await refusal(rig.say("bob", to="alice"))).code,
        (await refusal(rig.say("alice", to="bob"))).code,
        (await refusal(send(rig, "alice", "bob"))).code,
        (await refusal(send(rig, person("ben", "bob"), "alice"))).code,
    ]

    assert codes == ["suspended"] * 4
    assert [one["code"] for one in await entries(rig)] == ["suspended"] * 4


@with_rig
async def test_what_is_for_everyone_passes_by_who_is_suspended(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "dora")
    stop = Suspension(what=Stopped.AGENT, name="bob", by="admin", at=rig.at())
    await rig.put(Suspensions(id=ALL, tenant_id=DEFAULT_TENANT, stopped=(stop,)))

    post = await posting.post(rig.team, rig.caller("alice"), CHANNEL, a_draft("*", pattern=Pattern.BROADCAST))

    assert isinstance(post, Post)
    assert post.recipients == ("dora",)


# ---------------------------------------------------------------- the rest of the way


@with_rig
async def test_an_audited_channel_shows_only_the_digest_of_what_is_governed(rig: Rig) -> None:
    await two_agents(rig)
    await rig.channel("chan_a", options=Options(audit=True))
    draft = a_draft("bob", "for bob alone", exchange_type="information_query")

    await posting.post(rig.team, rig.caller("alice"), "chan_a", draft)

    (event,) = [item.event for item in await rig.store.feed(DEFAULT_TENANT, 0) if item.event]
    assert b"for bob alone" not in event.document
    assert b"sha256" in event.document


@with_rig
async def test_a_batch_holds_nothing_and_refuses_what_is_refused(rig: Rig) -> None:
    await two_agents(rig)
    plain = a_draft("bob")
    promise = a_draft("bob", "We promise it.", exchange_type="information_query")
    caller = rig.caller("alice")

    for drafts in ([promise], [plain, promise], [a_draft("bob", exchange_type="information_query"), plain]):
        refused = await refusal(posting.post_all(rig.team, caller, CHANNEL, drafts))
        assert isinstance(refused, Invalid)
    abroad = await refusal(posting.post_all(rig.team, caller, CHANNEL, [plain, a_draft("bob@globex")]))

    assert abroad.code == "cross_enterprise_blocked"
    assert await posts(rig) == []
    assert await rig.store.children(Approval, DEFAULT_TENANT, "pending") == ()


@with_rig
async def test_what_was_looked_at_must_not_change_before_the_commit(rig: Rig) -> None:
    await two_agents(rig)
    draft = a_draft("bob", exchange_type="information_query")
    decided = await posting.decide(rig.team, rig.caller("alice"), venue(rig, "alice"), (draft,), ("msg_x",))

    await place(rig, "bob", org_unit="sales")

    refused = await refusal(rig.store.commit(decided.changes))
    assert refused.code == "stale"


class Stricter:
    """An organisation's own rules, which deny everything, or break."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        assert proposal.sender.agent == "alice"
        if self.error is not None:
            raise self.error
        return ruling


@with_rig
async def test_rules_of_an_organisation_that_break_let_nothing_pass(rig: Rig) -> None:
    await two_agents(rig)
    rig.team.governance.extension = Stricter(PolicyUnavailable("its rules are broken"))

    refused = await refusal(send(rig, "alice", "bob"))
    rig.team.governance.extension = Stricter()
    await said(rig, "alice", "bob")

    assert refused.code == "policy_unavailable"
    assert (await entries(rig))[0]["code"] == "policy_unavailable"


@with_rig
async def test_a_further_detector_holds_what_it_finds(rig: Rig) -> None:
    await two_agents(rig)
    rig.team.governance.detectors = (lambda texts: ["swear"] if any("swear" in one for one in texts) else [],)

    approval = await held(rig, "alice", "bob", "I swear.")

    assert approval.detected_keywords == ("swear",)


@with_rig
async def test_a_persons_own_message_that_waits_stays_a_persons(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales", user_id="cleo")
    await put_policy(rig, cross_org=CrossOrg.APPROVAL, approvers=("dee",))

    approval = await held(rig, person("ann", "alice"), "carol", "We promise it.")
    done = await decide(rig, "dee", approval)

    (post,) = await posts(rig)
    assert (approval.cause, approval.user, done.decided_by) == (Cause.CROSS_ORG, "ann", "dee")
    stamped = metadata_of(post)
    assert stamped["ocip"]["message_type"] == "human"
    assert stamped["ocip"]["source_agent"]["user_id"] == "ann"
    assert "disclosure" not in stamped
    assert stamped["ocip_ext"]["approval"] == {"id": approval.id, "by": "dee"}


@with_rig
async def test_a_level_above_what_an_agent_may_share_goes_nowhere(rig: Rig) -> None:
    await two_agents(rig, max_classification=Classification.PUBLIC)

    assert (await refusal(send(rig, "alice", "bob"))).code == "classification_exceeded"
    await said(rig, "alice", "bob", classification="public")
