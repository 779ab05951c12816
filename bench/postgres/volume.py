"""What a message costs when there are many: posting, reading what is new and finding one, from a thousand to a million.

Each size has a database and a node of its own, filled by SQL as the store would have written it; all are measured in
turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import asyncpg

from bench.channels.posts import TEXT
from bench.channels.processes import Worker, load, request
from bench.figures import Figure, Goal
from bench.postgres.nodes import MACHINE, Node, Result, channels, database, in_turns, node, of, post, shown
from bench.workspace import Bench

_CHANNELS = 10
_TIMES = 60
# Noise of a small machine; growth with the logarithm of the size would be 2x over three powers of ten.
_FLAT = Goal("<=", 1.3, "x")
_FILL = """
INSERT INTO post
SELECT (tenant << 40) + head + at, number, $2 + at, 'msg_' || lpad(to_hex((number << 32) + at), 26, '0'), 'asker', '',
    'notify', '', '2026-03-13T08:00:00.000000+00:00', '', 'delivered', NULL, false,
    convert_to('{"text":"' || $3 || '"}', 'UTF8'), '{}', ''
FROM (SELECT tenant, tally.number, head FROM tally JOIN tenant ON tenant.number = tally.tenant WHERE tally.id = $1)
    AS place, generate_series(1, $4::bigint) AS at
"""
_COUNT = """
UPDATE tally SET count = count + $2, seq = seq + $2, last_at = '2026-03-13T08:00:00.000000+00:00' WHERE id = $1
"""
_MOVE = "UPDATE tenant SET head = head + $2 WHERE number = (SELECT tenant FROM tally WHERE id = $1)"


class Filled(NamedTuple):
    """A node, one of its channels, and the last message there."""

    server: Node
    channel: str
    last: str


def run(bench: Bench) -> list[Figure]:
    sizes = [1_000, 10_000, 100_000] if bench.quick else [1_000, 10_000, 100_000, 1_000_000]
    with ExitStack() as stack:
        cluster = stack.enter_context(database(bench, "volume"))
        clients, crowd = stack.enter_context(load()), stack.enter_context(Worker("bench.postgres.crowd"))
        filled = {}
        for size in sizes:
            home, dsn = f"{bench.folder}/volume-{size}", cluster.create_database(f"of{size}")
            filled[size] = _filled(stack, home, dsn, size)
        results = {}
        for what, act in _ACTS.items():
            sides: dict[str, Callable[[], Result]] = {
                str(size): partial(act, clients, crowd, store, bench.quick) for size, store in filled.items()
            }
            results[what] = in_turns(3 if bench.quick else 9, sides)
    print(_table(sizes, results), flush=True)
    return _figures(sizes, results, None if bench.quick else _FLAT)


def _filled(stack: ExitStack, home: str, dsn: str, size: int) -> Filled:
    """A node makes the channels; while it is away, they are filled; another begins with them."""
    with node(f"{home}/before", dsn) as before:
        channel_ids = channels(before, _CHANNELS)
    asyncio.run(_fill(dsn, channel_ids, size // _CHANNELS))
    server = stack.enter_context(node(f"{home}/after", dsn))
    last = server.call("POST", f"/channels/{channel_ids[0]}/messages", {"sender": "asker", "payload": {"text": TEXT}})[
        "id"
    ]
    return Filled(server, channel_ids[0], last)


async def _fill(dsn: str, channel_ids: list[str], each: int) -> None:
    db = await asyncpg.connect(dsn, server_settings={"parley.tenants": "*"})
    for channel in channel_ids:
        async with db.transaction():
            await db.execute(_FILL, channel, 0, TEXT, each, timeout=600)
            await db.execute(_COUNT, channel, each)
            await db.execute(_MOVE, channel, each)
    # As the database does by itself after a while.
    await db.execute("VACUUM ANALYZE", timeout=600)
    await db.close()


def _posting(clients: Worker, crowd: Worker, store: Filled, quick: bool) -> Result:
    del clients
    load = {"connections": 16, "seconds": 1.0 if quick else 1.5, "warm": 0.2}
    result: Result = crowd.do("posts", ports=[store.server.port], requests=[post(store.channel)], **load)
    return result | {"p50": 1 / result["rate"]}


def _one_post(clients: Worker, crowd: Worker, store: Filled, quick: bool) -> Result:
    del crowd, quick
    result: Result = clients.do("in_order", port=store.server.port, request=post(store.channel), times=_TIMES)
    return result


def _news(clients: Worker, crowd: Worker, store: Filled, quick: bool) -> Result:
    del crowd, quick
    path = f"/api/v1/channels/{store.channel}/messages?since={store.last}&limit=10"
    result: Result = clients.do("in_order", port=store.server.port, request=request("GET", path), times=_TIMES)
    if not result["answer"].startswith('[{"id":'):
        raise RuntimeError(f"there are newer ones, but: {result['answer'][:200]}")
    return result


def _by_id(clients: Worker, crowd: Worker, store: Filled, quick: bool) -> Result:
    del crowd, quick
    path = f"/api/v1/channels/{store.channel}/messages/{store.last}"
    result: Result = clients.do("in_order", port=store.server.port, request=request("GET", path), times=_TIMES)
    return result


_ACTS: dict[str, Callable[[Worker, Worker, Filled, bool], Result]] = {
    "a post among 16": _posting,
    "a post alone": _one_post,
    "what is new": _news,
    "one by its id": _by_id,
}


def _table(sizes: list[int], results: dict[str, dict[str, list[Result]]]) -> str:
    heads = ("messages stored", *results)
    rows = []
    for size in sizes:
        cells = []
        for result in results.values():
            ours, least = of(result[str(size)], "p50"), of(result[str(sizes[0])], "p50")
            cells.append(f"{ours.middle * 1e3:.2f} ms {ours.middle / least.middle:5.2f}x")
        rows.append((f"{size:,}", *cells))
    return f"{shown(heads, rows)}{MACHINE}"


def _figures(sizes: list[int], results: dict[str, dict[str, list[Result]]], goal: Goal | None) -> list[Figure]:
    smallest, largest = str(sizes[0]), str(sizes[-1])
    return [
        Figure(
            "stored",
            f"{what}, {sizes[-1]:,} stored over {sizes[0]:,}",
            "ms",
            of(result[largest], "p50"),
            of(result[smallest], "p50"),
            goal,
            faster=False,
        )
        for what, result in results.items()
    ]
