"""A database that crashes under load, again and again: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fault.postgres.crowd import NodesCrowd, short, told
from tests.fault.postgres.nodes import several, surprises
from tests.fault.team.history import check
from tests.postgres_cluster import Cluster, a_cluster

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets of this crowd are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NODES, WRITERS, READERS, STREAMS = 2, 12, 4, 4


async def crashing(cluster: Cluster, crowd: NodesCrowd, times: int, seed: int) -> None:
    """Crash the database so many times, each time when it is busy again."""
    chance, loop = random.Random(seed), asyncio.get_running_loop()
    for _ in range(times):
        await crowd.goes_on(20)
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        await loop.run_in_executor(None, cluster.restart, "immediate")
    await crowd.goes_on(20)


def crashed(
    folder: Path, times: int, *, mutant: str = "", seed: int = 1, settings: Mapping[str, str] = {}
) -> NodesCrowd:
    """What a crowd does and sees while its database crashes."""
    with (
        a_cluster(fsync="on", **settings) as cluster,
        several(folder, cluster.create_database("fault"), NODES, mutant) as nodes,
    ):
        crowd = NodesCrowd([node.door for node in nodes], seed)
        crowd.patience = 1.0 if mutant else crowd.patience

        async def play() -> None:
            await crowd.open_channel()
            await crowd.play(WRITERS, READERS, STREAMS, crashing(cluster, crowd, times, seed))

        asyncio.run(play())
        crowd.surprises = surprises(nodes)
    return crowd


def test_nothing_acknowledged_is_lost_or_doubled_when_the_database_crashes(tmp_path: Path, full: bool) -> None:
    crowd = crashed(tmp_path, 20 if full else 3)

    print(told(crowd))
    assert check(crowd.history) + short(crowd.history) == []
    assert crowd.refusals + crowd.surprises == []
    assert len(crowd.acknowledged) > 60


def test_a_node_that_does_not_wait_for_the_disk_is_found_out(tmp_path: Path) -> None:
    # Hardly anybody but a commit brings anything to the disk for a while.
    lazy = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "wal_buffers": "64MB"}
    found: set[str] = set()

    for seed in range(1, 4):  # a crash has to come at the right moment; mostly the first does
        crowd = crashed(tmp_path / f"{seed}", 1, mutant="commit_without_sync", seed=seed, settings=lazy)
        print(told(crowd))
        found |= {line.split(":")[0] for line in check(crowd.history)}
        if found & {"I1", "I3"}:
            break

    assert found & {"I1", "I3"}
