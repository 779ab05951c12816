"""An agent leaves: out of every list, with one word in every channel."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from parley.app.team.channels import channels
from parley.app.team.channels.asking import ask
from parley.app.team.channels.channels import ChannelChange
from parley.app.team.directory import agents as registry
from parley.app.team.directory import departure, roles
from parley.domain.agents.agent import AgentDraft, AgentRecord
from parley.domain.channel.channel import Channel, ChannelStatus, Member, MemberPolicy, Options
from parley.domain.channel.post import Post, PostDraft, PostState
from parley.domain.directory.callers import AgentStatus, KeyKind, Role
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import AgentDeparted, MessageExpired
from parley.domain.message.message import Pattern
from tests.rigs.node import two_nodes
from tests.rigs.team import Rig, in_loop, soon, with_rig

pytestmark = pytest.mark.both_stores


async def team_of_three(rig: Rig) -> None:
    """Alice's intent with a channel for the listed and one for everybody; bob is registered."""
    await rig.intent()
    await rig.channel("chan_1", "bob", "carol", policy=MemberPolicy.EXPLICIT)
    await rig.channel("chan_2")
    await rig.agent("bob")


async def leave(rig: Rig, agent: str = "bob") -> AgentRecord:
    return await departure.depart(rig.team, rig.caller(agent), agent)


async def notices(rig: Rig, channel_id: str = "") -> list[Post]:
    feed = await rig.store.feed("default", 0)
    posts = [item.post for item in feed if item.post and item.post.sender == "system"]
    return [one for one in posts if not channel_id or one.channel_id == channel_id]


async def asked_something(rig: Rig) -> bool:
    return await rig.store.head("default") > 0


async def post_of(rig: Rig, post: Post) -> Post:
    found = await rig.store.post("default", post.id)
    assert found is not None
    return found


@with_rig
async def test_each_channel_of_the_agent_hears_of_it_once(rig: Rig) -> None:
    await team_of_three(rig)

    await leave(rig)

    (notice,) = await notices(rig)
    assert (notice.channel_id, notice.to, notice.pattern, notice.recipients) == ("chan_1", "*", Pattern.NOTIFY, None)
    assert json.loads(notice.payload) == {"event": "agent_departed", "agent_id": "bob"}
    assert notice.state is PostState.DELIVERED


@with_rig
async def test_the_agent_is_in_no_member_list_and_holds_no_role_any_more(rig: Rig) -> None:
    await team_of_three(rig)
    await rig.role("billing", "bob", "carol")

    await leave(rig)

    channel = await rig.store.get(Channel, "default", "chan_1")
    role = await rig.store.get(Role, "default", "billing")
    assert channel is not None
    assert role is not None
    assert [one.agent for one in channel.members] == ["alice", "carol"]
    assert [one.agent for one in role.holders] == ["carol"]


@with_rig
async def test_what_the_agent_was_asked_expires_and_nothing_else(rig: Rig) -> None:
    await team_of_three(rig)
    asked = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    told = await rig.say("alice", to="bob")
    elsewhere = await rig.say("alice", to="carol", pattern=Pattern.REQUEST)
    answered = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    await rig.say("bob", pattern=Pattern.RESPONSE, in_reply_to=answered.id)

    await leave(rig)

    assert (await post_of(rig, asked)).state is PostState.EXPIRED
    for other in (told, elsewhere, answered):
        assert (await post_of(rig, other)).state is PostState.DELIVERED


@with_rig
async def test_a_channel_open_to_the_intent_hears_of_an_agent_that_spoke_there(rig: Rig) -> None:
    await team_of_three(rig)
    await rig.say("bob", channel_id="chan_2")

    await leave(rig)

    assert sorted(one.channel_id for one in await notices(rig)) == ["chan_1", "chan_2"]


@with_rig
async def test_a_channel_open_to_the_intent_hears_of_an_agent_that_was_being_asked_there(rig: Rig) -> None:
    await team_of_three(rig)
    await rig.say("alice", to="bob", pattern=Pattern.REQUEST, channel_id="chan_2")

    await leave(rig)

    assert len(await notices(rig, "chan_2")) == 1


@with_rig
async def test_leaving_twice_is_leaving_once(rig: Rig) -> None:
    await team_of_three(rig)

    first = await leave(rig)
    again = await leave(rig)

    assert first == again
    assert len(await notices(rig)) == 1


@with_rig
async def test_many_who_see_it_leave_at_once_say_so_once(rig: Rig) -> None:
    await team_of_three(rig)

    await asyncio.gather(*(leave(rig) for _ in range(10)))

    assert len(await notices(rig)) == 1


@with_rig
async def test_a_whole_fleet_leaves_one_channel_at_once(rig: Rig) -> None:
    names = [f"agent-{number:02}" for number in range(50)]
    await rig.intent()
    await rig.channel("chan_1", *names)
    await rig.role("worker", *names)
    for name in names:
        await rig.agent(name)

    await asyncio.gather(*(leave(rig, name) for name in names))

    channel = await rig.store.get(Channel, "default", "chan_1")
    assert channel is not None
    assert [one.agent for one in channel.members] == ["alice"]
    assert sorted(json.loads(one.payload)["agent_id"] for one in await notices(rig)) == names


@with_rig
async def test_who_came_back_and_leaves_again_is_reported_again_where_it_takes_part(rig: Rig) -> None:
    await team_of_three(rig)
    await leave(rig)
    await registry.register(rig.team, rig.caller("bob"), AgentDraft("bob"))
    await rig.say("bob", channel_id="chan_2")

    await leave(rig)

    assert len(await notices(rig, "chan_1")) == 1
    assert len(await notices(rig, "chan_2")) == 1


@with_rig
async def test_a_closed_channel_loses_the_member_and_says_nothing(rig: Rig) -> None:
    await team_of_three(rig)
    await rig.put(
        Channel(
            id="chan_3",
            tenant_id="default",
            intent_id="intent_1",
            label="over",
            created_by="alice",
            created_at=rig.at(),
            members=(Member(agent="bob"),),
            status=ChannelStatus.CLOSED,
            closed_at=rig.at(),
        )
    )

    await leave(rig)

    closed = await rig.store.get(Channel, "default", "chan_3")
    assert closed is not None
    assert closed.members == ()
    assert await notices(rig, "chan_3") == []


@with_rig
async def test_a_channel_whose_time_has_run_out_is_told_nothing(rig: Rig) -> None:
    await rig.intent()
    await rig.channel("chan_1", "bob", options=Options(ttl_seconds=60))
    await rig.agent("bob")
    rig.clock.pass_by(seconds=60)

    await leave(rig)

    assert await notices(rig) == []


@with_rig
async def test_an_audited_channel_has_the_notice_in_its_log(rig: Rig) -> None:
    await rig.intent()
    await rig.channel("chan_1", "bob", options=Options(audit=True))
    await rig.agent("bob")

    await leave(rig)

    (event,) = await rig.store.events("default", "intent_1")
    assert (event.event_type, event.actor) == ("channel_message", "system")
    assert json.loads(event.document)["payload"]["payload"] == {"event": "agent_departed", "agent_id": "bob"}


@with_rig
async def test_what_the_agent_is_added_to_while_its_departure_is_decided_it_leaves_too(rig: Rig) -> None:
    await team_of_three(rig)
    decided = rig.store.taking_part

    async def added_meanwhile(tenant: str, agent: str) -> tuple[Channel, ...]:
        found = await decided(tenant, agent)
        monkeypatch.undo()
        await channels.change(rig.team, rig.caller("alice"), "chan_2", ChannelChange(add_members=("bob",)))
        return found

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(rig.store, "taking_part", added_meanwhile)
    try:
        await leave(rig)
    finally:
        monkeypatch.undo()

    channel = await rig.store.get(Channel, "default", "chan_2")
    assert channel is not None
    assert channel.member("bob") is None
    assert [one.channel_id for one in await notices(rig)] == ["chan_1", "chan_2"]


@in_loop
async def test_no_server_adds_an_agent_that_leaves_at_another_one(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await team_of_three(a)
        for n in range(10):
            agent = f"bob{n}"
            await a.agent(agent)
            await b.store.catch_up("default")
            join = channels.change(b.team, b.caller("alice"), "chan_2", ChannelChange(add_members=(agent,)))
            grant = roles.grant(b.team, b.caller(kind=KeyKind.ADMIN), "billing", agent)

            await asyncio.gather(leave(a, agent), join, grant, return_exceptions=True)

            await a.store.catch_up("default")
            channel = await a.store.get(Channel, "default", "chan_2")
            role = await a.store.get(Role, "default", "billing")
            assert channel is not None
            assert channel.member(agent) is None
            assert role is None or not role.held_by(agent)


@with_rig
async def test_who_waits_for_the_agent_waits_no_longer(rig: Rig) -> None:
    await team_of_three(rig)
    question = PostDraft(Pattern.REQUEST, b"{}", "bob")
    asking = asyncio.create_task(ask(rig.team, rig.caller("alice"), "chan_1", question, 20.0))
    await soon(lambda: asked_something(rig))

    await leave(rig)

    with pytest.raises(MessageExpired):
        await asking


@with_rig
async def test_nobody_writes_to_or_as_an_agent_that_has_left(rig: Rig) -> None:
    await team_of_three(rig)
    await leave(rig)

    with pytest.raises(AgentDeparted):
        await rig.say("bob", channel_id="chan_2")
    with pytest.raises(AgentDeparted):
        await rig.say("alice", to="bob", channel_id="chan_2")


@with_rig
async def test_the_same_name_in_another_tenant_stays(rig: Rig) -> None:
    await team_of_three(rig)
    await rig.intent("intent_2", tenant="acme")
    await rig.channel("chan_9", "bob", intent_id="intent_2", tenant="acme")
    await rig.agent("bob", tenant="acme")

    await leave(rig)

    there = await rig.store.get(Channel, "acme", "chan_9")
    assert there is not None
    assert there.member("bob")
    assert await rig.store.feed("acme", 0) == ()


@with_rig
async def test_an_agent_that_never_registered_cannot_leave(rig: Rig) -> None:
    with pytest.raises(NotFound):
        await leave(rig, "nobody")


async def drain(rig: Rig, agent: str) -> None:
    """Let an agent's drain time pass."""
    await registry.register(rig.team, rig.caller(agent), AgentDraft(agent, drain_timeout_seconds=60))
    await registry.change_status(rig.team, rig.caller(agent), agent, AgentStatus.DRAINING)
    rig.clock.pass_by(seconds=60)


@with_rig
async def test_silence_is_no_departure(rig: Rig) -> None:
    await team_of_three(rig)
    await registry.heartbeat(rig.team, rig.caller("bob"), "bob", 0)
    rig.clock.pass_by(days=30)

    await departure.settle(rig.team, "default", "bob")

    record = await rig.store.get(AgentRecord, "default", "bob")
    assert record is not None
    assert not record.gone
    assert await notices(rig) == []


@with_rig
async def test_the_end_of_its_drain_time_is_the_departure_of_an_agent_once(rig: Rig) -> None:
    await team_of_three(rig)
    await drain(rig, "bob")

    await departure.settle(rig.team, "default", "bob")
    await departure.settle(rig.team, "default", "bob")

    record = await rig.store.get(AgentRecord, "default", "bob")
    assert record is not None
    assert record.status is AgentStatus.DEREGISTERED
    assert len(await notices(rig)) == 1
    entry = (await rig.store.entries("default", 0, 20))[-1].entry
    assert (entry.action, entry.agent, entry.message_id) == ("agent_departed", "system", "bob")
