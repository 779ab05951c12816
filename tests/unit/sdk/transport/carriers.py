"""Every transport behind the same blocking face, so that one test holds for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import uvloop

from parley.sdk.transport.asynchronous import AsyncHttp
from parley.sdk.transport.blocking import BlockingHttp
from parley.sdk.transport.port import Broken, ClosingAsyncIterator, ClosingIterator, Place, Request, Response
from tests.unit.sdk.peer import PATIENCE, Host

T = TypeVar("T")


class Carrier(Protocol):
    """A transport as a test uses it."""

    def send(self, request: Request) -> Response[ClosingIterator]: ...

    def send_all(self, requests: list[Request]) -> list[Response[ClosingIterator]]: ...

    def close(self) -> None: ...


class Blocking:
    def __init__(self, place: Place, **options: Any) -> None:
        self._transport = BlockingHttp(place, **options)
        self.send = self._transport.send
        self.close = self._transport.close

    def send_all(self, requests: list[Request]) -> list[Response[ClosingIterator]]:
        with ThreadPoolExecutor(len(requests)) as threads:
            return list(threads.map(self.send, requests))


class Looping:
    """An asynchronous transport with a loop of its own that runs while something is asked of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, place: Place, **options: Any) -> None:
        self._transport = AsyncHttp(place, **options)
        self._loop = loop

    def run(self, wanted: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(wanted, PATIENCE))

    def send(self, request: Request) -> Response[ClosingIterator]:
        return self._plain(self.run(self._transport.send(request)))

    def send_all(self, requests: list[Request]) -> list[Response[ClosingIterator]]:
        async def all_of_them() -> list[Response[ClosingAsyncIterator]]:
            return await asyncio.gather(*[self._transport.send(one) for one in requests])

        return [self._plain(one) for one in self.run(all_of_them())]

    def _plain(self, response: Response[ClosingAsyncIterator]) -> Response[ClosingIterator]:
        status, headers, body, pieces = response
        return Response(status, headers, body, _Pieces(self, pieces) if pieces is not None else None)

    def close(self) -> None:
        self.run(self._transport.close())


class _Pieces:
    def __init__(self, carrier: Looping, pieces: ClosingAsyncIterator) -> None:
        self._carrier = carrier
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        async def wanted() -> bytes | None:
            return await anext(self._pieces.__aiter__(), None)

        content = self._carrier.run(wanted())
        if content is None:
            raise StopIteration
        return content

    def close(self) -> None:
        self._carrier.run(self._pieces.aclose())


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def place_of(host: Host, name: str = "", *, secure: bool = False) -> Place:
    return Place(secure, name or host.host, host.port, "")


def get(target: str = "/x", *, timeout: float = PATIENCE, streams: bool = False) -> Request:
    return Request("GET", target, {}, timeout=timeout, streams=streams)


def broken(carrier: Carrier, request: Request) -> Broken:
    """What a request broke with."""
    try:
        carrier.send(request)
    except Broken as error:
        return error
    raise AssertionError("it was answered")
