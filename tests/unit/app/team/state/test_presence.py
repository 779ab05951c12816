"""Which agents are there: those with a stream on any server."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.app.team.channels import streams
from parley.app.team.channels.streams import Followed
from parley.app.team.directory import agents
from parley.app.team.work.background import heartbeat
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.times import from_stamp
from tests.rigs.node import two_nodes
from tests.rigs.team import LiveServer, Rig, in_loop, with_rig, with_server


async def online(rig: Rig) -> set[str]:
    return {*(await agents.find_connected(rig.team, DEFAULT_TENANT)).agents}


@with_rig
async def test_an_agent_is_connected_while_a_stream_of_its_own_is_open(rig: Rig) -> None:
    await rig.tenant()
    await rig.key("alice")
    stream = streams.follow(rig.team, rig.caller("alice"), Followed(agent="alice"), None)
    before = await online(rig)
    await anext(stream)
    during = await online(rig)
    await stream.aclose()
    after = await agents.find_connected(rig.team, DEFAULT_TENANT)

    assert (before, during, {*after.agents}) == (set(), {"alice"}, set())
    assert after.left_at == {"alice": rig.at()}


@with_rig
async def test_somebody_who_looks_at_what_an_agent_sees_does_not_make_it_present(rig: Rig) -> None:
    await rig.tenant()
    await rig.key("", KeyKind.ADMIN)
    stream = streams.follow(rig.team, rig.caller("", KeyKind.ADMIN), Followed(agent="alice"), None)
    await anext(stream)

    assert await online(rig) == set()
    await stream.aclose()


@pytest.mark.both_stores
@in_loop
async def test_a_stream_on_one_server_is_known_to_the_others(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await a.tenant()
        await a.key("alice")
        stream = streams.follow(a.team, a.caller("alice"), Followed(agent="alice"), None)
        await anext(stream)
        await heartbeat(a.team)

        assert await online(b) == {"alice"}
        await stream.aclose()


@with_server
async def test_the_registry_says_who_is_online_when_it_was_seen_and_what_waits_for_it(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    for client, name in ((alice, "alice"), (bob, "bob")):
        await client.post("/agents/register", {"agent_id": name})
    async with bob.events("/agents/bob/subscribe"):
        await alice.post(
            "/channels/chan_1/messages", {"message_type": "request", "to": "bob", "payload": {"text": "Is it done?"}}
        )
        there = {agent["agent_id"]: agent for agent in (await alice.get("/agents")).json}
        seen = (await alice.get("/agents/bob/record")).json
        named = (await alice.get("/agents", names="nobody,bob")).json

    fields = ("online", "last_seen_at", "open_asks")
    assert [there["alice"][name] for name in fields] == [False, None, 0]
    assert [there["bob"][name] for name in fields] == [True, server.rig.at(), 1]
    assert named == [there["bob"]]
    assert from_stamp(seen["last_seen_at"]) == server.rig.clock.at
