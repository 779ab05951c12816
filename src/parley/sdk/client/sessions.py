"""Sign-ins of browsers."""

from __future__ import annotations

from parley.sdk.client.area import AsyncArea
from parley.sdk.client.fields import without_none
from parley.wire.api.records.directory import EndedSessions, LoginLink, LoginSession


class AsyncSessions(AsyncArea):
    """What a client does with sign-ins of browsers."""

    async def list_sessions(self, *, after: str | None = None, limit: int | None = None) -> list[LoginSession]:
        """Your sign-ins, oldest first; with an admin's key those of the tenant. `after` is the id of one."""
        return await self._fetch(list[LoginSession], "GET", "sessions", query=without_none(after=after, limit=limit))

    async def end_session(self, session_id: str) -> LoginSession:
        """End a sign-in at once."""
        return await self._fetch(LoginSession, "DELETE", "sessions", session_id)

    async def end_sessions(self) -> int:
        """End all your own sign-ins; how many there were."""
        return (await self._fetch(EndedSessions, "DELETE", "sessions")).ended

    async def create_login_link(self) -> LoginLink:
        """A secret with which a browser signs in with your key, once, within ten minutes."""
        return await self._fetch(LoginLink, "POST", "sessions", "once", body={})
