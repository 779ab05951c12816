"""The server about itself, by both clients."""

from __future__ import annotations

from parley import __version__
from parley.sdk.client.server import AsyncServer, Server
from parley.sdk.records.directory import Health
from tests.team_rig import LiveServer, with_server
from tests.unit.sdk.client.driven import TWINS, driven, public_methods


@TWINS
@with_server
async def test_a_server_says_how_it_is_and_what_it_speaks_without_a_key(server: LiveServer, twin: str) -> None:
    async with driven(server, twin, key="no key at all") as nobody:
        assert await nobody.health() == Health(status="ready")
        info = await nobody.server_info()

    assert (info.implementation.name, info.implementation.version) == ("parley", __version__)
    assert "channels" in info.capabilities
    assert info.api_base_url == "/api/v1"
    assert nobody.called >= set(public_methods(Server))
    assert public_methods(Server) == public_methods(AsyncServer)
