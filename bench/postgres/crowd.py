"""The load on many nodes: a process that plays many clients. Jobs come in as lines of JSON, like those of the channels.

`posts` keeps one request under way on every connection, `hearing` counts what followers get, `push` and `ask` take the
time of one message that is said on one node and heard on another.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle
from typing import cast

import asyncpg
import msgspec
import uvloop

from bench.channels.load import Client, Job, Result, connect, summary
from bench.channels.talk import Follower

_SETTLE_SECONDS = 0.3
_PATIENCE = 60.0
# So many followers come at a time: the queue of a socket that listens is not endless.
_AT_ONCE = 64


class _Busy(Client):
    """Sends its next request as soon as the last is answered.

    What was answered in the time makes the rate, what was sent in it the times: were only those counted that lie wholly
    in it, the slow ones would be left out.
    """

    def __init__(self, requests: Iterator[bytes], begin: float, end: float) -> None:
        super().__init__()
        self._requests, self._begin, self._end = requests, begin, end
        self._sent = 0.0
        self.times: list[float] = []
        self.within = 0
        self.all = 0

    def go(self) -> asyncio.Future[bytes]:
        self._next()
        return self._answer

    def answered(self, body: bytes) -> None:
        now = time.perf_counter()
        self.all += 1
        self.within += self._begin <= now <= self._end
        if self._begin <= self._sent <= self._end:
            self.times.append(now - self._sent)
        if now >= self._end:
            super().answered(body)
        else:
            self._next()

    def _next(self) -> None:
        request = next(self._requests)
        self._sent = time.perf_counter()
        self.send(request)


async def posts(job: Job) -> Result:
    """So many connections, spread over the nodes, each with the requests in turn but beginning with another."""
    requests, ports, count = [text.encode() for text in job["requests"]], job["ports"], job["connections"]
    begin = time.perf_counter() + job["warm"]
    clients = []
    for number in range(count):
        first = number * len(requests) // count
        turn = cycle(requests[first:] + requests[:first])
        clients.append(await connect(_Busy(turn, begin, begin + job["seconds"]), ports[number % len(ports)]))
    await asyncio.gather(*[client.go() for client in clients])
    for client in clients:
        client.close()
    times = [seconds for client in clients for seconds in client.times]
    if not any(client.within for client in clients):  # on an overloaded machine the time was too short
        return await posts(job | {"seconds": 2 * job["seconds"]})
    rate = sum([client.within for client in clients]) / job["seconds"]
    return summary(times) | {"rate": rate, "all": sum([client.all for client in clients])}


class _Hearing(asyncio.Protocol):
    """A follower that notes only when something came: what it was is looked at afterwards."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._transport: asyncio.Transport | None = None
        self.heard: list[tuple[float, bytes]] = []
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.heard.append((time.perf_counter(), data))
        if not self.ready.done() and b"\n\n" in data:
            self.ready.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if not self.ready.done():
            self.ready.set_exception(exc or ConnectionError(f"not followed: {self.heard[:1]!r}"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Crowd:
    """Followers on all nodes, kept from job to job."""

    def __init__(self) -> None:
        self._followers: list[_Hearing] = []

    async def gather(self, job: Job) -> Result:
        """So many followers, spread over the nodes; done when each has heard that it is followed."""
        ports, requests = job["ports"], [text.encode() for text in job["requests"]]
        began, room = time.perf_counter(), asyncio.Semaphore(_AT_ONCE)

        async def come(number: int) -> None:
            async with room:
                follower = await connect(_Hearing(requests[number % len(requests)]), ports[number % len(ports)])
                self._followers.append(follower)
                async with asyncio.timeout(_PATIENCE):
                    await follower.ready

        await asyncio.gather(*[come(number) for number in range(job["count"])])
        return {"seconds": time.perf_counter() - began, "count": len(self._followers)}

    async def hear(self, job: Job) -> Result:
        """Post one message on one node: when the first heard it, half of them, nearly all, the last; and how often."""
        for follower in self._followers:
            follower.heard.clear()
        client = await connect(Client(), job["port"])
        began = time.perf_counter()
        posted = msgspec.json.decode(await client.ask(job["request"].encode()))
        answered = time.perf_counter() - began
        client.close()
        mark = f'"{posted["id"]}"'.encode()
        await self._all_heard(mark)
        await asyncio.sleep(_SETTLE_SECONDS)  # for what comes twice
        times, twice = [], 0
        for follower in self._followers:
            at = [when for when, data in follower.heard if mark in data]
            twice += sum([data.count(mark) for _, data in follower.heard]) > 1
            times += [at[0] - began] if at else []
        ordered = sorted(times) or [0.0]
        missing = len(self._followers) - len(times)
        lost = sum([follower.lost for follower in self._followers])
        report = {"first": ordered[0], "last": ordered[-1], "answered": answered}
        return summary(ordered) | report | {"missing": missing, "twice": twice, "lost": lost}

    async def _all_heard(self, mark: bytes) -> None:
        """Wait until everybody has heard it, but not for ever."""
        end = time.perf_counter() + _PATIENCE
        for follower in self._followers:
            # An event for each follower would cost what is measured here.
            while not any(mark in data for _, data in follower.heard) and time.perf_counter() < end:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def leave(self, job: Job) -> Result:
        del job
        for follower in self._followers:
            follower.close()
        self._followers.clear()
        await asyncio.sleep(_SETTLE_SECONDS)
        return {}


async def push(job: Job) -> Result:
    """From a POST at one node to the event at a follower of another: since its first byte, and since its answer."""
    heard: asyncio.Queue[float] = asyncio.Queue()
    follower = await connect(
        Follower(job["follow"].encode(), lambda _: heard.put_nowait(time.perf_counter())), job["ports"][1]
    )
    client = await connect(Client(), job["ports"][0])
    await asyncio.sleep(_SETTLE_SECONDS)
    request, times, after = job["request"].encode(), [], []
    for _ in range(job["times"]):
        began = time.perf_counter()
        await client.ask(request)
        answered = time.perf_counter()
        at = await heard.get()
        times.append(at - began)
        after.append(at - answered)
    follower.close()
    client.close()
    return summary(times) | {"after": summary(after)["p50"]}


async def ask(job: Job) -> Result:
    """One agent asks at one node, another follows and answers at the second: until the answer is with the first."""
    asker, answerer = await connect(Client(), job["ports"][0]), await connect(Client(), job["ports"][1])
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    follower = await connect(Follower(job["follow"].encode(), heard.put_nowait), job["ports"][1])

    async def answer() -> None:
        while True:
            question = msgspec.json.decode(await heard.get())
            if question["message_type"] == "request":
                await answerer.ask(job["reply"].replace("{id}", question["id"]).encode())

    answering = asyncio.ensure_future(answer())
    await asyncio.sleep(_SETTLE_SECONDS)
    request, times = job["request"].encode(), []
    for _ in range(job["times"]):
        began = time.perf_counter()
        await asker.ask(request)
        times.append(time.perf_counter() - began)
        if answering.done():
            answering.result()
    answering.cancel()
    for client in (asker, answerer, follower):
        client.close()
    return summary(times)


async def wake(job: Job) -> Result:
    """A NOTIFY by itself, from one connection to another that listens."""
    sender, hears = await asyncpg.connect(job["dsn"]), await asyncpg.connect(job["dsn"])
    heard: asyncio.Queue[float] = asyncio.Queue()
    await hears.add_listener("bench", lambda *_: heard.put_nowait(time.perf_counter()))
    times = []
    for _ in range(job["times"]):
        began = time.perf_counter()
        await sender.execute("SELECT pg_notify('bench', 'tenant:1')")
        times.append(await heard.get() - began)
    await sender.close()
    await hears.close()
    return summary(times)


async def main() -> None:
    crowd = Crowd()
    jobs: dict[str, Callable[[Job], Awaitable[Result]]] = {
        "posts": posts,
        "gather": crowd.gather,
        "hear": crowd.hear,
        "leave": crowd.leave,
        "push": push,
        "ask": ask,
        "wake": wake,
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
