"""The load: a process of its own that plays many clients. Jobs come in as lines of JSON, results go out the same way.

Nothing of HTTP is read but where an answer ends, so that the clients cost as little as Python allows.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count, cycle
from statistics import median
from typing import Any, TypeVar, cast

import msgspec
import uvloop

Job = dict[str, Any]
Result = dict[str, Any]
P = TypeVar("P", bound=asyncio.Protocol)

# Stands in a request for the name of a conversation.
CONVERSATION = b"conversation-by-name-"
_LENGTH = b"content-length:"


class Client(asyncio.Protocol):
    """One connection that stays open and sends one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.failed(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        self._received = received
        head = received.find(b"\r\n\r\n")
        if head < 0 or len(received) < head + 4 + _length(received[:head]):
            return
        self._received = b""
        if received[9:10] == b"2":
            self.answered(received[head + 4 :])
        else:
            self.failed(ValueError(f"refused: {received[:600]!r}"))

    def answered(self, body: bytes) -> None:
        """A whole answer is here."""
        if not self._answer.done():
            self._answer.set_result(body)

    def failed(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)

    def send(self, request: bytes) -> None:
        if self._transport is None:
            raise ConnectionError("there is no connection")
        self._transport.write(request)

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self.send(request)
        return await self._answer

    def close(self) -> None:
        # Whatever happens from now on interests nobody.
        self._answer.cancel()
        if self._transport is not None:
            self._transport.close()


def _length(head: bytes) -> int:
    """The length of the body that this head announces."""
    lowered = head.lower()
    at = lowered.find(_LENGTH)
    if at < 0:
        raise ValueError(f"no length in {head!r}")
    end = lowered.find(b"\r", at)
    return int(lowered[at + len(_LENGTH) : end if end >= 0 else None])


class _Looping(Client):
    """Sends its next request as soon as the last is answered."""

    def __init__(self, requests: Iterator[bytes], begin: float, end: float) -> None:
        super().__init__()
        self._requests, self._begin, self._end = requests, begin, end
        self._sent = 0.0
        self.times: list[float] = []
        self.all = 0

    def go(self) -> asyncio.Future[bytes]:
        """Begin; done when the time is over."""
        request = next(self._requests)
        self._sent = time.perf_counter()
        self.send(request)
        return self._answer

    def answered(self, body: bytes) -> None:
        now = time.perf_counter()
        self.all += 1
        if self._sent >= self._begin and now <= self._end:
            self.times.append(now - self._sent)
        if now >= self._end:
            super().answered(body)
            return
        request = next(self._requests)
        self._sent = time.perf_counter()
        self.send(request)


async def closed_loop(job: Job) -> Result:
    """So many connections, each always with one request under way: always the same, or those of a conversation."""
    requests = [text.encode() for text in job.get("requests") or [job["request"]]]
    begin = time.perf_counter() + job["warm"]
    clients = [
        await connect(_Looping(in_turn(requests, number), begin, begin + job["seconds"]), job["port"])
        for number in range(job["connections"])
    ]
    await asyncio.gather(*[client.go() for client in clients])
    for client in clients:
        client.close()
    times = [seconds for client in clients for seconds in client.times]
    # In a short time on a busy disk nothing may be answered.
    answered = summary(times) if times else {}
    return answered | {"rate": len(times) / job["seconds"], "all": sum(client.all for client in clients)}


def in_turn(requests: list[bytes], connection: int) -> Iterator[bytes]:
    """The requests one after the other, again and again, each time in a new conversation where they name one."""
    if not any(CONVERSATION in request for request in requests):
        yield from cycle(requests)
    for turn in count():
        # As long as the name in its place: the length of the body was announced before.
        name = b"c%06d-%013x" % (connection, time.time_ns() // 1000 + turn & 0xFFFFFFFFFFFFF)
        for request in requests:
            yield request.replace(CONVERSATION, name)


async def in_order(job: Job) -> Result:
    """One connection and one request, so many times over; how long, and the last answer."""
    client = await connect(Client(), job["port"])
    request, times, answer = job["request"].encode(), [], b""
    for _ in range(job["times"]):
        began = time.perf_counter()
        answer = await client.ask(request)
        times.append(time.perf_counter() - began)
    client.close()
    return summary(times) | {"answer": answer.decode()}


async def connect(client: P, port: int) -> P:
    await asyncio.get_running_loop().create_connection(lambda: client, "127.0.0.1", port)
    return client


def summary(times: list[float]) -> Result:
    """Median, 99th percentile and count."""
    ordered = sorted(times)
    return {"p50": median(ordered), "p99": ordered[int(len(ordered) * 0.99)], "count": len(ordered)}


async def main() -> None:
    from bench.channels import talk  # it is built on this module

    jobs: dict[str, Callable[[Job], Awaitable[Result]]] = {
        "closed_loop": closed_loop,
        "in_order": in_order,
        "push": talk.push,
        "beside_streams": talk.beside_streams,
        "ask": talk.ask,
    }
    loop = asyncio.get_running_loop()
    gc.disable()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        job = msgspec.json.decode(line)
        result = await jobs[job["do"]](job)
        gc.collect()
        print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
