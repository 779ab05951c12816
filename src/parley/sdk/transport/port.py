"""What a transport does: one verb. Real ones speak HTTP over sockets; in a test one answers in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

Pieces = TypeVar("Pieces")


class Place(NamedTuple):
    """Where a server is: whether to encrypt, host, port, and the path that goes before ours."""

    secure: bool
    host: str
    port: int
    prefix: str


class Request(NamedTuple):
    """A request. `target` is path and query as they are sent; names of headers are lower case.

    `timeout` is how long the head of the answer may take, and then each piece of its body. With `streams` the body
    comes piece by piece, as it arrives; otherwise whole.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    timeout: float = 30.0
    streams: bool = False

    def __repr__(self) -> str:
        return f"Request({self.method} {self.target})"  # without the key: this may go into logs


class Response(NamedTuple, Generic[Pieces]):
    """An answer. Names of headers are lower case.

    `pieces` is there when the request streams and the status is 200; then `body` is empty. Whoever took them closes
    them; they end when the server said that this was all, and raise `Broken` when it did not.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    pieces: Pieces | None = None


class Broken(Exception):  # named for what happened
    """No answer came, or only half of one.

    `arrived` says whether the server may have seen the request: without that, sending it again is always safe.
    `malformed` is what came and is no HTTP: then it is not a server of ours, and asking again would not help.
    """

    def __init__(self, reason: str, *, arrived: bool, timed_out: bool = False, malformed: bool = False) -> None:
        self.reason = reason
        self.arrived = arrived
        self.timed_out = timed_out
        self.malformed = malformed
        super().__init__(reason)


class ClosingIterator(Iterator[bytes], Protocol):
    """Pieces of a body, and the way to say that no more are wanted."""

    def close(self) -> None:
        """Let go of the connection; doing it twice is no error."""


class ClosingAsyncIterator(Protocol):
    """Pieces of a body, and the way to say that no more are wanted."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Itself."""

    async def __anext__(self) -> bytes:
        """The next piece."""

    async def aclose(self) -> None:
        """Let go of the connection; doing it twice is no error."""


class Transport(Protocol):
    """Carries requests to one server. Any number of threads may use it at once."""

    def send(self, request: Request) -> Response[ClosingIterator]:
        """The answer, whatever its status. `Broken` when there is none; a transport never tries again by itself."""

    def close(self) -> None:
        """Let go of all connections; the next request opens new ones."""


class AsyncTransport(Protocol):
    """Carries requests to one server, for the tasks of one event loop."""

    async def send(self, request: Request) -> Response[ClosingAsyncIterator]:
        """The answer, whatever its status. `Broken` when there is none; a transport never tries again by itself."""

    async def close(self) -> None:
        """Let go of all connections; the next request opens new ones."""
