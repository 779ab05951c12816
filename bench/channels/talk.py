"""Clients that talk to each other: one follows a stream or polls, the other posts. Part of the load process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import msgspec

from bench.channels.load import Client, Job, Result, connect, in_order, summary

_SETTLE_SECONDS = 0.2
# Between two streams: opening them as fast as they are answered would be a load of its own.
_PAUSE_SECONDS = 0.1


class Follower(asyncio.Protocol):
    """Follows server-sent events. The sizes between chunks are read over: they never contain `data: `."""

    def __init__(self, request: bytes, heard: Callable[[bytes], None]) -> None:
        self._request = request
        self._heard = heard
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        *events, self._received = (self._received + data).split(b"\n\n")
        for event in events:
            at = event.find(b"data: ")
            if at >= 0:
                self._heard(event[at + 6 :])

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def push(job: Job) -> Result:
    """From the first byte of a POST to the event at a follower of the channel."""
    heard: asyncio.Queue[float] = asyncio.Queue()
    follower = await connect(
        Follower(job["follow"].encode(), lambda _: heard.put_nowait(time.perf_counter())), job["port"]
    )
    client = await connect(Client(), job["port"])
    await asyncio.sleep(_SETTLE_SECONDS)
    request, times = job["request"].encode(), []
    for _ in range(job["times"]):
        began = time.perf_counter()
        await client.ask(request)
        times.append(await heard.get() - began)
    follower.close()
    client.close()
    return summary(times)


class _CatchUp(asyncio.Protocol):
    """A stream until it says how far it has come, after its greeting; the time that took."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = b""
        self._began = time.perf_counter()
        self.caught_up: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.count(b"\nid: ") > 1 and not self.caught_up.done():
            self.caught_up.set_result(time.perf_counter() - self._began)


async def beside_streams(job: Job) -> Result:
    """One request, so many times over, while another client opens a stream now and then; none if none is named."""
    taken: list[float] = []

    async def follow() -> None:
        while True:
            stream = _CatchUp(job["follow"].encode())
            transport, _ = await asyncio.get_running_loop().create_connection(lambda: stream, "127.0.0.1", job["port"])  # noqa: B023  # called at once
            taken.append(await stream.caught_up)
            transport.close()
            await asyncio.sleep(_PAUSE_SECONDS)

    following = asyncio.ensure_future(follow()) if job["follow"] else None
    await asyncio.sleep(_SETTLE_SECONDS)
    result = await in_order(job)
    if following is not None:
        following.cancel()
    return result | {"stream": sum(taken) / len(taken) if taken else 0.0}


async def ask(job: Job) -> Result:
    """One agent asks, another hears of it by stream or long poll and answers: until the answer is with the first."""
    answerer = await connect(Client(), job["port"])
    asker = await connect(Client(), job["port"])
    by_stream = job["by"] == "stream"
    listen = _answer_stream if by_stream else _answer_polls
    answering = asyncio.ensure_future(listen(job, answerer))
    await asyncio.sleep(_SETTLE_SECONDS)
    request, times = job["request"].encode(), []
    for _ in range(job["times"]):
        began = time.perf_counter()
        await asker.ask(request)
        times.append(time.perf_counter() - began)
        if answering.done():
            answering.result()
    answering.cancel()
    asker.close()
    answerer.close()
    return summary(times)


async def _answer_stream(job: Job, client: Client) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    follower = await connect(Follower(job["follow"].encode(), heard.put_nowait), job["port"])
    try:
        while True:
            await _answer(job, client, msgspec.json.decode(await heard.get()))
    finally:
        follower.close()


async def _answer_polls(job: Job, client: Client) -> None:
    poller, last = await connect(Client(), job["port"]), job["since"]
    try:
        while True:
            for message in msgspec.json.decode(await poller.ask(job["poll"].replace("{last}", last).encode())):
                last = message["id"]
                await _answer(job, client, message)
    finally:
        poller.close()


async def _answer(job: Job, client: Client, message: dict[str, str]) -> None:
    if message["message_type"] == "request":
        await client.ask(job["reply"].replace("{id}", message["id"]).encode())
