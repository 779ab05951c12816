"""One pass over what is due, beside everything else that happens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from parley.app.team.directory import agents as registry
from parley.app.team.directory import departure
from parley.app.team.work import sweep
from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.identity import Challenge
from parley.domain.channel.channel import Channel, ChannelStatus, Options
from parley.domain.channel.post import PostState
from parley.domain.directory.callers import AgentStatus, Saved
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges
from parley.domain.times import Instant, from_stamp, stamp
from tests.rigs.node import two_nodes
from tests.rigs.team import Rig, in_loop, with_rig

pytestmark = pytest.mark.both_stores


async def channel_of(rig: Rig, channel_id: str = "chan_1") -> Channel:
    found = await rig.store.get(Channel, "default", channel_id)
    assert found is not None
    return found


async def state_of(rig: Rig, message_id: str) -> PostState:
    found = await rig.store.post("default", message_id)
    assert found is not None
    return found.state


async def agent_of(rig: Rig, agent: str) -> AgentRecord:
    found = await rig.store.get(AgentRecord, "default", agent)
    assert found is not None
    return found


@with_rig
async def test_a_pass_over_nothing_does_nothing(rig: Rig) -> None:
    assert await sweep.sweep(rig.team) == 0


@with_rig
async def test_messages_whose_time_has_passed_expire(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    soon = await rig.say("alice", expires_at=rig.clock.at + timedelta(seconds=10))
    late = await rig.say("alice", expires_at=rig.clock.at + timedelta(seconds=20))
    rig.clock.pass_by(seconds=10)

    assert await sweep.sweep(rig.team) == 1

    assert await state_of(rig, soon.id) is PostState.EXPIRED
    assert await state_of(rig, late.id) is PostState.DELIVERED
    assert await sweep.sweep(rig.team) == 0


@with_rig
async def test_messages_of_every_tenant_expire_in_one_pass(rig: Rig) -> None:
    for tenant in ("acme", "default"):
        await rig.intent(f"intent_{tenant}", tenant=tenant)
        await rig.channel(f"chan_{tenant}", intent_id=f"intent_{tenant}", tenant=tenant)
        ends = rig.clock.at + timedelta(seconds=10)
        await rig.say("alice", channel_id=f"chan_{tenant}", tenant=tenant, expires_at=ends)
    rig.clock.pass_by(seconds=10)

    assert await sweep.sweep(rig.team) == 2
    assert await rig.store.overdue(rig.at()) == ()


@with_rig
async def test_a_request_that_was_answered_in_time_does_not_expire(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    ends = rig.clock.at + timedelta(seconds=10)
    asked = await rig.say("alice", to="bob", pattern=Pattern.REQUEST, expires_at=ends)
    await rig.say("bob", pattern=Pattern.RESPONSE, in_reply_to=asked.id)
    rig.clock.pass_by(seconds=10)

    await sweep.sweep(rig.team)

    assert await state_of(rig, asked.id) is PostState.DELIVERED


@with_rig
async def test_an_answer_that_lands_while_the_sweep_looks_wins(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.intent()
    await rig.channel()
    ends = rig.clock.at + timedelta(seconds=10)
    asked = await rig.say("alice", to="bob", pattern=Pattern.REQUEST, expires_at=ends)
    looked = rig.store.overdue

    async def look_then_answer(now: str, limit: int) -> tuple[tuple[str, str], ...]:
        found = await looked(stamp(ends), limit)
        await rig.say("bob", pattern=Pattern.RESPONSE, in_reply_to=asked.id)
        return found

    monkeypatch.setattr(rig.store, "overdue", look_then_answer)

    await sweep.sweep(rig.team)

    assert await state_of(rig, asked.id) is PostState.DELIVERED


@with_rig
async def test_a_channel_is_closed_at_the_moment_its_time_ran_out(rig: Rig) -> None:
    await rig.intent()
    made = await rig.channel(options=Options(ttl_seconds=60))
    asked = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    rig.clock.pass_by(seconds=100)

    await sweep.sweep(rig.team)

    channel = await channel_of(rig)
    assert channel.status is ChannelStatus.CLOSED
    assert channel.closed_at == stamp(from_stamp(made.created_at) + timedelta(seconds=60))
    assert await state_of(rig, asked.id) is PostState.EXPIRED


@with_rig
async def test_a_channel_in_which_somebody_spoke_lives_on_from_then(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(options=Options(ttl_seconds=60))
    rig.clock.pass_by(seconds=50)
    said = await rig.say("alice")
    rig.clock.pass_by(seconds=20)

    await sweep.sweep(rig.team)

    channel = await channel_of(rig)
    assert channel.is_open
    assert channel.expires == stamp(from_stamp(said.created_at) + timedelta(seconds=60))
    assert await sweep.sweep(rig.team) == 0


@with_rig
async def test_a_closed_channel_is_purged_after_its_retention_and_its_name_is_free(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(options=Options(ttl_seconds=60))
    said = await rig.say("alice")
    rig.clock.pass_by(seconds=60)
    await sweep.sweep(rig.team)

    rig.clock.pass_by(days=7, seconds=-1)
    await sweep.sweep(rig.team)
    assert await rig.store.post("default", said.id) is not None
    rig.clock.pass_by(seconds=1)
    await sweep.sweep(rig.team)

    assert await rig.store.post("default", said.id) is None
    assert await rig.store.get(Channel, "default", "chan_1") is None
    assert (await rig.channel("chan_2", label="chan_1")).name == "chan_1"


@with_rig
async def test_silent_agents_keep_their_channels_and_nothing_is_written(rig: Rig) -> None:
    await rig.intent()
    await rig.channel("chan_1", "bob")
    await rig.agent("bob")
    await registry.heartbeat(rig.team, rig.caller("bob"), "bob", 0)
    before = await agent_of(rig, "bob")

    rig.clock.pass_by(hours=8)
    await sweep.sweep(rig.team)

    assert await agent_of(rig, "bob") == before
    assert await rig.store.feed("default", 0) == ()
    assert (await channel_of(rig)).member("bob")


@with_rig
async def test_sweeps_and_a_departure_at_once_report_the_agent_once(rig: Rig) -> None:
    await rig.intent()
    await rig.channel("chan_1", "bob")
    await rig.agent("bob")
    await registry.heartbeat(rig.team, rig.caller("bob"), "bob", 0)
    rig.clock.pass_by(seconds=300)

    leaving = departure.depart(rig.team, rig.caller("bob"), "bob")
    await asyncio.gather(leaving, *(sweep.sweep(rig.team) for _ in range(5)))

    feed = await rig.store.feed("default", 0)
    assert len([item for item in feed if item.post]) == 1


@with_rig
async def test_challenges_that_nobody_answered_are_let_go(rig: Rig) -> None:
    await rig.put(Challenge(id="a", tenant_id="default", text="t", public_key="ed25519:A", did="d", ends_at=rig.at()))

    await sweep.sweep(rig.team)

    assert await rig.store.get(Challenge, "default", "a") is None


@with_rig
async def test_what_changes_under_its_hands_is_left_for_the_next_pass(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.intent()
    await rig.channel(options=Options(ttl_seconds=60))
    rig.clock.pass_by(seconds=60)
    due = await rig.store.due(rig.at())
    await rig.put(replace(await channel_of(rig), task_id="task_1"))

    async def as_it_was(*_: object, **__: object) -> tuple[object, ...]:
        return due

    with monkeypatch.context() as patched:
        patched.setattr(rig.store, "due", as_it_was)
        await sweep.sweep(rig.team)
    assert (await channel_of(rig)).is_open
    await sweep.sweep(rig.team)

    channel = await channel_of(rig)
    assert (channel.is_open, channel.task_id) == (False, "task_1")


@with_rig
async def test_idempotency_keys_are_forgotten_after_a_day(rig: Rig) -> None:
    for scope in ("early", "late"):
        await rig.store.commit(TeamChanges("default", saved=Saved(scope, "f", "made", rig.at())))
        rig.clock.pass_by(hours=12)
    rig.clock.pass_by(seconds=1)

    await sweep.sweep(rig.team)

    assert await rig.store.saved("early") is None
    assert await rig.store.saved("late") is not None


@with_rig
async def test_an_idle_pass_writes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await sweep.sweep(rig.team)
    written: list[TeamChanges] = []

    async def note(changes: TeamChanges) -> None:
        written.append(changes)

    monkeypatch.setattr(rig.store, "commit", note)
    rig.clock.pass_by(seconds=1)
    await sweep.sweep(rig.team)

    assert written == []


@pytest.mark.requirement("GOV-CLOCK")
@with_rig
async def test_nothing_ends_by_the_clock_while_the_wall_has_jumped(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.intent()
    await rig.channel(options=Options(ttl_seconds=60))
    said = await rig.say("alice", expires_at=rig.clock.at + timedelta(seconds=10))
    rig.clock.pass_by(seconds=100)

    with monkeypatch.context() as patched:
        patched.setattr(rig.clock, "now", lambda: Instant(rig.clock.at, "boot-1", 0.0, step=3_600.0))
        assert await sweep.sweep(rig.team) == 0
    assert await state_of(rig, said.id) is PostState.DELIVERED
    assert (await channel_of(rig)).is_open
    await sweep.sweep(rig.team)

    assert await state_of(rig, said.id) is PostState.EXPIRED
    assert not (await channel_of(rig)).is_open


@with_rig
async def test_a_pass_is_bounded_and_the_next_one_goes_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_MOST", 2)
    await rig.intent()
    await rig.channel()
    for _ in range(3):
        await rig.say("alice", expires_at=rig.clock.at + timedelta(seconds=10))
    rig.clock.pass_by(seconds=10)

    assert [await sweep.sweep(rig.team) for _ in range(3)] == [2, 1, 0]


@in_loop
async def test_what_another_server_has_changed_is_judged_as_it_is_now(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await a.intent()
        await a.agent("bob", status=AgentStatus.DRAINING, draining_since=a.at(), drain_timeout_seconds=3600)
        assert await b.store.get(AgentRecord, "default", "bob") is not None

        # Given a deadline that the server which sweeps has not heard of
        await a.agent("bob", drain_timeout_seconds=1)
        for rig in (a, b):
            rig.clock.pass_by(seconds=2)
        await sweep.sweep(b.team)

        await a.store.catch_up("default")
        found = await a.store.get(AgentRecord, "default", "bob")
        assert found is not None
        assert found.gone
