"""The direct channel of two agents: each test stands for a line of docs/explanation/requests.md."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parley.app.team.channels import asking, posting, reading
from parley.app.team.channels.posting import Held
from parley.app.team.channels.venues import direct_with
from parley.app.team.directory import departure
from parley.app.team.intents import intents
from parley.domain.channel.channel import Channel
from parley.domain.channel.direct import direct_ids
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.access import Access
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, KeyKind
from parley.domain.directory.intent import Intent, IntentCount, IntentStatus
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import CrossOrg
from tests.rigs.governed import place, put_policy, refusal
from tests.rigs.node import two_nodes
from tests.rigs.team import Rig, delivered, in_loop, soon, with_rig

pytestmark = pytest.mark.both_stores

NOTE = PostDraft(Pattern.NOTIFY, b'{"text":"hi"}')


async def two(rig: Rig, *agents: str) -> None:
    for agent in agents or ("alice", "bob"):
        await rig.agent(agent)


async def say(rig: Rig, sender: str, to: str, draft: PostDraft = NOTE) -> Post | Held:
    """What `client.direct(to)` does: find the channel, and say something there."""
    caller = rig.caller(sender)
    return await posting.post(rig.team, caller, direct_with(caller, to).channel_id, draft._replace(to=to))


@with_rig
async def test_the_first_message_of_two_agents_creates_their_channel(rig: Rig) -> None:
    await two(rig)

    first, second = await say(rig, "alice", "bob"), await say(rig, "bob", "alice")

    assert isinstance(first, Post)
    assert isinstance(second, Post)
    assert (first.channel_id, first.seq, second.channel_id, second.seq) == (first.channel_id, 1, first.channel_id, 2)
    (channel,) = await rig.store.every(Channel, DEFAULT_TENANT)
    assert [member.agent for member in channel.members] == ["alice", "bob"]
    (intent,) = await rig.store.every(Intent, DEFAULT_TENANT)
    assert (intent.title, intent.created_by) == ("Direct: alice and bob", "system")
    events = await rig.store.events(DEFAULT_TENANT, intent.id)
    assert [event.event_type for event in events] == ["intent_created"]
    count = await rig.store.get(IntentCount, DEFAULT_TENANT, "alice")
    assert count is not None
    assert count.total == 1


@with_rig
async def test_many_first_messages_at_once_make_one_channel(rig: Rig) -> None:
    await two(rig)

    said = await asyncio.gather(*[say(rig, *pair) for pair in (("alice", "bob"), ("bob", "alice")) * 4])

    assert sorted(delivered(one).seq for one in said) == list(range(1, 9))
    assert len(await rig.store.every(Channel, DEFAULT_TENANT)) == 1
    assert len(await rig.store.every(Intent, DEFAULT_TENANT)) == 1


@in_loop
async def test_first_messages_at_two_servers_make_one_channel(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await two(a)
        await b.store.catch_up(DEFAULT_TENANT)

        said = await asyncio.gather(say(a, "alice", "bob"), say(b, "bob", "alice"))

        assert {delivered(one).channel_id for one in said} == {direct_ids(DEFAULT_TENANT, "alice", "bob").channel_id}
        assert len(await a.store.every(Channel, DEFAULT_TENANT)) == 1


@with_rig
async def test_a_question_is_asked_and_answered_in_a_direct_channel(rig: Rig) -> None:
    await two(rig)
    alice, bob = rig.caller("alice"), rig.caller("bob")
    channel = direct_with(alice, "bob").channel_id
    question = NOTE._replace(to="bob", pattern=Pattern.REQUEST)
    task = asyncio.create_task(asking.ask(rig.team, alice, channel, question, 60))
    found: list[Post] = []

    async def posted() -> bool:
        found[:] = [item.post for item in await rig.store.feed(DEFAULT_TENANT, 0) if item.post is not None]
        return bool(found)

    await soon(posted)

    answer = await posting.reply(rig.team, bob, channel, found[0].id, NOTE)

    assert await task == answer


@with_rig
async def test_a_third_agent_knows_nothing_of_a_direct_channel(rig: Rig) -> None:
    await two(rig, "alice", "bob", "carol")
    said = delivered(await say(rig, "alice", "bob"))
    carol = rig.caller("carol")

    for attempt in (
        reading.get(rig.team, carol, said.channel_id, said.id),
        posting.post(rig.team, carol, said.channel_id, NOTE._replace(to="bob")),
        posting.post(rig.team, carol, said.channel_id, NOTE),
        intents.get(rig.team, carol, said.intent_id),
    ):
        assert (await refusal(attempt)).code == "not_found"
    assert delivered(await say(rig, "carol", "bob")).channel_id != said.channel_id


@with_rig
async def test_the_two_can_let_nobody_else_in(rig: Rig) -> None:
    await two(rig, "alice", "bob", "carol")
    said = delivered(await say(rig, "alice", "bob"))

    for to in ("carol", "role:ops"):
        draft = NOTE._replace(to=to)
        refused = posting.post(rig.team, rig.caller("alice"), said.channel_id, draft)
        if to == "carol":
            assert (await refusal(refused)).code == "not_member"
        else:
            assert delivered(await refused).recipients == ()
    channel = await rig.store.get(Channel, DEFAULT_TENANT, said.channel_id)
    access = await rig.store.get(Access, DEFAULT_TENANT, said.intent_id)
    assert channel is not None
    assert access is not None
    assert channel.created_by == access.created_by == "system"


@with_rig
async def test_neither_of_the_two_ends_their_intent(rig: Rig) -> None:
    await two(rig)
    said = delivered(await say(rig, "alice", "bob"))

    ending = intents.set_status(rig.team, rig.caller("alice"), said.intent_id, None, IntentStatus.COMPLETED)

    assert (await refusal(ending)).code == "forbidden"
    delivered(await say(rig, "bob", "alice"))


@with_rig
async def test_an_agent_that_was_deregistered_and_came_back_is_let_in_again(rig: Rig) -> None:
    await two(rig)
    said = delivered(await say(rig, "alice", "bob"))
    await departure.depart(rig.team, rig.caller("", KeyKind.ADMIN), "bob")
    assert (await refusal(say(rig, "alice", "bob"))).code == "agent_departed"

    await rig.agent("bob", status=AgentStatus.ACTIVE)

    for sender, to in (("alice", "bob"), ("bob", "alice")):
        again = delivered(await say(rig, sender, to))
        assert (again.channel_id, again.recipients) == (said.channel_id, (to,))
    channel = await rig.store.get(Channel, DEFAULT_TENANT, said.channel_id)
    assert channel is not None
    assert {member.agent for member in channel.members} == {"alice", "bob"}


@with_rig
async def test_an_agent_that_came_back_may_speak_first(rig: Rig) -> None:
    await two(rig)
    said = delivered(await say(rig, "alice", "bob"))
    await departure.depart(rig.team, rig.caller("", KeyKind.ADMIN), "bob")
    await rig.agent("bob", status=AgentStatus.ACTIVE)

    assert delivered(await say(rig, "bob", "alice")).channel_id == said.channel_id


@with_rig
async def test_nothing_is_created_for_a_name_that_nobody_knows(rig: Rig) -> None:
    await two(rig)

    refused = await refusal(say(rig, "alice", "bobb"))

    assert (refused.code, refused.facts["similar"]) == ("no_responders", ["bob"])
    assert await rig.store.every(Intent, DEFAULT_TENANT) == ()


@with_rig
async def test_no_other_channel_is_created_by_its_id(rig: Rig) -> None:
    await two(rig, "alice", "bob", "carol")
    alice = rig.caller("alice")
    foreign = direct_ids("globex", "alice", "bob").channel_id
    others = direct_with(rig.caller("bob"), "carol").channel_id

    for channel in (foreign, others, "chan_none"):
        for to in ("bob", "carol", "", "*"):
            attempt = posting.post(rig.team, alice, channel, NOTE._replace(to=to))
            assert (await refusal(attempt)).code == "not_found"
    assert await rig.store.every(Channel, DEFAULT_TENANT) == ()


@with_rig
async def test_there_is_no_direct_channel_with_oneself_and_none_without_an_agent(rig: Rig) -> None:
    await two(rig)

    for caller, other in ((rig.caller("alice"), "alice"), (rig.caller("", KeyKind.SERVICE), "bob")):
        with pytest.raises(Exception, match=r"speaks"):
            direct_with(caller, other)


@with_rig
async def test_a_direct_channel_is_no_way_around_the_rules(rig: Rig) -> None:
    await place(rig, "alice", user_id="ann")
    await place(rig, "bob", user_id="ben", org_unit="sales")
    await put_policy(rig, cross_org=CrossOrg.DENY)

    refused = await refusal(say(rig, "alice", "bob"))

    assert refused.code in ("policy_denied", "cross_org_denied", "no_responders")
    assert await rig.store.every(Channel, DEFAULT_TENANT) == ()
