"""Nodes that are told of nothing for a while: what others write comes all the same, by the look at the head."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from parley.adapters.postgres.journal import POLL_SECONDS
from tests.fault.postgres.crowd import NodesCrowd, percentiles, short, told
from tests.fault.postgres.meddling import END_LISTENERS, nobody_listening
from tests.fault.postgres.nodes import several, surprises
from tests.fault.team.history import check
from tests.postgres.cluster import Cluster

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets of this crowd are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NODES, WRITERS, STREAMS = 3, 8, 6
_EVERY = 2.0
# How much later than the next look a message may come at full length, on a machine that has nothing else to do.
_MOST = 0.5


async def disturb(crowd: NodesCrowd, cluster: Cluster, database: str, times: int) -> int:
    """End every connection that listens, so many times, while much is said; how many were ended."""
    loop = asyncio.get_running_loop()
    await crowd.until(lambda: all(stream.seen for stream in crowd.history.streams))
    ended = 0
    for _ in range(times):
        began = time.monotonic()
        ended += len(await loop.run_in_executor(None, cluster.ask, END_LISTENERS, database))
        await crowd.goes_on(20)
        await asyncio.sleep(max(0.0, began + _EVERY - time.monotonic()))
    return ended


def deaf(folder: Path, cluster: Cluster, dsn: str, times: int, *, mutant: str = "") -> NodesCrowd:
    """Everybody speaks at one node, and follows at the others, where nobody asks for anything else.

    The last words are said when nobody listens, nor comes back to it before all have heard them.
    """
    database = dsn.rpartition("/")[2]
    ended = 0
    with several(folder, dsn, NODES, mutant) as nodes:
        doors = [node.door for node in nodes]
        crowd = NodesCrowd(doors[1:], 1, senders_at=doors[:1])
        crowd.patience = 1.5 if mutant else crowd.patience

        async def play() -> None:
            async with AsyncExitStack() as silence:

                async def last_words() -> None:
                    nonlocal ended
                    ended = await disturb(crowd, cluster, database, times)
                    await silence.enter_async_context(nobody_listening(cluster, database))
                    await crowd.goes_on(1)

                await crowd.open_channel()
                await crowd.play(WRITERS, STREAMS, STREAMS, last_words())

        asyncio.run(play())
        crowd.surprises = surprises(nodes)
    print(told(crowd), f"; {ended} listeners ended; lag in ms: {percentiles(crowd.lags())}")
    return crowd


def test_nothing_is_lost_and_little_is_late_when_listeners_are_ended(
    tmp_path: Path, durable_cluster: Cluster, dsn: str, full: bool
) -> None:
    crowd = deaf(tmp_path, durable_cluster, dsn, 20 if full else 2)

    lags = crowd.lags()
    assert check(crowd.history) + short(crowd.history) == []
    assert crowd.refusals + crowd.surprises == []
    assert len(lags) > 100
    # Other tests have the machine, too, when this one is short.
    assert lags[-1] <= POLL_SECONDS + (_MOST if full else 20.0)


def test_nodes_that_only_go_by_what_they_are_told_are_found_out(
    tmp_path: Path, durable_cluster: Cluster, dsn: str
) -> None:
    crowd = deaf(tmp_path, durable_cluster, dsn, 0, mutant="no_poll")

    assert {line.split(":")[0] for line in short(crowd.history)} == {"I26"}
