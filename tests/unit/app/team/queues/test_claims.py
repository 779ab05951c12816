"""Claims: one holder of a role takes a job, keeps it by its lease, and ends it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from parley.app.team.channels import posting, reading, requests, venues
from parley.app.team.channels.posting import Held
from parley.app.team.directory import departure
from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimedItem, ClaimWish
from parley.app.team.rules import suspensions
from parley.app.team.work.sweep import sweep
from parley.domain.channel.channel import Channel, MemberPolicy, Options, closed
from parley.domain.channel.job import LOST_READERS_MAX, Job, JobState
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Conflict, Forbidden, LeaseLost, NotFound
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import AgentDeparted, MessageExpired, WrongSender
from parley.domain.message.message import Pattern
from parley.domain.rules import suspension
from parley.domain.rules.suspension import Stopped, Suspension, Suspensions
from parley.domain.store.changes import TeamChanges
from tests.rigs.chosen_store import is_postgres
from tests.rigs.governed import place, put_policy, said
from tests.rigs.team import CHANNEL, Rig, in_loop, open_rig, with_rig

pytestmark = pytest.mark.both_stores

WORKERS = ("bob", "carol")


async def stage(rig: Rig, *workers: str) -> None:
    await rig.intent(agents=(*WORKERS, "dora", "sam"))
    await rig.channel()
    await rig.role("coder", *(workers or WORKERS))


async def enqueue(rig: Rig, text: str = "work", pattern: Pattern = Pattern.NOTIFY, **draft: Any) -> Post:  # noqa: ANN401  # fields of a draft
    return await rig.say("alice", text, to="any:coder", pattern=pattern, **draft)


async def claim(rig: Rig, agent: str = "bob", **wish: float) -> list[ClaimedItem]:
    return await claims.claim(rig.team, rig.caller(agent), agent, ClaimWish(**wish))  # type: ignore[arg-type]


async def claim_one(rig: Rig, agent: str = "bob", **wish: float) -> Job:
    (item,) = await claim(rig, agent, **wish)
    return item.job


async def stored(rig: Rig, post: Post) -> Job | None:
    return await rig.store.get(Job, DEFAULT_TENANT, post.id)


async def reply(rig: Rig, agent: str, request: Post, lease: str) -> Post:
    draft = PostDraft(Pattern.RESPONSE, b'{"answer":42}', lease=lease)
    answer = await posting.reply(rig.team, rig.caller(agent), CHANNEL, request.id, draft)
    assert isinstance(answer, Post)
    return answer


async def waiting_claim(rig: Rig, agent: str, place: int = 1) -> asyncio.Future[list[ClaimedItem]]:
    """A claim that waits, at this place in the line."""
    await rig.key(agent)
    waits = asyncio.ensure_future(claim(rig, agent, wait=20))
    for _ in range(10_000):
        queues = rig.team.queues.get(DEFAULT_TENANT)
        if queues is not None and len(queues) >= place:
            break
        await asyncio.sleep(0)
    return waits


def texts(items: list[ClaimedItem]) -> list[str]:
    return [item.item.post.payload.decode()[10:-2] for item in items if item.item.post is not None]


@with_rig
async def test_one_holder_gets_a_job_and_the_others_do_not(rig: Rig) -> None:
    await stage(rig)
    await enqueue(rig)

    assert len(await claim(rig, "bob")) == 1
    assert await claim(rig, "carol") == []


@with_rig
async def test_jobs_are_claimed_in_the_order_of_their_messages_over_all_channels(rig: Rig) -> None:
    await stage(rig)
    await rig.channel("chan_2")
    for number in range(6):
        await enqueue(rig, f"{number}", channel_id=f"chan_{number % 2 + 1}")

    first = await claim(rig, "bob", most=2)
    rest = await claim(rig, "carol", most=10)

    assert texts(first) == ["0", "1"]
    assert texts(rest) == ["2", "3", "4", "5"]


@with_rig
async def test_a_batch_is_claimed_in_its_order(rig: Rig) -> None:
    await stage(rig)
    drafts = [PostDraft(Pattern.NOTIFY, b'{"text": "%d"}' % number, "any:coder") for number in range(3)]
    await posting.post_all(rig.team, rig.caller("alice"), CHANNEL, drafts)

    assert texts(await claim(rig, "bob", most=3)) == ["0", "1", "2"]


@with_rig
async def test_claimers_that_wait_are_served_in_the_order_in_which_they_came(rig: Rig) -> None:
    await stage(rig)
    waiting = [await waiting_claim(rig, agent, place) for place, agent in enumerate(("carol", "bob"), 1)]
    await enqueue(rig, "first")
    first = await waiting[0]
    await enqueue(rig, "second")

    assert texts(first) == ["first"]
    assert texts(await waiting[1]) == ["second"]


@with_rig
async def test_a_claimer_that_goes_away_leaves_its_job_to_the_next(rig: Rig) -> None:
    await stage(rig)
    gone, stays = [await waiting_claim(rig, agent, place) for place, agent in enumerate(WORKERS, 1)]
    await enqueue(rig)
    gone.cancel()
    with suppress(asyncio.CancelledError):
        await gone

    async with asyncio.timeout(10):
        (item,) = await stays
    assert item.job.lost_readers == 0


@with_rig
async def test_who_gets_a_role_finds_the_jobs_that_wait(rig: Rig) -> None:
    await stage(rig, "bob")
    await enqueue(rig)
    waits = await waiting_claim(rig, "dora")
    await rig.role("coder", "bob", "dora")

    assert len(await waits) == 1


@with_rig
async def test_only_the_sender_and_who_claims_it_see_the_message(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig)
    await claim(rig, "bob")

    assert (await reading.get(rig.team, rig.caller("alice"), CHANNEL, post.id)).post.id == post.id
    for other in ("bob", "carol", "dora"):
        with pytest.raises(NotFound):
            await reading.get(rig.team, rig.caller(other), CHANNEL, post.id)


@with_rig
async def test_an_agent_without_the_role_or_the_access_claims_nothing(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"),))
    await rig.channel("chan_1", "bob", policy=MemberPolicy.EXPLICIT)
    await rig.role("coder", "bob", "carol")
    await enqueue(rig)

    assert await claim(rig, "carol") == []
    assert await claim(rig, "dora") == []
    assert len(await claim(rig, "bob")) == 1


@with_rig
async def test_a_key_claims_only_for_its_own_agent(rig: Rig) -> None:
    await stage(rig)
    with pytest.raises(WrongSender):
        await claims.claim(rig.team, rig.caller("carol"), "bob", ClaimWish())


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
    assert await claim(rig, "bob") == []


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
async def test_an_expired_request_ends_its_job(rig: Rig) -> None:
    await stage(rig)
    expires = rig.clock.at + timedelta(seconds=60)
    waits = await enqueue(rig, pattern=Pattern.REQUEST, expires_at=expires)
    running = await enqueue(rig, pattern=Pattern.REQUEST, expires_at=expires)
    await claim(rig, "carol")  # the older one
    job = await claim_one(rig, "bob", lease_seconds=3600)
    rig.clock.pass_by(seconds=61)

    with pytest.raises(MessageExpired):
        await reply(rig, "bob", running, job.lease)
    with pytest.raises(LeaseLost, match="nothing left to do"):
        await claims.extend(rig.team, rig.caller("bob"), "bob", job.id, job.lease, 30)
    await sweep(rig.team)
    assert await stored(rig, waits) is None
    assert await stored(rig, running) is None
    assert rig.team.queues.counts() == {}  # nobody has done them


@with_rig
async def test_closing_the_channel_ends_its_jobs(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig)
    running = await enqueue(rig)
    await claim(rig, "carol")
    job = await claim_one(rig, "bob")
    waits = await enqueue(rig)
    channel = await rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    assert channel is not None
    over = closed(channel, rig.at(), timedelta(days=7))
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, puts=(over,), ended=(CHANNEL,)))

    assert await claim(rig, "bob") == []
    with pytest.raises(LeaseLost):
        await claims.extend(rig.team, rig.caller("bob"), "bob", job.id, job.lease, 30)
    await sweep(rig.team)
    for one in (post, running, waits):
        assert await stored(rig, one) is None


@with_rig
async def test_a_queued_message_outlives_the_eviction_of_its_channel(rig: Rig) -> None:
    await rig.intent(agents=(*WORKERS, "dora", "sam"))
    await rig.channel(options=Options(max_messages=10))
    await rig.role("coder", *WORKERS)
    request = await enqueue(rig, "old", pattern=Pattern.REQUEST)
    for number in range(200):
        await rig.say("alice", f"{number}")

    (item,) = await claim(rig)
    assert texts([item]) == ["old"]
    assert (await reply(rig, "bob", request, item.job.lease)).in_reply_to == request.id
    for number in range(100):
        await rig.say("alice", f"{number}")
    assert await rig.store.post(DEFAULT_TENANT, request.id, evicted=True) is None


@with_rig
async def test_a_holder_that_is_deregistered_loses_the_job_with_its_lease(rig: Rig) -> None:
    await stage(rig)
    await rig.agent("bob")
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob", lease_seconds=30)
    await departure.depart(rig.team, rig.caller("bob"), "bob")

    with pytest.raises(AgentDeparted):
        await claims.extend(rig.team, rig.caller("bob"), "bob", job.id, job.lease, 30)
    with pytest.raises((AgentDeparted, Forbidden)):
        await reply(rig, "bob", request, job.lease)
    rig.clock.pass_by(seconds=30)
    assert len(await claim(rig, "carol")) == 1


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
    with pytest.raises(Suspended):
        await claim(rig, "bob")
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


@with_rig
async def test_a_withdrawn_request_ends_its_job(rig: Rig) -> None:
    await stage(rig)
    running = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob")
    waits = await enqueue(rig, pattern=Pattern.REQUEST)
    for request in (running, waits):
        await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, request.id)

    with pytest.raises(Conflict):
        await reply(rig, "bob", running, job.lease)
    with pytest.raises(LeaseLost):
        await claims.extend(rig.team, rig.caller("bob"), "bob", job.id, job.lease, 30)
    assert await claim(rig, "carol") == []
    assert [await stored(rig, request) for request in (running, waits)] == [None, None]
