"""Claims: which job goes to whom, and who sees its message."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from parley.app.team.channels import posting, reading, requests
from parley.app.team.channels.reading import MessageFilter
from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimWish
from parley.domain.channel.channel import MemberPolicy
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.access import AccessPolicy
from parley.domain.errors.team import (
    WrongSender,
)
from parley.domain.message.message import Pattern
from tests.rigs.queues import WORKERS, claim, claim_one, enqueue, reply, seen_by, stage, texts, waiting_claim
from tests.rigs.team import CHANNEL, Rig, with_rig

pytestmark = pytest.mark.both_stores


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
async def test_a_claim_takes_no_more_text_than_a_page(rig: Rig) -> None:
    await stage(rig)
    for number in range(6):
        await enqueue(rig, f"{number}" + "x" * 400_000)

    firsts = [[text[0] for text in texts(await claim(rig, most=10))] for _ in range(3)]
    assert firsts == [["0", "1", "2"], ["3", "4", "5"], []]


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
    post = await enqueue(rig, pattern=Pattern.REQUEST)
    assert await seen_by(rig, post) == {"alice"}
    late = await claim_one(rig, "bob", lease_seconds=5)
    assert await seen_by(rig, post) == {"alice", "bob"}
    rig.clock.pass_by(seconds=5)
    job = await claim_one(rig, "carol")
    assert late.lease != job.lease
    assert await seen_by(rig, post) == {"alice", "carol"}
    await reply(rig, "carol", post, job.lease)
    assert await seen_by(rig, post) == {"alice", "carol"}


@with_rig
async def test_a_claimed_message_is_shown_by_its_id_and_not_listed(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig, pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob")

    async def listed() -> list[str]:
        queries = [MessageFilter(), MessageFilter(to="bob"), MessageFilter(to="any:coder")]
        pages = [await reading.page(rig.team, rig.caller("bob"), CHANNEL, query) for query in queries]
        return [message.post.id for page in pages for message in page.messages]

    assert (await reading.get(rig.team, rig.caller("bob"), CHANNEL, post.id)).post.id == post.id
    assert await listed() == []
    answer = await reply(rig, "bob", post, job.lease)
    assert (await reading.get(rig.team, rig.caller("bob"), CHANNEL, post.id)).post.id == post.id
    assert await listed() == [answer.id]


@with_rig
async def test_who_claimed_a_notification_acknowledges_it_as_its_addressee(rig: Rig) -> None:
    await stage(rig)
    post = await enqueue(rig)
    await claim(rig, "bob")

    assert (await reading.mark_read(rig.team, rig.caller("bob"), CHANNEL, post.id)).read_at


@with_rig
async def test_who_answers_what_was_handed_on_does_not_see_the_first_request(rig: Rig) -> None:
    """It may have got less than that said."""
    await stage(rig)
    request = await enqueue(rig, "all of it", pattern=Pattern.REQUEST)
    job = await claim_one(rig, "bob")
    draft = PostDraft(Pattern.REQUEST, b'{"text": "a part"}', "dora", forwards=request.id, lease=job.lease)
    forward = await requests.forward(rig.team, rig.caller("bob"), CHANNEL, draft)
    assert isinstance(forward, Post)
    await reply(rig, "dora", forward, "")

    assert await seen_by(rig, request) == {"alice"}


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
async def test_a_claim_for_an_intent_takes_only_its_jobs(rig: Rig) -> None:
    await stage(rig)
    await rig.intent("intent_2", agents=WORKERS)
    await rig.channel("chan_2", intent_id="intent_2")
    await enqueue(rig, "one")
    await enqueue(rig, "two", channel_id="chan_2")

    assert texts(await claim(rig, most=9, intent_id="intent_2")) == ["two"]
    assert texts(await claim(rig, most=9, intent_id="intent_9")) == []
    assert texts(await claim(rig, most=9)) == ["one"]


@with_rig
async def test_claims_that_wait_for_other_intents_leave_a_job_to_who_may_have_it(rig: Rig) -> None:
    await stage(rig)
    await rig.key("bob")
    wish = ClaimWish(wait=20, intent_id="intent_9")
    others = [asyncio.ensure_future(claims.claim(rig.team, rig.caller("bob"), "bob", wish)) for _ in range(3)]
    waits = await waiting_claim(rig, "carol", 4)
    await enqueue(rig)

    async with asyncio.timeout(10):
        assert len(await waits) == 1
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@with_rig
async def test_a_key_claims_only_for_its_own_agent(rig: Rig) -> None:
    await stage(rig)
    with pytest.raises(WrongSender):
        await claims.claim(rig.team, rig.caller("carol"), "bob", ClaimWish())
