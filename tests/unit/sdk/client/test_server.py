"""The server about itself."""

from __future__ import annotations

import asyncio

import pytest

from parley import __version__
from parley.domain.errors.errors import Unavailable
from parley.sdk.client.client import AsyncClient
from parley.sdk.client.server import AsyncServer
from parley.wire.api.records.directory import Health
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.client.recorded import admin, public_methods, recorded
from tests.unit.sdk.playing import NOBODY, ScriptedTransport


@with_server
async def test_a_server_says_how_it_is_and_what_it_speaks_without_a_key(server: LiveServer) -> None:
    async with recorded(server, key="no key at all") as nobody:
        assert await nobody.health() == Health(status="ready")
        info = await nobody.server_info()

    assert (info.implementation.name, info.implementation.version) == ("parley", __version__)
    assert "channels" in info.capabilities
    assert info.api_base_url == "/api/v1"
    async with admin(server) as boss:
        history = await boss.status_history(60)
    assert [node.here for node in history.nodes] == [True]
    assert nobody.called | boss.called >= public_methods(AsyncServer)


def test_how_the_server_is_comes_from_below_its_own_path_in_one_try() -> None:
    transport = ScriptedTransport(NOBODY)
    client = AsyncClient("http://127.0.0.1:1/below", key="secret", transport=transport)

    with pytest.raises(Unavailable, match="no server answers"):
        asyncio.run(client.health())

    assert [request.target for request in transport.requests] == ["/below/readyz"]
