"""Who may claim: agents that left, suspensions, rules, tenants."""

from __future__ import annotations

import asyncio

import pytest

from parley.app.team.channels import posting
from parley.app.team.channels.posting import Held
from parley.app.team.directory import departure
from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimWish
from parley.app.team.rules import suspensions
from parley.domain.channel.job import JobState
from parley.domain.channel.post import PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Forbidden, LeaseLost
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import (
    AgentDeparted,
)
from parley.domain.message.message import Pattern
from parley.domain.rules import suspension
from parley.domain.rules.suspension import Stopped, Suspension, Suspensions
from tests.rigs.governed import place, put_policy, said
from tests.rigs.queues import WORKERS, claim, claim_one, enqueue, reply, stage, stored, waiting_claim
from tests.rigs.team import CHANNEL, Rig, before_the_commit, with_rig

pytestmark = pytest.mark.both_stores


@with_rig
async def test_a_holder_that_is_deregistered_gives_its_job_back(rig: Rig) -> None:
    await stage(rig)
    await rig.agent("bob")
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob", lease_seconds=30)
    waits = await waiting_claim(rig, "carol")
    await departure.depart(rig.team, rig.caller("bob"), "bob")

    with pytest.raises(AgentDeparted):
        await claims.extend(rig.team, rig.caller("bob"), "bob", job.id, job.lease, 30)
    with pytest.raises((AgentDeparted, Forbidden, LeaseLost)):
        await reply(rig, "bob", request, job.lease)
    async with asyncio.timeout(10):
        (item,) = await waits
    assert (item.job.id, item.job.attempts, item.job.lost_readers) == (job.id, 1, 0)


@with_rig
async def test_an_agent_that_is_deregistered_while_it_claims_gets_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage(rig)
    await rig.agent("bob")
    post = await enqueue(rig)

    async def depart(rig: Rig) -> None:
        await departure.depart(rig.team, rig.caller("bob"), "bob")

    before_the_commit(rig, monkeypatch, depart)
    with pytest.raises(AgentDeparted):
        await claim(rig, "bob")
    job = await stored(rig, post)
    assert job is not None
    assert job.state is JobState.WAITING


@with_rig
async def test_a_holder_that_is_suspended_loses_the_job_with_its_lease(rig: Rig) -> None:
    await stage(rig)
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob", lease_seconds=30)
    stop = Suspension(what=Stopped.AGENT, name="bob", by="ann", at=rig.at())
    await rig.put(Suspensions(id=suspension.ALL, tenant_id=DEFAULT_TENANT, stopped=(stop,)))

    with pytest.raises(Suspended):
        await claims.extend(rig.team, rig.caller("bob"), "bob", job.id, job.lease, 30)
    with pytest.raises(Suspended):
        await reply(rig, "bob", request, job.lease)
    rig.clock.pass_by(seconds=30)
    assert await claim(rig, "bob") == []  # its key is refused before that
    assert len(await claim(rig, "carol")) == 1


@with_rig
async def test_who_gets_the_role_later_claims_only_what_no_rule_concerns(rig: Rig) -> None:
    await rig.intent(agents=(*WORKERS, "dora", "sam"))
    await rig.channel()
    for agent in ("alice", "bob"):
        await place(rig, agent, org_unit="engineering")
    await place(rig, "sam", org_unit="sales")
    await rig.role("coder", "bob")
    await enqueue(rig)
    await rig.role("coder", "bob", "sam")

    assert await claim(rig, "sam") == []
    assert len(await claim(rig, "bob")) == 1


@with_rig
async def test_only_those_holders_claim_to_whom_the_rules_let_it_go(rig: Rig) -> None:
    """It is judged as what is said to all of them: never weaker."""
    await rig.intent(agents=(*WORKERS, "dora", "sam"))
    await rig.channel()
    await place(rig, "alice", org_unit="engineering", user_id="ann")
    await place(rig, "bob", org_unit="engineering", user_id="ben")
    await place(rig, "sam", org_unit="sales", user_id="sue")
    await rig.role("coder", "bob", "sam")
    await put_policy(rig)
    to_all = await said(rig, "alice", "role:coder")
    to_one = await said(rig, "alice", "any:coder")
    job = await stored(rig, to_one)

    assert job is not None
    assert job.eligible == to_all.recipients == ("bob",)
    assert await claim(rig, "sam") == []
    assert len(await claim(rig, "bob")) == 1


@pytest.mark.parametrize("change", ["moved", "suspended"])
@with_rig
async def test_who_is_kept_from_the_sender_after_it_was_posted_does_not_claim_it(rig: Rig, change: str) -> None:
    await rig.intent(agents=(*WORKERS, "dora", "sam"))
    await rig.channel()
    for agent in ("alice", *WORKERS):
        await place(rig, agent, org_unit="engineering")
    await rig.role("coder", *WORKERS)
    await put_policy(rig)
    await enqueue(rig)
    if change == "moved":
        await place(rig, "bob", org_unit="sales")
    else:
        await suspensions.suspend(rig.team, rig.caller("", KeyKind.ADMIN), Stopped.PAIR, "alice, bob", "")

    assert await claim(rig, "bob") == []
    assert len(await claim(rig, "carol")) == 1


@with_rig
async def test_a_governed_request_is_claimed_and_answered_in_its_exchange(rig: Rig) -> None:
    await rig.intent(agents=(*WORKERS, "dora", "sam"))
    await rig.channel()
    await place(rig, "alice", org_unit="engineering", user_id="ann")
    for agent in WORKERS:
        await place(rig, agent, org_unit="engineering", user_id="ben")
    await rig.role("coder", *WORKERS)
    await put_policy(rig)
    request = await said(rig, "alice", "any:coder", "which schema?")
    (item,) = await claim(rig, "carol")
    answer = await posting.reply(
        rig.team,
        rig.caller("carol"),
        CHANNEL,
        request.id,
        PostDraft(Pattern.RESPONSE, b'{"text":"this one"}', lease=item.job.lease),
    )

    assert request.exchange_id
    assert not isinstance(answer, Held)
    assert answer.exchange_id == request.exchange_id
    assert await stored(rig, request) is None


@with_rig
async def test_jobs_of_one_tenant_are_no_jobs_of_another(rig: Rig) -> None:
    await stage(rig)
    await rig.tenant("other")
    await rig.intent("intent_2", tenant="other", agents=("bob",))
    await rig.channel("chan_9", intent_id="intent_2", tenant="other")
    await rig.role("coder", "bob", tenant="other")
    await enqueue(rig)

    assert await claims.claim(rig.team, rig.caller("bob", tenant="other"), "bob", ClaimWish(most=9)) == []
