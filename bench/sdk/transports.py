"""What a request costs its client: our transports beside other people's, against the same server.

`python -m bench.sdk.transports` measures once and prints the table. Of each pair the figure is the CPU time of this
process for one request, and then how many requests it gets answered in a second.
"""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import httpx
import uvloop

from bench.channels.processes import AGENT, KEY, Server
from bench.figures import Figure, table
from bench.measure import Runner, Sample
from bench.workspace import Bench
from parley.sdk.transport.asynchronous import AsyncHttp
from parley.sdk.transport.blocking import BlockingHttp
from parley.sdk.transport.port import Place, Request

_HEADERS = {"accept": "application/json", "x-api-key": KEY, "x-agent-id": AGENT}
_TEXT = ("The new signing key is in place; the old one stays valid until Friday noon. " * 4)[:289]

# Asks this many times, and returns when all is answered.
Loop = Callable[[Request, int], None]


class Turn(NamedTuple):
    """What one request took in a row of them: CPU seconds, and all seconds."""

    cpu: float
    wall: float


def run(bench: Bench) -> list[Figure]:
    figures: list[Figure] = []
    with _ephemeral(bench.folder) as server, ExitStack() as stack:
        pairs = _pairs(server.port, stack)
        for name, request in _requests(server).items():
            for what, (ours, theirs) in pairs.items():
                figures += _compared(bench, f"{name}: {what}", request, ours, theirs)
    return figures


@contextmanager
def _ephemeral(folder: str) -> Iterator[Server]:
    """A server that keeps nothing, so that the disk has no say."""
    command = [sys.executable, "-m", "parley.cli.main", "up", "--json", "--ephemeral", "--port", "0"]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "PARLEY_ADMIN_KEY": KEY}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError("parley up did not start")
    with Server(process, int(json.loads(line)["url"].rpartition(":")[2])) as server:
        yield server


def _requests(server: Server) -> dict[str, Request]:
    message = {"sender": AGENT, "message_type": "notify", "payload": {"text": _TEXT}}
    content = json.dumps(message, separators=(",", ":")).encode()
    target = f"/api/v1/channels/{server.channel('bench')}/messages"
    return {
        "GET /healthz": Request("GET", "/healthz", _HEADERS),
        "POST a message": Request("POST", target, {**_HEADERS, "content-type": "application/json"}, content),
    }


def _pairs(port: int, stack: ExitStack) -> dict[str, tuple[Loop, Loop]]:
    place, url = Place(False, "127.0.0.1", port, ""), f"http://127.0.0.1:{port}"
    blocking = _blocking(stack.enter_context(closing(BlockingHttp(place))))
    single, many = partial(_awaiting, partial(_ours, place), 1), partial(_awaiting, partial(_ours, place), 16)
    theirs_one, theirs_many = partial(_awaiting, partial(_httpx, url), 1), partial(_awaiting, partial(_httpx, url), 16)
    pairs: dict[str, tuple[Loop, Loop]] = {
        "blocking over http.client": (blocking, _http_client(stack, port)),
        "blocking over httpx": (blocking, _httpx_blocking(stack.enter_context(httpx.Client(base_url=url)))),
        "asyncio over httpx, 1 at once": (single, theirs_one),
        "asyncio over httpx, 16 at once": (many, theirs_many),
        "asyncio over itself on uvloop, 16 at once": (many, partial(many, new_loop=uvloop.new_event_loop)),
    }
    # Not among the packages that Parley is developed with; measured where it happens to be there.
    if importlib.util.find_spec("aiohttp") is not None:
        pairs["asyncio over aiohttp, 16 at once"] = (many, partial(_awaiting, partial(_aiohttp, url), 16))
    return pairs


def _compared(bench: Bench, what: str, request: Request, ours: Loop, theirs: Loop) -> list[Figure]:
    """Both in turns; who begins changes from turn to turn."""
    taken: tuple[list[Turn], list[Turn]] = ([], [])
    sides = (ours, theirs)
    for side in sides:
        side(request, 50)
    for turn in range(3 if bench.quick else 7):
        for number in (0, 1) if turn % 2 == 0 else (1, 0):
            taken[number].append(_timed(sides[number], request, 200 if bench.quick else 800))
    cpus = [Sample(tuple(turn.cpu for turn in turns)) for turns in taken]
    rates = [Sample(tuple(1 / turn.wall for turn in turns)) for turns in taken]
    return [
        Figure("transports", what, "us", cpus[0], cpus[1]),
        Figure("transports", "  requests", "/s", rates[0], rates[1]),
    ]


def _timed(loop: Loop, request: Request, times: int) -> Turn:
    cpu, wall = time.process_time(), time.perf_counter()
    loop(request, times)
    return Turn((time.process_time() - cpu) / times, (time.perf_counter() - wall) / times)


def _check(status: int) -> None:
    if status not in (200, 201):
        raise RuntimeError(f"the server said {status}")


# ---------------------------------------------------------------- blocking clients


def _blocking(transport: BlockingHttp) -> Loop:
    def loop(request: Request, times: int) -> None:
        for _ in range(times):
            _check(transport.send(request).status)

    return loop


def _http_client(stack: ExitStack, port: int) -> Loop:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    stack.callback(connection.close)

    def loop(request: Request, times: int) -> None:
        connection.close()  # the server closes connections that are idle while others have their turn
        for _ in range(times):
            connection.request(request.method, request.target, request.body or None, dict(request.headers))
            response = connection.getresponse()
            response.read()
            _check(response.status)

    return loop


def _httpx_blocking(client: httpx.Client) -> Loop:
    def loop(request: Request, times: int) -> None:
        for _ in range(times):
            response = client.request(
                request.method, request.target, content=request.body or None, headers=dict(request.headers)
            )
            _check(response.status_code)

    return loop


# ---------------------------------------------------------------- asynchronous clients

# Gives what answers one request with its status, to whoever is to use it.
Ask = Callable[[Request], Awaitable[int]]
Using = Callable[[Callable[[Ask], Awaitable[None]]], Awaitable[None]]


def _awaiting(
    using: Using,
    at_once: int,
    request: Request,
    times: int,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    async def ask_often(ask: Ask) -> None:
        async def some() -> None:
            for _ in range(times // at_once):
                _check(await ask(request))

        await asyncio.gather(*[some() for _ in range(at_once)])

    async def everything() -> None:
        await using(ask_often)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(everything())


async def _ours(place: Place, use: Callable[[Ask], Awaitable[None]]) -> None:
    transport = AsyncHttp(place)

    async def ask(request: Request) -> int:
        return (await transport.send(request)).status

    await use(ask)
    await transport.close()


async def _httpx(url: str, use: Callable[[Ask], Awaitable[None]]) -> None:
    async with httpx.AsyncClient(base_url=url) as client:

        async def ask(request: Request) -> int:
            content, headers = request.body or None, dict(request.headers)
            return (await client.request(request.method, request.target, content=content, headers=headers)).status_code

        await use(ask)


async def _aiohttp(url: str, use: Callable[[Ask], Awaitable[None]]) -> None:
    aiohttp: Any = importlib.import_module("aiohttp")
    async with aiohttp.ClientSession() as session:

        async def ask(request: Request) -> int:
            content, headers = request.body or None, dict(request.headers)
            async with session.request(request.method, url + request.target, data=content, headers=headers) as response:
                await response.read()
                return int(response.status)

        await use(ask)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(table(run(Bench(folder, Runner(folder), quick="--quick" in sys.argv[1:]))))
    print("Ours first; a ratio above 1 says how many times less we take.")


if __name__ == "__main__":
    main()
