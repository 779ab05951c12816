"""What waits for an agent: its mail as an inbox has it, what it has taken, and how messages are named."""

from __future__ import annotations

import pytest

from parley.app.team.channels import reading
from parley.app.team.queues import claims, waiting
from parley.app.team.queues.claims import ClaimedItem, ClaimWish
from parley.app.team.queues.waiting import WaitingItems
from parley.domain.channel.bookmark import Start
from parley.domain.channel.job import Job, job_id
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import Invalid, LeaseLost, NotFound
from parley.domain.message.message import Pattern
from tests.rigs.queues import reply
from tests.rigs.team import CHANNEL, Rig, with_rig

pytestmark = pytest.mark.both_stores


async def take(rig: Rig, agent: str = "bob", lease_seconds: float = 30.0) -> ClaimedItem:
    wish = ClaimWish(lease_seconds=lease_seconds, shared=True, start=Start.BEGINNING, unread=True)
    (item,) = await claims.claim(rig.team, rig.caller(agent), agent, wish)
    return item


async def waits(rig: Rig, agent: str = "bob", most: int = 10) -> WaitingItems:
    return await waiting.list_waiting(rig.team, rig.caller(agent), most)


def texts(listed: WaitingItems) -> list[str]:
    return [item.item.post.payload.decode()[10:-2] for item in listed.items if item.item.post is not None]


@with_rig
async def test_an_inbox_has_answers_but_nothing_that_is_read_or_answered(rig: Rig) -> None:
    await rig.open_channel()
    asked = await rig.say("bob", "asked", to="alice", pattern=Pattern.REQUEST)
    await reply(rig, "alice", asked)
    answered = await rig.say("alice", "answered", to="bob", pattern=Pattern.REQUEST)
    await reply(rig, "bob", answered)
    read = await rig.say("alice", "read", to="bob")
    await reading.mark_read(rig.team, rig.caller("bob"), CHANNEL, read.id)
    await rig.say("alice", "news", to="bob")
    await rig.say("alice", "for carol", to="carol")

    (answer, _) = (await waits(rig)).items
    assert answer.item.post is not None
    assert answer.item.post.payload == b'{"answer":42}'
    assert texts(await waits(rig))[1:] == ["news"]


@with_rig
async def test_jobs_of_a_role_are_counted_and_only_taken_ones_are_listed(rig: Rig) -> None:
    await rig.open_channel()
    await rig.role("coder", "bob", "carol")
    await rig.say("alice", "one", to="any:coder")
    await rig.say("alice", "two", to="any:coder")
    before = await waits(rig)
    await take(rig)
    after = await waits(rig)

    assert (texts(before), before.in_roles) == ([], 2)
    assert (texts(after), after.in_roles) == (["one"], 1)
    assert texts(await waits(rig, "carol")) == []


@with_rig
async def test_a_long_inbox_says_how_much_is_left_out(rig: Rig) -> None:
    await rig.open_channel()
    for number in range(5):
        await rig.say("alice", f"{number}", to="bob")
    listed = await waits(rig, most=2)

    assert (texts(listed), listed.left_out) == (["0", "1"], 3)


@with_rig
async def test_a_taken_message_is_named_by_its_end_and_its_lease(rig: Rig) -> None:
    await rig.open_channel()
    post = await rig.say("alice", "hello", to="bob")
    item = await take(rig)
    ref = await waiting.short_ref(rig.team, rig.caller("bob"), item.job)

    assert ref == f"{post.id[-4:]}.{item.job.lease[-4:]}"
    for name in (ref, post.id[-4:], post.id, ""):
        assert (await waiting.find_claimed(rig.team, rig.caller("bob"), name)).job == item.job
    with pytest.raises(NotFound, match="you have not taken nope"):
        await waiting.find_claimed(rig.team, rig.caller("bob"), "nope")
    with pytest.raises(NotFound, match="you have not taken a message"):
        await waiting.find_claimed(rig.team, rig.caller("alice"), "")


@with_rig
async def test_whoever_lost_a_message_finds_it_no_more(rig: Rig) -> None:
    await rig.open_channel()
    await rig.say("alice", "hello", to="bob")
    bob = rig.caller("bob")
    late = await waiting.short_ref(rig.team, bob, (await take(rig, lease_seconds=1.0)).job)
    rig.clock.pass_by(seconds=2)
    again = await waiting.short_ref(rig.team, bob, (await take(rig)).job)

    with pytest.raises(LeaseLost, match="taken again"):
        await waiting.find_claimed(rig.team, bob, late)
    job = (await waiting.find_claimed(rig.team, bob, again)).job
    await claims.finish(rig.team, bob, "bob", job.id, job.lease)
    with pytest.raises(LeaseLost, match="it has ended"):
        await waiting.find_claimed(rig.team, bob, again)


@with_rig
async def test_of_several_taken_messages_one_must_be_named(rig: Rig) -> None:
    await rig.open_channel()
    for text in ("one", "two"):
        await rig.say("alice", text, to="bob")
        await take(rig)

    with pytest.raises(Invalid, match="you have taken several messages"):
        await waiting.find_claimed(rig.team, rig.caller("bob"), "")


@with_rig
async def test_an_answer_that_was_waited_for_is_not_handed_out_again(rig: Rig) -> None:
    await rig.open_channel()
    bob = rig.caller("bob")
    early = await reply(rig, "alice", await rig.say("bob", "one?", to="alice", pattern=Pattern.REQUEST))
    await waiting.finish_answer(rig.team, bob, early)
    late = await reply(rig, "alice", await rig.say("bob", "two?", to="alice", pattern=Pattern.REQUEST))
    assert len((await waits(rig)).items) == 1
    await waiting.finish_answer(rig.team, bob, late)

    assert (await waits(rig)).items == []
    assert await rig.store.get(Job, DEFAULT_TENANT, job_id(late.id, "bob")) is None
    assert await waiting.find_open(rig.team, bob, late.id) is None
