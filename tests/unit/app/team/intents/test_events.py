from __future__ import annotations

import json

import pytest

from parley.app.team.intents import events
from parley.app.team.intents.events import EventFilter
from parley.domain.channel.event import Event
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import Forbidden, Invalid, NotFound
from tests.rigs.team import INTENT, Rig, with_rig

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def write(rig: Rig, agent: str = "alice", event_type: str = "comment", trace_id: str = "") -> Event:
    caller = rig.caller(agent)._replace(trace_id=trace_id)
    return await events.append(rig.team, caller, INTENT, event_type, b'{"n":1}')


@with_rig
async def test_what_the_server_tells_carries_the_trace_of_the_call(rig: Rig) -> None:
    caller = rig.caller("alice")

    plain = rig.team.event_by(caller, INTENT, "comment", n=1)
    traced = rig.team.event_by(caller._replace(trace_id=TRACE), INTENT, "comment", n=1)

    assert (plain.trace_id, traced.trace_id) == ("", TRACE)
    assert (plain.actor, json.loads(plain.payload)) == ("alice", {"n": 1})


@with_rig
async def test_the_log_of_each_intent_counts_for_itself(rig: Rig) -> None:
    await rig.intent()
    await rig.intent("intent_2")
    first = await write(rig)
    await events.append(rig.team, rig.caller("alice"), "intent_2", "comment", b"{}")
    second = await write(rig)

    assert (first.sequence, second.sequence) == (1, 2)
    assert json.loads(second.document)["previous_event_hash"] == first.event_hash


@with_rig
async def test_a_reader_writes_nothing_into_the_log(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", Permission.READ),))

    with pytest.raises(Forbidden):
        await write(rig, "bob")
    with pytest.raises(NotFound):
        await write(rig, "mallory")
    with pytest.raises(Invalid):
        await write(rig, "alice", "agent_assigned")

    assert await events.list_page(rig.team, rig.caller("bob"), INTENT, EventFilter()) == ()


@with_rig
async def test_for_a_fleet_of_the_sdk_only_what_it_can_read_is_written(rig: Rig) -> None:
    await rig.intent()
    await write(rig, event_type="our.own")
    rig.team.sdk_event_names = True

    with pytest.raises(Invalid):
        await write(rig, event_type="our.own")
    await write(rig, event_type="tool.invoked")


@pytest.mark.both_stores
@with_rig
async def test_without_a_cursor_the_last_events_are_listed_in_order(rig: Rig) -> None:
    await rig.intent()
    for _ in range(4):
        await write(rig)

    async def listed(wanted: EventFilter) -> list[int]:
        return [one.sequence for one in await events.list_page(rig.team, rig.caller("alice"), INTENT, wanted)]

    assert await listed(EventFilter(limit=2)) == [3, 4]
    assert await listed(EventFilter(after=0, limit=2)) == [1, 2]
    assert await listed(EventFilter(after=3)) == [4]
    assert await listed(EventFilter(since=rig.at(), limit=2)) == [1, 2]
    rig.clock.pass_by(seconds=1)
    assert await listed(EventFilter(since=rig.at())) == []


@pytest.mark.both_stores
@with_rig
async def test_a_trace_shows_nothing_of_another_tenant(rig: Rig) -> None:
    await rig.intent()
    await write(rig, trace_id=TRACE)

    async def traced(tenant: str) -> int:
        return len(await events.list_traced(rig.team, rig.caller("alice", tenant=tenant), TRACE, 10))

    assert (await traced(DEFAULT_TENANT), await traced("other")) == (1, 0)


@with_rig
async def test_a_long_log_comes_in_pieces_without_a_gap(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_PAGE", 2)
    await rig.intent()
    for _ in range(5):
        await write(rig)

    pieces = [piece async for piece in events.read_all(rig.team, rig.caller("alice"), INTENT)]

    assert [[one.sequence for one in piece] for piece in pieces] == [[1, 2], [3, 4], [5]]
