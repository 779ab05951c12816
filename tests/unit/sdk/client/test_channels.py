"""Channels, on a real server."""

from __future__ import annotations

import asyncio
from datetime import UTC

import pytest

from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.errors.team import NameTaken, Unauthorized
from parley.sdk.client.channels import AsyncChannels
from parley.sdk.client.client import AsyncClient
from parley.wire.api.records.channels import Channel, ChannelOptions
from tests.rigs.team import INTENT, LiveServer, with_server
from tests.unit.sdk.client.recorded import public_methods, recorded
from tests.unit.sdk.playing import ScriptedTransport, said
from tests.unit.sdk.record_samples import CHANNEL


@with_server
async def test_a_channel_is_created_found_changed_closed_and_deleted(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        made = await alice.create_channel(INTENT, "questions", ["bob"], "explicit", {"audit": True, "ttl_seconds": 60})

        assert isinstance(made, Channel)
        assert (made.name, made["name"], made.intent_id) == ("questions", "questions", INTENT)
        assert made.members == ["alice", "bob"]
        assert made.options == ChannelOptions(audit=True, ttl_seconds=60)
        assert made.created_at.tzinfo is UTC
        assert await alice.get_channel(made.id) == made
        assert made in await alice.list_channels(INTENT)
        assert await alice.open_channel(INTENT, "questions") == made
        first, second = await alice.recent_channels(intent_id=INTENT, active_since=made.created_at)
        assert [first.id, second.id] == sorted(["chan_1", made.id], reverse=True)
        assert await alice.recent_channels(before=first, member="alice", status="open", limit=1) == [second]
        assert await alice.recent_channels(member="nobody") == []

        changed = await alice.update_channel(made.id, add_members=["carol"], options={"ttl_seconds": None})
        assert changed.members == ["alice", "bob", "carol"]
        assert changed.options.ttl_seconds is None

        closed = await alice.close_channel(made.id)
        assert closed.status == "closed"
        assert closed.closed_at is not None

        assert await alice.delete_channel(made.id) is None
        with pytest.raises(NotFound):
            await alice.get_channel(made.id)
        assert alice.called >= public_methods(AsyncChannels)


@with_server
async def test_opening_a_channel_creates_it_when_there_is_none(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        made = await alice.open_channel(INTENT, "new", options=ChannelOptions(max_messages=7), member_policy="explicit")

        assert made.options.max_messages == 7
        assert made.member_policy == "explicit"
        assert (await alice.open_channel(INTENT, "new")).id == made.id


@with_server
async def test_a_name_that_is_taken_is_refused_with_the_id_of_what_has_it(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        made = await alice.create_channel(INTENT, "questions")

        with pytest.raises(NameTaken) as refused:
            await alice.create_channel(INTENT, "questions")

    assert refused.value.facts["channel_id"] == made.id


@with_server
async def test_a_key_that_is_not_valid_is_refused_with_what_to_do(server: LiveServer) -> None:
    async with recorded(server, key="nobody's key") as nobody:
        with pytest.raises(Unauthorized, match="the key from key= is not valid there; set another"):
            await nobody.list_channels(INTENT)


@with_server
async def test_everything_wrong_is_named(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        with pytest.raises(Invalid) as refused:
            await alice.create_channel(INTENT, "no name", options={"max_messages": 0})

    assert refused.value.problems


def test_a_channel_that_somebody_else_made_in_this_moment_is_the_one_that_is_opened() -> None:
    taken = {"code": "name_taken", "detail": "it is taken", "errors": [], "channel_id": "chan_7"}
    transport = ScriptedTransport(said([]), said(taken, 409), said({**CHANNEL, "id": "chan_7"}))
    client = AsyncClient("http://127.0.0.1:1", key="secret", transport=transport)

    opened = asyncio.run(client.open_channel(INTENT, "questions"))

    assert opened.id == "chan_7"
    assert [(request.method, request.target) for request in transport.requests] == [
        ("GET", f"/api/v1/intents/{INTENT}/channels"),
        ("POST", f"/api/v1/intents/{INTENT}/channels"),
        ("GET", "/api/v1/channels/chan_7"),
    ]
