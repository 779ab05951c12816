"""Several addresses of one installation: which is tried first, and which after a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parley.sdk.transport.port import Place, Request

T = TypeVar("T")

# What a node answers that stops, or a proxy whose node is away.
_AWAY = (502, 503, 504)


class Rotation(Generic[T]):
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
