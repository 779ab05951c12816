# Written by tools/gen_client.py from sdk/client/failover.py. Change that, then run: make docs
"""Several addresses of one installation: a request goes to the address that worked last, and to the next on failure.

A transport never sends a request twice that may have arrived. So only a connection that could not be opened leads to
the next address at once; after any other failure the next request goes there, and the flow decides whether the same one
is sent again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.sdk.transport.port import Broken, Transport
from parley.sdk.transport.rotation import Rotation

if TYPE_CHECKING:
    from parley.sdk.transport.port import ClosingIterator, Request, Response


class Failover(Rotation[Transport]):
    """Carries requests to the first of several addresses that can be reached; see `Transport`."""

    def send(self, request: Request) -> Response[ClosingIterator]:
        """The answer, whatever its status. `Broken` when no address can be reached."""
        refused: Broken | None = None
        for number, transport, moved in self.candidates(request):
            try:
                response = transport.send(moved)
            except Broken as broken:
                self.failed(number)
                if broken.arrived:
                    raise
                refused = broken
            else:
                self.answered(number, response.status)
                return response
        assert refused is not None  # noqa: S101  # there is at least one address
        raise refused

    def close(self) -> None:
        """Let go of all connections; the next request opens new ones."""
        for _, transport in self.transports:
            transport.close()
