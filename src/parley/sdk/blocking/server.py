# Written by tools/gen_client.py from sdk/client/server.py. Change that, then run: make docs
"""The server itself: how it is, and what it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from parley.sdk.blocking.area import Area
from parley.sdk.records import read_answer
from parley.sdk.transport.port import Broken
from parley.wire.api.records.directory import Health, ServerInfo
from parley.wire.api.records.status import StatusHistory

if TYPE_CHECKING:
    from parley.sdk.protocol.flow import Answer, ApiSession, Flow

R = TypeVar("R")


def _send_once(session: ApiSession, path: str) -> Flow[Answer]:
    """Ask for a document that is not below the API's own path, in one try: it says how the server is now."""
    request = session.request("GET")._replace(target=f"{session.place.prefix}{path}")
    try:
        response = yield request
    except Broken as broken:
        raise session.with_hint(session.connection_error(broken, arrived=broken.arrived)) from None
    return session.answer(response, parsed=False)


class Server(Area):
    """What a client asks about the server."""

    def health(self) -> Health:
        """How the server is, in one try: "ready" when it can write and read, else `Unavailable`."""
        return self._read(Health, "/readyz")

    def server_info(self) -> ServerInfo:
        """What the server speaks, and which version it is of."""
        return self._read(ServerInfo, "/.well-known/openintent.json")

    def status_history(self, seconds: int = 600) -> StatusHistory:
        """What the servers did in the last seconds, at most 600. Needs an admin's key of the operator's tenant."""
        return self._fetch(StatusHistory, "GET", "status", "history", query={"seconds": seconds})

    def _read(self, kind: type[R], path: str) -> R:
        answer = self.connection.run(_send_once(self.connection.session, path))
        return read_answer(answer.content, kind)
