"""A database that crashes under load, again and again: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fault.postgres.crowd import NodesCrowd, short, told
from tests.fault.postgres.nodes import Node, several, surprises
from tests.fault.team.history import check
from tests.postgres.cluster import Cluster, a_cluster

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets of this crowd are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NODES, WRITERS, READERS, STREAMS = 2, 12, 4, 4


_WRITER = "SELECT pid, wait_event FROM pg_stat_activity WHERE backend_type = 'walwriter'"
_ASLEEP = "WalWriterMain"


def leave_the_log_to_commits(cluster: Cluster) -> None:
    """From now until it crashes nobody but a commit brings anything from memory into the log; all before is there."""
    while True:
        [(pid, _)] = cluster.ask(_WRITER)
        os.kill(pid, signal.SIGSTOP)
        [(_, wait_event)] = cluster.ask(_WRITER)
        if wait_event == _ASLEEP:
            break
        # At work it may hold a lock that every commit needs: nothing would go on, however long anybody waits.
        os.kill(pid, signal.SIGCONT)
    cluster.ask("CHECKPOINT")


def crash(cluster: Cluster, nodes: Sequence[Node] = ()) -> None:
    """What was only in its memory is gone, and in that of these nodes."""
    cluster.sigkill()
    for node in nodes:
        node.kill()
    cluster.start()
    for node in nodes:
        node.start()


async def crashing(cluster: Cluster, crowd: NodesCrowd, times: int, seed: int, nodes: Sequence[Node] = ()) -> None:
    """Crash the database so many times, each time when it is busy again."""
    chance, loop = random.Random(seed), asyncio.get_running_loop()
    for turn in range(times):
        if turn % 2 == 0:
            await loop.run_in_executor(None, leave_the_log_to_commits, cluster)
        await crowd.goes_on(20)
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        if turn % 2 == 0:
            await loop.run_in_executor(None, crash, cluster, nodes)
        else:
            await loop.run_in_executor(None, cluster.restart, "immediate")
    await crowd.goes_on(20)


def crashed(folder: Path, times: int, *, mutant: str = "", seed: int = 1) -> NodesCrowd:
    """What a crowd does and sees while its database crashes."""
    with (
        # A log in memory that has room for all that is said meanwhile.
        a_cluster(fsync="on", wal_buffers="64MB") as cluster,
        several(folder, cluster.create_database("fault"), NODES, mutant) as nodes,
    ):
        crowd = NodesCrowd([node.door for node in nodes], seed)
        crowd.patience = 1.0 if mutant else crowd.patience

        async def play() -> None:
            await crowd.open_channel()
            # A node that knows of more than the database can no longer work with it.
            forgetful = nodes if mutant else ()
            await crowd.play(WRITERS, READERS, STREAMS, crashing(cluster, crowd, times, seed, forgetful))

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
    crowd = crashed(tmp_path, 1, mutant="commit_without_sync")

    print(told(crowd))
    assert {line.split(":")[0] for line in check(crowd.history)} & {"I1", "I3"}
