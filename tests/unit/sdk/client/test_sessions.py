"""Sign-ins of browsers, on a real server."""

from __future__ import annotations

from parley.app.team.directory import sessions
from parley.sdk.client.sessions import AsyncSessions
from parley.wire.api.records.directory import LoginSession
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.client.recorded import admin, public_methods, recorded


@with_server
async def test_sign_ins_are_listed_and_ended(server: LiveServer) -> None:
    async with admin(server) as boss:
        secret = (await boss.create_key("human", user_id="ann")).key
    async with recorded(server, key=secret) as ann:
        links = [await ann.create_login_link() for _ in range(2)]
        assert links[0].once not in repr(links[0])
        begun = [await sessions.start_by_link(server.rig.team, link.once) for link in links]
        first, second = await ann.list_sessions(limit=10)
        assert isinstance(first, LoginSession)
        assert [one.id for one in (first, second)] == [one.session.id for one in begun]
        assert [one.id for one in await ann.list_sessions(after=first.id)] == [second.id]
        assert (await ann.end_session(first.id)).id == first.id
        assert await ann.end_sessions() == 1
        assert await ann.list_sessions() == []
        assert ann.called >= public_methods(AsyncSessions)
