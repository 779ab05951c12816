"""Several addresses of one installation: a request goes to the address that worked last, and to the next on failure.

A transport never sends a request twice that may have arrived. So only a connection that could not be opened leads to
the next address at once; after any other failure the next request goes there, and the flow decides whether the same one
is sent again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from parley.sdk.transport.port import AsyncTransport, Broken, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parley.sdk.transport.port import ClosingAsyncIterator, ClosingIterator, Place, Request, Response

T = TypeVar("T")

# What a node answers that stops, or a proxy whose node is away.
_AWAY = (502, 503, 504)


class _Rotation(Generic[T]):
    """The transports, and which of them is next. Threads may share it: the worst that a race does is one more try."""

    def __init__(self, places: Sequence[Place], transport: Callable[[Place], T]) -> None:
        self.transports = [(place.prefix, transport(place)) for place in places]
        self._first_prefix = places[0].prefix
        self._current = 0

    def candidates(self, request: Request) -> list[tuple[int, T, Request]]:
        """Every transport with its number and the request as its server expects it, beginning with the current one."""
        count, current = len(self.transports), self._current
        numbers = [(current + step) % count for step in range(count)]
        return [(number, self.transports[number][1], self._moved(request, number)) for number in numbers]

    def _moved(self, request: Request, number: int) -> Request:
        prefix = self.transports[number][0]
        if prefix == self._first_prefix:
            return request
        return request._replace(target=prefix + request.target.removeprefix(self._first_prefix))

    def failed(self, number: int) -> None:
        """Let the next request begin with the address after this one."""
        self._current = (number + 1) % len(self.transports)

    def answered(self, number: int, status: int) -> None:
        """Let the next request begin here, unless the node is about to stop."""
        self._current = number
        if status in _AWAY:
            self.failed(number)


class Failover(_Rotation[Transport]):
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


class AsyncFailover(_Rotation[AsyncTransport]):
    """Carries requests to the first of several addresses that can be reached; see `AsyncTransport`."""

    async def send(self, request: Request) -> Response[ClosingAsyncIterator]:
        """The answer, whatever its status. `Broken` when no address can be reached."""
        refused: Broken | None = None
        for number, transport, moved in self.candidates(request):
            try:
                response = await transport.send(moved)
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

    async def close(self) -> None:
        """Let go of all connections; the next request opens new ones."""
        for _, transport in self.transports:
            await transport.close()
