"""Approvals as they are opened and closed, on a server: in a mailbox it is the same code."""

from __future__ import annotations

from parley.app.rules import holding
from parley.app.team.rules.docket import TeamDocket
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.exchange.approval import ApprovalStatus, content_digest
from parley.domain.exchange.exchange import escalated
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Spend
from tests.rigs.governed import exchange_of, held, place, put_policy, refusal, said, send, two_agents, waiting
from tests.rigs.team import Rig, with_rig
from tests.samples.governed import an_approval, an_exchange


@with_rig
async def test_an_approval_is_bound_to_everything_that_would_be_sent(rig: Rig) -> None:
    await two_agents(rig)
    label = await put_policy(rig)

    approval = await held(rig, "alice", "bob", "We promise it.", classification="public", note="beside it")

    assert approval.draft is not None
    assert (approval.draft.pattern, approval.draft.to, approval.policy_version) == ("request", "bob", label)
    assert "beside it" in approval.draft.metadata
    assert approval.digest == content_digest(approval.draft, "alice", "public", label)


@with_rig
async def test_nobody_decides_longer_than_the_policy_or_the_exchange_or_the_message_lasts(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, approval_hours=2)

    by_policy = await held(rig, "alice", "bob")
    by_exchange = await held(rig, "alice", "bob", expires_at="2026-03-13T15:00:00Z")

    assert by_policy.expires_at == "2026-03-13T16:30:00.000000+00:00"
    assert by_exchange.expires_at == "2026-03-13T15:00:00.000000+00:00"


@with_rig
async def test_what_is_over_with_its_exchange_is_closed_and_what_was_decided_stays(rig: Rig) -> None:
    await two_agents(rig)
    first = await held(rig, "alice", "bob", conversation_id="conv-1")
    second = await held(rig, "bob", "alice", conversation_id="conv-1")
    exchange = await exchange_of(rig, first)

    docket = await TeamDocket.open(rig.team, DEFAULT_TENANT)

    all_of_it = await holding.close_waiting(docket, exchange, "ann")
    but_one = await holding.close_waiting(docket, exchange, "ann", except_id=first.id)
    unknown = await holding.close_waiting(docket, escalated(an_exchange(), "appr_none"), "ann")

    assert [(one.id, one.status, one.decided_by) for one in all_of_it.approvals] == [
        (first.id, ApprovalStatus.CLOSED, "ann"),
        (second.id, ApprovalStatus.CLOSED, "ann"),
    ]
    assert [one.key for one in holding.queue_freed(all_of_it.approvals)] == ["approvals/alice", "approvals/bob"]
    assert [(one.side, one.action, one.facts["decision"]) for one in all_of_it.audits] == [
        ("alice", "approval_decided", "closed"),
        ("bob", "approval_decided", "closed"),
    ]
    assert [one.id for one in but_one.approvals] == [second.id]
    assert unknown == ((), ())


def test_only_what_took_a_place_in_the_queue_leaves_one() -> None:
    unique = an_approval(unique="loop/conv-1")

    assert holding.queue_freed((an_approval(), unique)) == (Spend("approvals/alice", 0, amount=-1),)


@with_rig
async def test_an_escalation_of_a_limit_releases_nothing_and_shows_what_was_tried(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "dora")
    await put_policy(rig, pair_budget=1)
    await said(rig, "alice", "bob")

    refused = await refusal(send(rig, "alice", "bob", "and more", pattern=Pattern.NOTIFY))

    approval = await waiting(rig, an_approval(id=str(refused.facts["approval"])))
    assert approval.draft is not None
    assert (approval.draft.payload, approval.agent, approval.user) == ('{"text":"and more"}', "alice", "ann")
    assert approval.name.startswith("pair_budget/alice,bob/")
