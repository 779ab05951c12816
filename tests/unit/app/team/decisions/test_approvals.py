from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from parley.app.team.channels import asking, posting
from parley.app.team.channels.posting import Held
from parley.app.team.decisions import approvals
from parley.app.team.decisions.approvals import ApprovalDecision, ApprovalFilter
from parley.app.team.directory import agents
from parley.app.team.rules import suspensions
from parley.app.team.rules.docket import TeamDocket
from parley.app.team.work import sweep
from parley.domain.agents.agent import AgentDraft
from parley.domain.agents.party import Attributes
from parley.domain.channel.post import Post
from parley.domain.content.classification import Classification, ContentPattern, OnOver
from parley.domain.directory.callers import DEFAULT_TENANT, SYSTEM, Caller, KeyKind
from parley.domain.exchange.approval import Approval, ApprovalStatus, Cause, Decision
from parley.domain.exchange.exchange import Outcome
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import AppliesTo, CrossOrg
from parley.domain.rules.suspension import Stopped
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
from tests.rigs.lists import collect
from tests.rigs.team import CHANNEL, Rig, before_the_commit, with_rig
from tests.samples.governed import an_approval

pytestmark = pytest.mark.both_stores

ADMIN = Caller("default", "", KeyKind.ADMIN, "key_admin")


async def posts(rig: Rig) -> list[Post]:
    """What was said by agents and people; what the server said itself is not part of it."""
    found = [item.post for item in await rig.store.feed(DEFAULT_TENANT, 0) if item.post]
    return [one for one in found if one.sender != SYSTEM]


# ---------------------------------------------------------------- approving


@with_rig
async def test_what_is_approved_goes_out_once_exactly_as_it_was_shown(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob", "We promise it.", conversation_id="conv-1")

    done = await decide(rig, "ann", approval, note="fine")

    (post,) = await posts(rig)
    assert post.payload == b'{"text":"We promise it."}'
    assert (done.status, done.decided_by, done.note, done.message_id) == (
        ApprovalStatus.APPROVED,
        "ann",
        "fine",
        post.id,
    )
    stamped = metadata_of(post)
    assert (stamped["ocip"]["message_type"], stamped["ocip"]["capabilities"]["can_commit"]) == ("agent-assisted", True)
    assert stamped["ocip_ext"]["approval"] == {"id": approval.id, "by": "ann"}
    exchange = await exchange_of(rig, post)
    assert (exchange.outcome, exchange.current_round) == (Outcome.IN_PROGRESS, 1)
    assert (await refusal(decide(rig, "ann", approval))).code == "approval_decided"
    assert len(await posts(rig)) == 1


@pytest.mark.parametrize("decision", [Decision.APPROVE, Decision.REJECT, Decision.ANSWER])
@with_rig
async def test_one_decision_opens_one_docket(rig: Rig, decision: Decision, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob", "We promise it.")
    opened: list[TeamDocket] = []
    open_docket = TeamDocket.__init__

    def counted(docket: TeamDocket, *about: Any) -> None:  # noqa: ANN401
        opened.append(docket)
        open_docket(docket, *about)

    monkeypatch.setattr(TeamDocket, "__init__", counted)

    await decide(rig, "ann", approval, decision)

    assert len(opened) == 1


@with_rig
async def test_of_many_who_decide_at_once_one_does(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, approvers=("dee",))
    approval = await held(rig, "alice", "bob")

    done = await asyncio.gather(
        *[decide(rig, user, approval, choice) for user in ("ann", "dee") for choice in Decision],
        return_exceptions=True,
    )

    assert len([one for one in done if isinstance(one, Approval)]) == 1
    assert {getattr(one, "code", "") for one in done if not isinstance(one, Approval)} <= {
        "approval_decided",
        "exchange_closed",
    }
    assert len(await posts(rig)) <= 1


@with_rig
async def test_a_held_answer_goes_to_who_asked(rig: Rig) -> None:
    await two_agents(rig)
    request = await said(rig, "alice", "bob")
    reply = await answer(rig, "bob", request, "I agree.")
    assert isinstance(reply, Held)

    await decide(rig, "ben", reply.approval)

    _, post = await posts(rig)
    assert (post.pattern, post.to, post.in_reply_to) == (Pattern.RESPONSE, "alice", request.id)


@with_rig
async def test_an_approval_lasts_over_a_restart(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    await rig.reopen()

    assert (await decide(rig, "ann", approval)).status is ApprovalStatus.APPROVED


@with_rig
async def test_under_another_policy_a_person_has_to_look_again(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    label = await put_policy(rig, max_rounds=9)

    stale = await refusal(decide(rig, "ann", approval))
    now = await waiting(rig, approval)

    assert stale.code == "approval_stale"
    assert stale.facts == {"approval": approval.id, "digest": now.digest}
    assert (now.policy_version, now.digest != approval.digest, now.draft) == (label, True, approval.draft)
    assert await posts(rig) == []
    assert (await decide(rig, "ann", now)).status is ApprovalStatus.APPROVED


@with_rig
async def test_what_would_be_sent_otherwise_than_it_was_shown_is_looked_at_again(rig: Rig) -> None:
    await two_agents(rig, max_classification=Classification.CONFIDENTIAL)
    await put_policy(rig, on_over_classified=OnOver.REDACT)
    data = [{"source": "hr", "fields": ["salary"], "classification": "confidential"}]
    approval = await held(rig, "alice", "bob", {"text": "We promise it.", "salary": 100}, data=data)
    assert approval.draft is not None
    assert json.loads(approval.draft.payload) == {"text": "We promise it.", "salary": "[redacted]"}
    raised = ContentPattern("customer", "promise it", Classification.CONFIDENTIAL)
    await put_policy(rig, on_over_classified=OnOver.WITHHOLD, patterns=(raised,))

    # Bound to the new policy first, and then to what comes of it.
    for _ in range(2):
        assert (await refusal(decide(rig, "ann", await waiting(rig, approval)))).code == "approval_stale"
    shown = await waiting(rig, approval)
    await decide(rig, "ann", shown)

    (post,) = await posts(rig)
    assert shown.draft is not None
    assert json.loads(post.payload) == json.loads(shown.draft.payload) == {"text": "We promise it."}
    assert metadata_of(post)["ocip"]["classification"] == shown.classification == "confidential"


@with_rig
async def test_an_approval_is_no_way_around_a_denial_and_ends_with_it(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales")
    await put_policy(rig, cross_org=CrossOrg.APPROVAL)
    approval = await held(rig, "alice", "carol", "hello")
    await put_policy(rig, cross_org=CrossOrg.DENY)
    await refusal(decide(rig, "ann", approval))

    refused = await refusal(decide(rig, "ann", await waiting(rig, approval)))

    assert refused.code == "policy_denied"
    assert (await exchange_of(rig, approval)).outcome is Outcome.DENIED
    assert (await waiting(rig, approval)).status is ApprovalStatus.CLOSED
    assert await posts(rig) == []


@with_rig
async def test_an_approval_makes_no_round_more(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "bob", "alice", conversation_id="conv-1")
    for sender, to in (("alice", "bob"), ("bob", "alice"), ("alice", "bob")):
        await said(rig, sender, to, conversation_id="conv-1")

    refused = await refusal(decide(rig, "ben", approval))

    assert refused.code == "not_releasable"
    assert len(await posts(rig)) == 3
    limit = await held(rig, "alice", "bob", "more", conversation_id="conv-1")
    assert refused.facts == {"approval": limit.id}


# ---------------------------------------------------------------- rejecting, answering


@with_rig
async def test_what_is_rejected_never_goes_out_and_its_exchange_is_denied(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob", conversation_id="conv-1")
    other = await held(rig, "bob", "alice", conversation_id="conv-1")

    done = await decide(rig, "ann", approval, Decision.REJECT, note="no")

    assert (done.status, done.message_id) == (ApprovalStatus.REJECTED, "")
    exchange = await exchange_of(rig, approval)
    assert (exchange.outcome, exchange.ended_by, exchange.reason) == (Outcome.DENIED, "ann", "rejected")
    assert (await waiting(rig, other)).status is ApprovalStatus.CLOSED
    assert await posts(rig) == []
    assert (await refusal(send(rig, "alice", "bob", conversation_id="conv-1"))).code == "exchange_closed"


@with_rig
async def test_a_person_answers_in_its_agents_place_and_it_goes_on(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob", conversation_id="conv-1")

    done = await decide(rig, "ann", approval, Decision.ANSWER)

    (post,) = await posts(rig)
    assert (done.status, done.message_id) == (ApprovalStatus.ANSWERED, post.id)
    assert json.loads(post.payload) == {"text": "I say it myself."}
    assert (post.sender, metadata_of(post)["ocip"]["message_type"]) == ("alice", "human")
    assert "disclosure" not in metadata_of(post)
    assert (await exchange_of(rig, post)).outcome is Outcome.IN_PROGRESS
    await said(rig, "bob", "alice", conversation_id="conv-1")


@with_rig
async def test_a_limit_that_a_person_answers_is_resolved_and_what_else_waits_is_closed(rig: Rig) -> None:
    await two_agents(rig)
    for sender, to in (("alice", "bob"), ("bob", "alice"), ("alice", "bob")):
        await said(rig, sender, to, conversation_id="conv-1")
    limit = await held(rig, "bob", "alice", "one more", conversation_id="conv-1")

    assert (await refusal(decide(rig, "ben", limit))).code == "not_releasable"
    await decide(rig, "ben", limit, Decision.ANSWER)

    exchange = await exchange_of(rig, limit)
    assert (exchange.outcome, exchange.current_round, exchange.ended_by) == (Outcome.RESOLVED, 4, "ben")
    assert (await refusal(send(rig, "alice", "bob", conversation_id="conv-1"))).code == "exchange_closed"


@with_rig
async def test_what_needs_no_reply_and_is_answered_by_a_person_is_answered_and_not_closed(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, applies_to=AppliesTo.ALL)
    draft = a_draft("bob", "We promise it.", pattern=Pattern.NOTIFY)
    done = await posting.post(rig.team, rig.caller("alice"), CHANNEL, draft)
    assert isinstance(done, Held)

    after = await decide(rig, "ann", done.approval, Decision.ANSWER)

    assert after.status is ApprovalStatus.ANSWERED
    assert (await exchange_of(rig, done.approval)).outcome is Outcome.RESOLVED


@with_rig
async def test_who_may_decide_across_org_units_may_also_answer_there(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales", user_id="cleo")
    await put_policy(rig, cross_org=CrossOrg.APPROVAL)
    approval = await held(rig, "alice", "carol", "hello")

    done = await decide(rig, "ann", approval, Decision.ANSWER)

    assert (approval.cause, done.status) == (Cause.CROSS_ORG, ApprovalStatus.ANSWERED)
    assert len(await rig.store.children(Approval, DEFAULT_TENANT, "pending")) == 0


@with_rig
async def test_a_person_answers_where_its_agent_has_said_enough_for_an_hour(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, pair_budget=1)
    await said(rig, "alice", "bob")
    refused = await refusal(send(rig, "alice", "bob", "more"))
    limit = await waiting(rig, an_approval(id=str(refused.facts["approval"])))

    assert (await refusal(decide(rig, "ann", limit))).code == "not_releasable"
    done = await decide(rig, "ann", limit, Decision.ANSWER)

    assert (limit.cause, done.status) == (Cause.PAIR_BUDGET, ApprovalStatus.ANSWERED)
    spoken = (await posts(rig))[1]
    assert (json.loads(spoken.payload), spoken.exchange_id != "") == ({"text": "I say it myself."}, True)
    assert (await refusal(send(rig, "alice", "bob", "more"))).code == "pair_budget"


@with_rig
async def test_a_person_answers_where_agents_ran_in_a_circle(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "dora")
    await put_policy(rig, hop_limit=1)
    await said(rig, "alice", "bob", conversation_id="conv-1")
    refused = await refusal(send(rig, "bob", "dora", conversation_id="conv-1"))
    limit = await waiting(rig, an_approval(id=str(refused.facts["approval"])))

    done = await decide(rig, "ben", limit, Decision.ANSWER)

    assert (limit.cause, done.status) == (Cause.LOOP, ApprovalStatus.ANSWERED)
    (_, post) = await posts(rig)
    assert (post.sender, post.to, (await exchange_of(rig, post)).outcome) == ("bob", "dora", Outcome.RESOLVED)


@with_rig
async def test_an_answer_says_something(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")

    refused = await refusal(decide(rig, "ann", approval, Decision.ANSWER, answer=b""))

    assert refused.code == "invalid"


@with_rig
async def test_a_delegate_who_answers_is_named_as_who_speaks(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, approvers=("dee",))
    approval = await held(rig, "alice", "bob")

    await decide(rig, "dee", approval, Decision.ANSWER)

    (post,) = await posts(rig)
    assert metadata_of(post)["ocip"]["source_agent"]["user_id"] == "dee"


# ---------------------------------------------------------------- who


@with_rig
async def test_only_a_person_decides_and_only_one_whom_it_concerns(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    deciding = ApprovalDecision(Decision.APPROVE, approval.digest)

    for caller in (rig.caller("alice"), rig.caller("bob"), ADMIN, Caller("default", "", KeyKind.SERVICE, "k", "ann")):
        assert (await refusal(approvals.decide(rig.team, caller, approval.id, deciding))).code == "human_required"
    for user in ("ben", "eve"):
        assert (await refusal(decide(rig, user, approval))).code == "not_found"
    foreign = person("ann")._replace(tenant="globex")
    assert (await refusal(decide(rig, foreign, approval))).code == "not_found"
    assert (await refusal(approvals.decide(rig.team, person("ann"), "appr_none", deciding))).code == "not_found"
    assert await posts(rig) == []


@pytest.mark.parametrize("decision", [Decision.APPROVE, Decision.REJECT, Decision.ANSWER])
@with_rig
async def test_a_suspended_person_decides_nothing(rig: Rig, decision: Decision) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob", "We promise it.")
    await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "ann", "")

    assert (await refusal(decide(rig, "ann", approval, decision))).code == "suspended"
    assert await posts(rig) == []


@with_rig
async def test_where_four_eyes_are_asked_for_the_own_person_does_not_decide(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, self_approval=False, approvers=("dee", "ann"))
    approval = await held(rig, "alice", "bob")

    assert (await refusal(decide(rig, "ann", approval))).code == "self_approval"
    assert await approvals.deciders(rig.team, approval) == ("dee",)
    assert (await decide(rig, "dee", approval)).decided_by == "dee"


@with_rig
async def test_whoever_has_something_to_do_with_it_sees_it(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, approvers=("dee",))
    approval = await held(rig, "alice", "bob")

    for caller in (rig.caller("alice"), person("ann"), person("dee"), ADMIN):
        assert [one.id for one in await collect(approvals.list_page(rig.team, caller))] == [approval.id]
        assert (await approvals.get(rig.team, caller, approval.id)).id == approval.id
    for caller in (rig.caller("bob"), person("ben"), Caller("default", "bob", KeyKind.ADMIN, "k")):
        assert await collect(approvals.list_page(rig.team, caller)) == []
        assert (await refusal(approvals.get(rig.team, caller, approval.id))).code == "not_found"


@with_rig
async def test_all_pages_together_are_all_approvals_whatever_became_of_them(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "_PAGE", 2)
    await two_agents(rig)
    made = [
        await held(rig, *(("alice", "bob") if number % 4 else ("bob", "alice")), f"We promise {number}.")
        for number in range(12)
    ]
    for one in made[:6]:
        if one.agent == "alice":
            await decide(rig, "ann", one, Decision.REJECT)

    async def pages(status: ApprovalStatus | None, limit: int) -> list[str]:
        found: list[str] = []
        after = ""
        while page := await collect(
            approvals.list_page(rig.team, person("ann"), ApprovalFilter(status, after=after, limit=limit))
        ):
            assert len(page) <= limit
            found += [one.id for one in page]
            after = page[-1].id
        return found

    mine = [one.id for one in made if one.agent == "alice"]
    for limit in (1, 2, 3, 100):
        assert await pages(None, limit) == mine
        assert await pages(ApprovalStatus.PENDING, limit) == [one for one in mine if one > made[5].id]
        assert await pages(ApprovalStatus.REJECTED, limit) == [one for one in mine if one <= made[5].id]
        assert await pages(ApprovalStatus.APPROVED, limit) == []


# ---------------------------------------------------------------- time


@with_rig
async def test_what_nobody_decides_in_time_is_denied(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, approval_hours=2)
    approval = await held(rig, "alice", "bob")
    await approvals.expire(rig.team, DEFAULT_TENANT, approval.id)
    assert (await waiting(rig, approval)).pending

    rig.clock.pass_by(hours=2)
    assert (await refusal(decide(rig, "ann", approval))).code == "approval_decided"
    await sweep.sweep(rig.team)
    await approvals.expire(rig.team, DEFAULT_TENANT, approval.id)

    after = await waiting(rig, approval)
    assert (after.status, after.decided_by) == (ApprovalStatus.EXPIRED, "system")
    assert (await exchange_of(rig, approval)).outcome is Outcome.DENIED
    decided = [one for one in await entries(rig) if one["action"] == "approval_decided"]
    assert [(one["actor"], one["decision"]) for one in decided] == [("system", "expired")]


@with_rig
async def test_where_both_times_have_passed_the_exchange_has_expired_whoever_says_so_first(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    rig.clock.pass_by(hours=25)

    await approvals.expire(rig.team, DEFAULT_TENANT, approval.id)

    assert (await exchange_of(rig, approval)).outcome is Outcome.EXPIRED
    assert (await waiting(rig, approval)).status is ApprovalStatus.EXPIRED


@with_rig
async def test_a_question_that_was_waited_for_can_be_approved_long_after_nobody_waits(rig: Rig) -> None:
    await two_agents(rig)
    draft = a_draft("bob", "Can you promise it?", exchange_type="information_query")
    asked = await asking.ask(rig.team, rig.caller("alice"), CHANNEL, draft, 5.0)
    assert isinstance(asked, Held)
    rig.clock.pass_by(minutes=10)

    done = await decide(rig, "ann", asked.approval)

    assert done.status is ApprovalStatus.APPROVED
    (post,) = await posts(rig)
    assert post.expires_at == ""


# ---------------------------------------------------------------- another owner


async def give_to_ben(rig: Rig) -> None:
    """An admin lets alice act for ben."""
    attributes = Attributes(org_unit="engineering", user_id="ben")
    await agents.register(rig.team, ADMIN, AgentDraft("alice", attributes=attributes))


@pytest.mark.requirement("GOV-APPROVE-OWNER")
@with_rig
async def test_who_an_agent_acts_for_now_decides_about_what_was_held_before(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    other = await held(rig, "bob", "alice")
    await give_to_ben(rig)

    assert (await refusal(decide(rig, "ann", approval))).code == "not_found"
    assert await collect(approvals.list_page(rig.team, person("ann"))) == []
    assert await approvals.deciders(rig.team, await waiting(rig, approval)) == ("ben",)
    assert (await waiting(rig, approval)).told_at == ""  # ben has not been told yet
    assert (await waiting(rig, other)).version == 1  # as it was
    await decide(rig, "ben", approval)

    (post,) = await posts(rig)
    assert metadata_of(post)["ocip"]["source_agent"]["user_id"] == "ben"


@with_rig
async def test_the_first_person_of_an_agent_decides_about_what_was_held_before(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "newcomer")
    approval = await held(rig, "newcomer", "bob")
    assert await approvals.deciders(rig.team, approval) == ()

    attributes = Attributes(org_unit="engineering", user_id="ann")
    await agents.register(rig.team, ADMIN, AgentDraft("newcomer", attributes=attributes))

    assert await approvals.deciders(rig.team, await waiting(rig, approval)) == ("ann",)


@with_rig
async def test_an_owner_who_is_replaced_at_the_moment_of_the_decision_decides_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two_agents(rig)
    for decision in (Decision.APPROVE, Decision.ANSWER, Decision.REJECT):
        await place(rig, "alice", user_id="ann")
        approval = await held(rig, "alice", "bob", f"We promise {decision}.")
        before_the_commit(rig, monkeypatch, give_to_ben)

        assert (await refusal(decide(rig, "ann", approval, decision))).code == "not_found"
        assert (await waiting(rig, approval)).pending
    assert await posts(rig) == []


@with_rig
async def test_what_a_person_wrote_in_the_place_of_an_agent_is_not_released_once_that_is_another_persons(
    rig: Rig,
) -> None:
    await two_agents(rig)
    await place(rig, "bob", org_unit="sales", user_id="ben")
    await put_policy(rig, cross_org=CrossOrg.APPROVAL)
    approval = await held(rig, person("ann", "alice"), "bob")
    assert approval.human
    await give_to_ben(rig)

    assert (await refusal(decide(rig, "ann", approval))).code == "not_releasable"
    assert (await decide(rig, "ann", approval, Decision.REJECT)).status is ApprovalStatus.REJECTED
