"""The server's docket: what it finds, and the commit that a decision becomes."""

from __future__ import annotations

from dataclasses import replace

from parley.app.rules.docket import RulesDecision
from parley.app.team.rules.docket import TeamDocket
from parley.domain.channel.post import Post
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.exchange.approval import ApprovalStatus, decided
from parley.domain.record import expecting
from parley.domain.store.changes import Spend
from tests.rigs.governed import exchange_of, held, said, two_agents
from tests.rigs.team import Rig, with_rig
from tests.samples.governed import an_approval


@with_rig
async def test_of_what_there_is_only_one_it_is_found_decided_or_not(rig: Rig) -> None:
    await rig.put(an_approval(unique="loop/conv-1"))
    docket = await TeamDocket.open(rig.team, DEFAULT_TENANT)

    pending = await docket.approval_by_key("loop/conv-1")
    assert pending is not None
    await rig.put(replace(pending, status=ApprovalStatus.REJECTED))
    decided = await docket.approval_by_key("loop/conv-1")

    assert decided is not None
    assert (pending.status, decided.status) == (ApprovalStatus.PENDING, ApprovalStatus.REJECTED)
    assert await docket.approval_by_key("loop/conv-2") is None


@with_rig
async def test_everyone_who_has_an_entry_about_an_exchange_is_a_side_of_it(rig: Rig) -> None:
    await two_agents(rig)
    waits = await held(rig, "alice", "bob")
    post = await said(rig, "alice", "bob")
    docket = await TeamDocket.open(rig.team, DEFAULT_TENANT)

    assert await docket.sides(await exchange_of(rig, waits)) == ("alice",)
    assert await docket.sides(await exchange_of(rig, post)) == ("alice", "bob")


@with_rig
async def test_what_is_put_need_not_be_expected_and_what_is_decided_frees_its_place(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    exchange = await exchange_of(rig, approval)
    docket = await TeamDocket.open(rig.team, DEFAULT_TENANT, [expecting(exchange)])
    rejected = decided(approval, ApprovalStatus.REJECTED, "ann", docket.at, "")

    changes = await docket.changes(RulesDecision[Post](exchange=exchange, approvals=(rejected,)))

    assert changes.puts == (exchange, rejected)
    assert expecting(exchange) not in changes.expects
    assert changes.spends == (Spend("approvals/alice", 0, amount=-1),)
    assert [post.to for post in changes.posts] == ["alice"]
