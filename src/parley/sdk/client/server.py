"""The server itself: how it is, and what it speaks."""

from __future__ import annotations

from parley.sdk.client.session import AsyncSession, Session, fetch_bare
from parley.sdk.records.directory import Health, ServerInfo


class Server(Session):
    """What a client asks about the server."""

    def health(self) -> Health:
        """How the server is, in one try: "ready" when it can write and read, else `Unavailable`."""
        return self._run(fetch_bare(self._speaker, Health, "/readyz"))

    def server_info(self) -> ServerInfo:
        """What the server speaks, and which version it is of."""
        return self._run(fetch_bare(self._speaker, ServerInfo, "/.well-known/openintent.json"))


class AsyncServer(AsyncSession):
    """What an asynchronous client asks about the server."""

    async def health(self) -> Health:
        """How the server is, in one try: "ready" when it can write and read, else `Unavailable`."""
        return await self._run(fetch_bare(self._speaker, Health, "/readyz"))

    async def server_info(self) -> ServerInfo:
        """What the server speaks, and which version it is of."""
        return await self._run(fetch_bare(self._speaker, ServerInfo, "/.well-known/openintent.json"))
