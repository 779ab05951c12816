"""What ends a job beside its answer, and what an eviction leaves of it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from parley.app.team.channels import requests
from parley.app.team.queues import claims
from parley.app.team.work.sweep import sweep
from parley.domain.channel.channel import Channel, Options, closed
from parley.domain.channel.job import Job
from parley.domain.channel.post import Post, PostDraft
from parley.domain.channel.request import RequestPhase
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import Conflict, LeaseLost, NotFound
from parley.domain.errors.team import (
    AlreadyAnswered,
    MessageExpired,
    NotAsker,
    RequestWithdrawn,
)
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges
from tests.rigs.queues import WORKERS, claim, claim_one, enqueue, reply, seen_by, stage, stored, texts
from tests.rigs.team import CHANNEL, Rig, with_rig

pytestmark = pytest.mark.both_stores


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


async def hide(rig: Rig) -> None:
    """So many messages follow that the channel shows none of those before."""
    for number in range(100):
        await rig.say("alice", f"{number}")


@pytest.mark.parametrize("claimed", [False, True])
@with_rig
async def test_a_queued_request_is_withdrawn_although_its_channel_shows_only_newer_messages(
    rig: Rig, claimed: bool
) -> None:
    await rig.intent(agents=WORKERS)
    await rig.channel(options=Options(max_messages=10))
    await rig.role("coder", *WORKERS)
    request = await enqueue(rig, pattern=Pattern.REQUEST)
    if claimed:
        await claim(rig, "bob")
    await hide(rig)

    assert await seen_by(rig, request) == ({"alice", "bob"} if claimed else {"alice"})
    view = await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, request.id)
    assert view.phase is RequestPhase.WITHDRAWN
    assert await stored(rig, request) is None


@with_rig
async def test_a_queued_request_is_handed_on_and_answered_although_its_channel_shows_only_newer_messages(
    rig: Rig,
) -> None:
    await rig.intent(agents=(*WORKERS, "dora"))
    await rig.channel(options=Options(max_messages=10))
    await rig.role("coder", *WORKERS)
    await rig.role("expert", "dora")
    request = await enqueue(rig, "old", pattern=Pattern.REQUEST)
    await hide(rig)
    job = await claim_one(rig, "bob")
    draft = PostDraft(Pattern.REQUEST, b"", "any:expert", forwards=request.id, lease=job.lease)
    forward = await requests.forward(rig.team, rig.caller("bob"), CHANNEL, draft)
    assert isinstance(forward, Post)
    await hide(rig)
    assert await rig.store.post(DEFAULT_TENANT, request.id, evicted=True) is None
    (item,) = await claim(rig, "dora")

    answer = await reply(rig, "dora", forward, item.job.lease)
    assert texts([item]) == ["old"]
    assert (answer.to, answer.in_reply_to) == ("alice", request.id)


@pytest.mark.parametrize("to", ["any:expert", "dora"])
@with_rig
async def test_a_request_that_was_handed_on_is_withdrawn_although_its_channel_has_evicted_it(rig: Rig, to: str) -> None:
    request, forward = await handed_on_and_evicted(rig, to)
    view = await requests.get(rig.team, rig.caller("alice"), CHANNEL, request.id)
    assert (view.request.id, view.request.sender, view.request.payload) == (request.id, "alice", b"{}")
    assert view.phase is RequestPhase.FORWARDED

    for _ in range(2):
        view = await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, request.id)
        assert (view.request.id, view.phase) == (request.id, RequestPhase.WITHDRAWN)

    assert await claim(rig, "dora") == []
    assert await rig.store.get(Job, DEFAULT_TENANT, forward.id) is None
    with pytest.raises((RequestWithdrawn, NotFound)):
        await reply(rig, "dora", forward)


@with_rig
async def test_of_a_request_that_was_handed_on_and_evicted_only_its_sender_learns(rig: Rig) -> None:
    request, forward = await handed_on_and_evicted(rig, "any:expert")

    for agent in ("bob", "carol", "dora"):
        for act in (requests.get, requests.withdraw):
            with pytest.raises(NotFound):
                await act(rig.team, rig.caller(agent), CHANNEL, request.id)
    with pytest.raises(NotAsker):
        await requests.withdraw(rig.team, rig.caller("bob"), CHANNEL, forward.id)
    (item,) = await claim(rig, "dora")
    await reply(rig, "dora", forward, item.job.lease)
    with pytest.raises(AlreadyAnswered):
        await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, request.id)


async def handed_on_and_evicted(rig: Rig, to: str) -> tuple[Post, Post]:
    """A request that bob claimed and handed on, gone from its channel; and the one that stands for it."""
    await rig.intent(agents=(*WORKERS, "dora"))
    await rig.channel(options=Options(max_messages=10))
    await rig.role("coder", *WORKERS)
    await rig.role("expert", "dora")
    await rig.agent("dora")
    request = await enqueue(rig, "old", pattern=Pattern.REQUEST)
    await hide(rig)
    job = await claim_one(rig, "bob")
    payload = json.dumps({"text": "from bob"}).encode()
    draft = PostDraft(Pattern.REQUEST, payload, to, forwards=request.id, lease=job.lease)
    if to == "dora":
        # It is not kept for a job, so it is newer than what the channel shows.
        await hide(rig)
    forward = await requests.forward(rig.team, rig.caller("bob"), CHANNEL, draft)
    assert isinstance(forward, Post)
    if to != "dora":
        await hide(rig)
    return request, forward


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
