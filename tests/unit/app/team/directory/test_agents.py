"""Agents register, are heard of, drain and are found."""

from __future__ import annotations

import asyncio

import pytest

from parley.app.team.directory import agents as registry
from parley.app.team.directory.agents import AgentFilter
from parley.app.team.work import sweep
from parley.domain.agents.agent import AgentDraft, AgentRecord
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import PostState
from parley.domain.directory.callers import AgentStatus, KeyKind, Role
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import AgentGone, QuotaExceeded, WrongSender
from parley.domain.message.message import Pattern
from tests.rigs.lists import collect
from tests.rigs.team import Rig, with_rig


async def register(rig: Rig, agent: str, *capabilities: str) -> AgentRecord:
    return (await registry.register(rig.team, rig.caller(agent), AgentDraft(agent, capabilities))).record


async def found(rig: Rig, **wanted: object) -> list[str]:
    wanted_agents = AgentFilter(**wanted)  # type: ignore[arg-type]
    listed = await collect(registry.list_page(rig.team, rig.caller("x"), wanted_agents))
    return [one.record.id for one in listed]


@with_rig
async def test_an_agent_that_registers_is_active(rig: Rig) -> None:
    record = await register(rig, "a", "search")

    assert record.capabilities == ("search",)
    assert (await registry.get(rig.team, rig.caller("b"), "a")).status is AgentStatus.ACTIVE


@with_rig
async def test_registering_again_updates_the_one_record(rig: Rig) -> None:
    first = await register(rig, "a", "search")
    rig.clock.pass_by(seconds=10)

    again = await register(rig, "a", "search", "write")

    assert again.version == first.version + 1
    assert again.capabilities == ("search", "write")
    assert again.registered_at == first.registered_at
    assert await found(rig) == ["a"]


@with_rig
async def test_agents_of_another_tenant_do_not_exist(rig: Rig) -> None:
    await register(rig, "a")
    stranger = rig.caller("b", tenant="acme")

    assert await collect(registry.list_page(rig.team, stranger, AgentFilter())) == []
    with pytest.raises(NotFound):
        await registry.get(rig.team, stranger, "a")


@with_rig
async def test_only_the_agent_itself_a_service_or_an_admin_changes_an_agent(rig: Rig) -> None:
    await register(rig, "a")
    other = rig.caller("b")

    for kind in (KeyKind.SERVICE, KeyKind.ADMIN):
        await registry.heartbeat(rig.team, rig.caller("coordinator", kind), "a", 1)
    with pytest.raises(WrongSender):
        await registry.register(rig.team, other, AgentDraft("a"))
    with pytest.raises(WrongSender):
        await registry.heartbeat(rig.team, other, "a", 1)
    with pytest.raises(WrongSender):
        await registry.change_status(rig.team, other, "a", AgentStatus.DRAINING)
    with pytest.raises(WrongSender):
        await registry.deregister(rig.team, other, "a")


@with_rig
async def test_health_is_told_from_silence_without_the_sweep(rig: Rig) -> None:
    await register(rig, "a")
    await registry.heartbeat(rig.team, rig.caller("a"), "a", 2)

    rig.clock.pass_by(seconds=90)
    assert (await registry.get(rig.team, rig.caller("b"), "a")).status is AgentStatus.UNHEALTHY
    rig.clock.pass_by(seconds=210)
    assert (await registry.get(rig.team, rig.caller("b"), "a")).status is AgentStatus.DEAD
    assert await found(rig, status=AgentStatus.DEAD) == ["a"]


@with_rig
async def test_a_heartbeat_makes_an_unhealthy_agent_active_again(rig: Rig) -> None:
    await register(rig, "a")
    await registry.heartbeat(rig.team, rig.caller("a"), "a", 0)
    rig.clock.pass_by(seconds=120)

    alive = await registry.heartbeat(rig.team, rig.caller("a"), "a", 3)

    assert alive.status is AgentStatus.ACTIVE
    assert alive.record.current_load == 3


@with_rig
async def test_a_heartbeat_brings_back_whoever_counted_as_dead_with_everything_it_had(rig: Rig) -> None:
    await rig.intent()
    await rig.channel("chan_1", "a")
    await registry.register(rig.team, rig.caller("a", kind=KeyKind.ADMIN), AgentDraft("a", role_id="worker"))
    await registry.heartbeat(rig.team, rig.caller("a"), "a", 0)
    asked = await rig.say("alice", to="a", pattern=Pattern.REQUEST)
    rig.clock.pass_by(hours=1)
    await sweep.sweep(rig.team)
    assert (await registry.get(rig.team, rig.caller("b"), "a")).status is AgentStatus.DEAD

    meanwhile = await rig.say("alice", to="a")
    back = await registry.heartbeat(rig.team, rig.caller("a"), "a", 0)

    assert (back.status, back.record.role_id) == (AgentStatus.ACTIVE, "worker")
    role = await rig.store.get(Role, "default", "worker")
    channel = await rig.store.get(Channel, "default", "chan_1")
    assert role is not None
    assert role.held_by("a")
    assert channel is not None
    assert channel.member("a")
    feed = await rig.store.feed("default", 0)
    assert [(item.post.id, item.post.state) for item in feed if item.post] == [
        (asked.id, PostState.DELIVERED),
        (meanwhile.id, PostState.DELIVERED),
    ]


@with_rig
async def test_a_draining_agent_stays_draining_through_its_heartbeats(rig: Rig) -> None:
    await register(rig, "a")
    await registry.change_status(rig.team, rig.caller("a"), "a", AgentStatus.DRAINING)

    beaten = await registry.heartbeat(rig.team, rig.caller("a"), "a", 0)

    assert beaten.status is AgentStatus.DRAINING
    active = await registry.change_status(rig.team, rig.caller("a"), "a", AgentStatus.ACTIVE)
    assert (active.status, active.record.draining_since) == (AgentStatus.ACTIVE, "")


@with_rig
async def test_draining_twice_does_not_win_time(rig: Rig) -> None:
    await registry.register(rig.team, rig.caller("a"), AgentDraft("a", drain_timeout_seconds=60))
    await registry.change_status(rig.team, rig.caller("a"), "a", AgentStatus.DRAINING)
    rig.clock.pass_by(seconds=50)
    await registry.change_status(rig.team, rig.caller("a"), "a", AgentStatus.DRAINING)

    rig.clock.pass_by(seconds=10)

    assert (await registry.get(rig.team, rig.caller("a"), "a")).status is AgentStatus.DEREGISTERED


@with_rig
async def test_a_deregistered_agent_keeps_its_record_and_may_register_anew(rig: Rig) -> None:
    await register(rig, "a", "search")

    left = await registry.deregister(rig.team, rig.caller("a"), "a")

    assert left.status is AgentStatus.DEREGISTERED
    with pytest.raises(AgentGone):
        await registry.change_status(rig.team, rig.caller("a"), "a", AgentStatus.ACTIVE)
    assert (await register(rig, "a")).status is AgentStatus.ACTIVE


@with_rig
async def test_agents_are_found_by_capability_role_and_status(rig: Rig) -> None:
    await register(rig, "a", "search")
    await register(rig, "b", "search", "write")
    await register(rig, "c")
    await rig.role("reviewer", "b", "c")
    await registry.change_status(rig.team, rig.caller("c"), "c", AgentStatus.DRAINING)

    assert await found(rig) == ["a", "b", "c"]
    assert await found(rig, capability="search") == ["a", "b"]
    assert await found(rig, role_id="reviewer") == ["b", "c"]
    assert await found(rig, role_id="nobody") == []
    assert await found(rig, status=AgentStatus.DRAINING) == ["c"]
    assert await found(rig, capability="search", role_id="reviewer", status=AgentStatus.ACTIVE) == ["b"]


@with_rig
async def test_a_tenant_has_so_many_agents(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(agents_per_tenant=1)
    await register(rig, "a")

    await register(rig, "a")

    with pytest.raises(QuotaExceeded):
        await register(rig, "b")


@with_rig
async def test_where_there_is_no_room_an_agent_that_has_left_is_forgotten(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(agents_per_tenant=2)
    for agent in ("a", "b"):
        await register(rig, agent)
    await registry.deregister(rig.team, rig.caller("b"), "b")

    await register(rig, "c")

    assert await found(rig) == ["a", "c"]


@pytest.mark.both_stores
@with_rig
async def test_a_whole_fleet_registers_at_once_with_one_role(rig: Rig) -> None:
    fleet = rig.caller(kind=KeyKind.SERVICE)
    names = [f"agent-{number:02}" for number in range(50)]

    await asyncio.gather(*(registry.register(rig.team, fleet, AgentDraft(name, role_id="worker")) for name in names))

    assert await found(rig, role_id="worker") == names


@with_rig
async def test_a_service_that_registers_an_agent_with_another_role_moves_it(rig: Rig) -> None:
    fleet = rig.caller(kind=KeyKind.SERVICE)
    await registry.register(rig.team, fleet, AgentDraft("a", role_id="writer"))

    moved = await registry.register(rig.team, fleet, AgentDraft("a", role_id="reviewer"))

    assert moved.record.role_id == "reviewer"
    writer = await rig.store.get(Role, "default", "writer")
    assert writer is not None
    assert not writer.held_by("a")
    assert await found(rig, role_id="reviewer") == ["a"]


@with_rig
async def test_every_act_on_an_agent_has_an_actor_in_the_ledger(rig: Rig) -> None:
    await register(rig, "a")
    await registry.change_status(rig.team, rig.caller(kind=KeyKind.SERVICE), "a", AgentStatus.DRAINING)
    await registry.deregister(rig.team, rig.caller("a"), "a")

    written = [one.entry for one in await rig.store.entries("default", 0, 10)]

    assert [one.action for one in written] == ["agent_registered", "agent_status", "agent_departed"]
    assert [one.agent for one in written] == ["a", "service:key_default_service_nobody", "a"]
