"""Leases: who has a job answers it, keeps it, gives it back, or loses it to the next."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from parley.app.team.channels import posting, venues
from parley.app.team.queues import claims
from parley.domain.channel.job import LOST_READERS_MAX, JobState
from parley.domain.channel.post import PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import LeaseLost
from parley.domain.message.message import Pattern
from tests.rigs.chosen_store import is_postgres
from tests.rigs.queues import WORKERS, claim, claim_one, enqueue, reply, stage, stored, waiting_claim
from tests.rigs.team import CHANNEL, Rig, in_loop, open_rig, with_rig

pytestmark = pytest.mark.both_stores


@with_rig
async def test_the_answer_ends_the_job(rig: Rig) -> None:
    await stage(rig)
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig)
    answer = await reply(rig, "bob", request, job.lease)

    assert answer.to == "alice"
    assert await stored(rig, request) is None
    rig.clock.pass_by(hours=1)
    assert await claim(rig, "carol") == []


@with_rig
async def test_an_answer_needs_the_lease_of_who_has_the_job(rig: Rig) -> None:
    await stage(rig)
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob")

    for agent, lease in (("bob", ""), ("bob", "made up"), ("carol", job.lease), ("dora", "")):
        with pytest.raises(LeaseLost):
            await reply(rig, agent, request, lease)
    assert await rig.store.answers(DEFAULT_TENANT, request.id) == ()


@with_rig
async def test_a_late_answer_after_a_hand_over_is_refused(rig: Rig) -> None:
    await stage(rig)
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    late = await claim_one(rig, "bob", lease_seconds=10)
    rig.clock.pass_by(seconds=11)
    job = await claim_one(rig, "carol")

    with pytest.raises(LeaseLost, match="carol has it now"):
        await reply(rig, "bob", request, late.lease)
    await reply(rig, "carol", request, job.lease)
    assert len(await rig.store.answers(DEFAULT_TENANT, request.id)) == 1


@with_rig
async def test_an_answer_that_crosses_a_hand_over_is_refused_in_the_commit(rig: Rig) -> None:
    """Both were decided on the same version of the job: one of them wins."""
    await stage(rig)
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob")
    handed_on = replace(job, holder="carol", lease="another")
    draft = PostDraft(Pattern.RESPONSE, b"{}", in_reply_to=request.id, lease=job.lease)
    decided = await posting.decide(
        rig.team,
        rig.caller("bob"),
        lambda: venues.venue_of(rig.team, rig.caller("bob"), CHANNEL),
        (draft,),
        ("msg_late",),
    )
    await rig.put(handed_on)

    with pytest.raises(Exception, match="the job has changed meanwhile"):
        await rig.store.commit(decided.changes)


@with_rig
async def test_an_answer_after_the_lease_counts_while_nobody_else_has_the_job(rig: Rig) -> None:
    await stage(rig)
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, lease_seconds=5)
    rig.clock.pass_by(hours=1)

    assert (await reply(rig, "bob", request, job.lease)).to == "alice"


@with_rig
async def test_the_next_one_gets_the_job_when_the_lease_runs_out(rig: Rig) -> None:
    await stage(rig)
    await enqueue(rig)
    await claim(rig, "bob", lease_seconds=30)
    rig.clock.pass_by(seconds=29)
    assert await claim(rig, "carol") == []
    rig.clock.pass_by(seconds=1)

    job = await claim_one(rig, "carol")
    assert (job.attempts, job.lost_readers, job.holder) == (2, 1, "carol")


@with_rig
async def test_a_lease_is_extended_by_who_has_it_and_by_nobody_else(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig)
    job = await claim_one(rig, "bob", lease_seconds=30)
    rig.clock.pass_by(seconds=20)
    await claims.extend(rig.team, rig.caller("bob"), "bob", job.id, job.lease, 30)
    for agent, lease in (("bob", "made up"), ("carol", job.lease)):
        with pytest.raises(LeaseLost):
            await claims.extend(rig.team, rig.caller(agent), agent, job.id, lease, 3600)
    rig.clock.pass_by(seconds=20)
    assert await claim(rig, "carol") == []
    rig.clock.pass_by(seconds=10)

    assert len(await claim(rig, "carol")) == 1
    with pytest.raises(LeaseLost):
        await claims.extend(rig.team, rig.caller("bob"), "bob", job.id, job.lease, 30)
    assert (await stored(rig, post)) is not None


@with_rig
async def test_a_wall_clock_that_jumps_gives_no_job_to_two(rig: Rig) -> None:
    await stage(rig)
    await enqueue(rig)
    await claim(rig, "bob", lease_seconds=30)
    rig.clock.at += timedelta(days=1)  # the wall is set, no time has passed
    assert await claim(rig, "carol") == []
    rig.clock.at -= timedelta(days=2)
    assert await claim(rig, "carol") == []
    rig.clock.pass_by(seconds=30)

    assert len(await claim(rig, "carol")) == 1


@with_rig
async def test_after_a_restart_a_lease_counts_anew(rig: Rig) -> None:
    await stage(rig)
    await enqueue(rig)
    await claim(rig, "bob", lease_seconds=30)
    rig.clock.pass_by(hours=1)  # the server was away
    await rig.reopen()
    assert await claim(rig, "carol") == []
    rig.clock.pass_by(seconds=30)

    assert len(await claim(rig, "carol")) == 1


@with_rig
async def test_a_message_that_ends_its_readers_does_not_come_for_ever(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig)
    for attempt in range(LOST_READERS_MAX):
        job = await claim_one(rig, WORKERS[attempt % 2], lease_seconds=10)
        assert job.attempts == attempt + 1
        rig.clock.pass_by(seconds=10)

    assert await claim(rig, "bob") == []
    dead = await stored(rig, post)
    assert dead is not None
    assert (dead.state, dead.error) == (JobState.DEAD, "its reader ended 5 times")


@with_rig
async def test_a_released_job_is_as_if_it_had_not_been_claimed(rig: Rig) -> None:
    await stage(rig)
    await enqueue(rig)
    for _ in range(2 * LOST_READERS_MAX):
        job = await claim_one(rig)
        await claims.release(rig.team, rig.caller("bob"), "bob", job.id, job.lease)

    job = await claim_one(rig, "carol")
    assert (job.attempts, job.lost_readers) == (1, 0)


@with_rig
async def test_a_failed_job_waits_for_its_time_and_is_dead_without_one(rig: Rig) -> None:
    await stage(rig)
    await enqueue(rig)
    job = await claim_one(rig)
    await claims.fail(rig.team, rig.caller("bob"), "bob", job.id, job.lease, "no disk", 60)
    rig.clock.pass_by(seconds=59)
    assert await claim(rig, "carol") == []
    rig.clock.pass_by(seconds=1)
    job = await claim_one(rig, "carol")
    assert (job.attempts, job.lost_readers, job.error) == (2, 0, "no disk")
    dead = await claims.fail(rig.team, rig.caller("carol"), "carol", job.id, job.lease, "still no disk", None)

    assert (dead.state, dead.error) == (JobState.DEAD, "still no disk")
    assert (dead.attempts, dead.lost_readers) == (2, 0)  # both handlers failed in good order
    assert await claim(rig, "bob") == []


@with_rig
async def test_a_claim_that_waits_gets_a_job_when_its_pause_ends(rig: Rig) -> None:
    """Also one that was waiting before the pause began."""
    await stage(rig)
    await enqueue(rig)
    job = await claim_one(rig, "bob")
    waits = await waiting_claim(rig, "carol")
    await claims.fail(rig.team, rig.caller("bob"), "bob", job.id, job.lease, "no disk", 0.05)
    rig.clock.pass_by(seconds=0.05)

    async with asyncio.timeout(10):
        (item,) = await waits
    assert item.job.attempts == 2


@in_loop
async def test_of_two_servers_that_claim_at_once_one_wins(tmp_path: Path) -> None:
    """Both have the job in their index; the commit decides."""
    if not is_postgres():
        pytest.skip("two servers share only a database")
    async with open_rig(tmp_path) as one, open_rig(tmp_path, first_id=5_000, dsn=one.dsn) as other:
        await stage(one)
        await other.store.catch_up(DEFAULT_TENANT)
        for rig in (one, other):
            assert await claim(rig, "bob") == []  # loads the index
        posts = [await enqueue(one, f"{number}") for number in range(20)]
        won: list[str] = []

        async def take(rig: Rig, agent: str) -> None:
            await rig.store.catch_up(DEFAULT_TENANT)
            while items := await claim(rig, agent, most=2):
                won.extend(item.job.item_id for item in items)

        await asyncio.gather(take(one, "bob"), take(other, "carol"))

        assert sorted(won) == sorted(post.id for post in posts)


@in_loop
async def test_another_server_hands_a_job_on_when_it_has_seen_the_lease_for_its_whole_time(tmp_path: Path) -> None:
    if not is_postgres():
        pytest.skip("two servers share only a database")
    async with open_rig(tmp_path) as one, open_rig(tmp_path, first_id=5_000, dsn=one.dsn) as other:
        await stage(one)
        await enqueue(one)
        job = await claim_one(one, "bob", lease_seconds=30)
        other.clock.at += timedelta(days=1)  # its clock is wrong
        await other.store.catch_up(DEFAULT_TENANT)
        assert await claim(other, "carol") == []
        other.clock.pass_by(seconds=30)
        taken = await claim_one(other, "carol")
        await one.store.catch_up(DEFAULT_TENANT)

        assert taken.holder == "carol"
        with pytest.raises(LeaseLost):
            await claims.extend(one.team, one.caller("bob"), "bob", job.id, job.lease, 30)
