"""Jobs that are done: by themselves, and with the claim of the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.app.team.queues import claims
from parley.domain.channel.job import JobState
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import LeaseLost
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Committed, TeamChanges
from tests.rigs.queues import claim, claim_one, enqueue, stage, stored, texts
from tests.rigs.team import Rig, before_the_commit, with_rig

pytestmark = pytest.mark.both_stores


@with_rig
async def test_a_finished_notification_is_read(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig)
    job = await claim_one(rig)
    await claims.finish(rig.team, rig.caller("bob"), "bob", job.id, job.lease)

    assert await stored(rig, post) is None
    assert (await rig.store.with_receipt(DEFAULT_TENANT, post, "bob")).read_at
    with pytest.raises(LeaseLost, match="has ended"):
        await claims.finish(rig.team, rig.caller("bob"), "bob", job.id, job.lease)


@with_rig
async def test_a_job_ends_in_the_commit_that_claims_the_next_one(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage(rig)
    posts = [await enqueue(rig, f"{number}") for number in range(3)]
    first = await claim_one(rig, "bob")
    commits: list[TeamChanges] = []
    commit = rig.store.commit

    async def noted(changes: TeamChanges) -> Committed:
        commits.append(changes)
        return await commit(changes)

    monkeypatch.setattr(rig.store, "commit", noted)
    (second,) = await claim(rig, "bob", done={first.id: first.lease})

    assert (texts([second]), len(commits)) == (["1"], 1)
    assert await stored(rig, posts[0]) is None
    read = await rig.store.with_receipt(DEFAULT_TENANT, posts[0], "bob")
    assert read.read_at == rig.at()


@with_rig
async def test_jobs_end_with_a_claim_that_gets_nothing_and_twice_is_no_error(rig: Rig) -> None:
    await stage(rig)
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob")

    for _ in range(2):
        assert await claim(rig, "bob", done={job.id: job.lease}) == []

    assert await stored(rig, request) is None
    (error,) = await rig.store.answers(DEFAULT_TENANT, request.id)
    assert (error.sender, b"no_answer" in error.metadata) == ("system", True)


@with_rig
async def test_who_has_lost_a_lease_neither_ends_the_job_nor_claims_another(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig)
    lost = await claim_one(rig, "bob", lease_seconds=5)
    rig.clock.pass_by(seconds=5)
    job = await claim_one(rig, "carol")
    waits = await enqueue(rig, "next")

    for lease in (lost.lease, "guessed"):
        with pytest.raises(LeaseLost):
            await claim(rig, "bob", done={lost.id: lease})

    assert (await stored(rig, post), (await stored(rig, waits) or job).state) == (job, JobState.WAITING)
    assert texts(await claim(rig, "bob")) == ["next"]


@with_rig
async def test_a_job_whose_lease_ran_out_is_ended_and_not_claimed_again(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig)
    late = await claim_one(rig, "bob", lease_seconds=5)
    await enqueue(rig, "next")
    rig.clock.pass_by(seconds=5)

    assert texts(await claim(rig, "bob", done={late.id: late.lease}, most=2)) == ["next"]
    assert await stored(rig, post) is None


@with_rig
async def test_a_job_that_is_handed_over_while_it_is_ended_stays_with_the_next_reader(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage(rig)
    post = await enqueue(rig)
    late = await claim_one(rig, "bob", lease_seconds=5)
    await enqueue(rig, "next")
    rig.clock.pass_by(seconds=5)

    async def hand_over(rig: Rig) -> None:
        await rig.put(replace(late, holder="carol", lease="of another server"))

    before_the_commit(rig, monkeypatch, hand_over)

    with pytest.raises(LeaseLost):
        await claim(rig, "bob", done={late.id: late.lease})
    kept = await stored(rig, post)
    assert kept is not None
    assert kept.holder == "carol"
