from __future__ import annotations

from dataclasses import replace

from parley.app.team import holding
from parley.domain.approval import ApprovalStatus, content_digest
from parley.domain.changes import digest
from parley.domain.directory import DEFAULT_TENANT
from parley.domain.exchange import escalated
from parley.domain.message import Pattern
from parley.domain.team_changes import Spend
from tests.governed_rig import exchange_of, held, place, put_policy, refusal, said, send, two_agents, waiting
from tests.governed_samples import a_held_draft, an_approval, an_exchange
from tests.team_rig import Rig, with_rig


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

    all_of_it = await holding.closing(rig.team, exchange, "ann")
    but_one = await holding.closing(rig.team, exchange, "ann", but=first.id)
    unknown = await holding.closing(rig.team, escalated(an_exchange(), "appr_none"), "ann")

    assert [(one.id, one.status, one.decided_by) for one in all_of_it.approvals] == [
        (first.id, ApprovalStatus.CLOSED, "ann"),
        (second.id, ApprovalStatus.CLOSED, "ann"),
    ]
    assert [one.key for one in all_of_it.spends] == ["approvals/alice", "approvals/bob"]
    assert [(one.side, one.action, one.facts["decision"]) for one in all_of_it.audits] == [
        ("alice", "approval_decided", "closed"),
        ("bob", "approval_decided", "closed"),
    ]
    assert [one.id for one in but_one.approvals] == [second.id]
    assert unknown == ((), (), ())


def test_only_what_took_a_place_in_the_queue_leaves_one() -> None:
    assert holding.left_queue(an_approval()) == (Spend("approvals/alice", 0, amount=-1),)
    assert holding.left_queue(an_approval(unique="loop/conv-1")) == ()


def test_the_digest_of_the_payload_is_that_of_its_delivery() -> None:
    assert holding.payload_digest(a_held_draft(payload="{}")) == digest(b"{}")


@with_rig
async def test_of_what_there_is_only_one_it_is_found_decided_or_not(rig: Rig) -> None:
    await rig.put(an_approval(unique="loop/conv-1"))

    pending = await holding.only_one(rig.team, DEFAULT_TENANT, "loop/conv-1")
    assert pending is not None
    await rig.put(replace(pending, status=ApprovalStatus.REJECTED))
    decided = await holding.only_one(rig.team, DEFAULT_TENANT, "loop/conv-1")

    assert decided is not None
    assert (pending.status, decided.status) == (ApprovalStatus.PENDING, ApprovalStatus.REJECTED)
    assert await holding.only_one(rig.team, DEFAULT_TENANT, "loop/conv-2") is None


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
