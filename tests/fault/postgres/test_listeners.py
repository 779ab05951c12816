"""Nodes that are told of nothing for a while: what others write comes all the same, by the look at the head."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from parley.adapters.postgres.following import POLL_SECONDS
from tests.fault.postgres.crowd import NodesCrowd, percentiles, short, told
from tests.fault.postgres.nodes import several, surprises
from tests.fault.team.history import check
from tests.postgres_cluster import Cluster

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
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%listens%' AND datname = $1"

# For two seconds, as soon as one is there.
_SILENCE = f"""DO $$ BEGIN
    FOR turn IN 1..200 LOOP
        PERFORM pg_stat_clear_snapshot();
        PERFORM * FROM ({_END}) AS ended;
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$"""


class Silencer:
    """Ends every connection that listens."""

    def __init__(self, cluster: Cluster, dsn: str) -> None:
        self._cluster = cluster
        self._database = dsn.rpartition("/")[2]
        self.ended = 0
        self.silence: asyncio.Future[None] | None = None

    async def disturb(self, crowd: NodesCrowd, times: int) -> None:
        """So many times, while much is said. The last words are said when nobody listens, nor comes back to it."""
        loop = asyncio.get_running_loop()
        await crowd.until(lambda: all(stream.seen for stream in crowd.history.streams))
        for _ in range(times):
            began = time.monotonic()
            self.ended += len(await loop.run_in_executor(None, self._cluster.ask, _END, self._database))
            await crowd.goes_on(20)
            await asyncio.sleep(max(0.0, began + _EVERY - time.monotonic()))
        self.silence = asyncio.ensure_future(loop.run_in_executor(None, self._keep_silent))
        await asyncio.sleep(0.1)
        await crowd.goes_on(1)

    def _keep_silent(self) -> None:
        self._cluster.ask(_SILENCE.replace("$1", f"'{self._database}'"))


def deaf(folder: Path, cluster: Cluster, dsn: str, times: int, *, mutant: str = "") -> NodesCrowd:
    """Everybody speaks at one node, and follows at the others, where nobody asks for anything else."""
    silencer = Silencer(cluster, dsn)
    with several(folder, dsn, NODES, mutant) as nodes:
        doors = [node.door for node in nodes]
        crowd = NodesCrowd(doors[1:], 1, senders_at=doors[:1])
        crowd.patience = 1.5 if mutant else crowd.patience

        async def play() -> None:
            await crowd.open_channel()
            await crowd.play(WRITERS, STREAMS, STREAMS, silencer.disturb(crowd, times))
            assert silencer.silence is not None
            await silencer.silence

        asyncio.run(play())
        crowd.surprises = surprises(nodes)
    print(told(crowd), f"; {silencer.ended} listeners ended; lag in ms: {percentiles(crowd.lags())}")
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
    assert lags[-1] <= POLL_SECONDS + (_MOST if full else 2.5)


def test_nodes_that_only_go_by_what_they_are_told_are_found_out(
    tmp_path: Path, durable_cluster: Cluster, dsn: str
) -> None:
    found: set[str] = set()

    for attempt in range(3):  # the last words must be said before they listen again; mostly the first time
        crowd = deaf(tmp_path / f"{attempt}", durable_cluster, dsn, 0, mutant="no_poll")
        found |= {line.split(":")[0] for line in short(crowd.history)}
        if found:
            break

    assert found == {"I26"}
