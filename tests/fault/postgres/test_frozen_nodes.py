"""A node that stands still in the middle of a commit: the others go on, and it does no harm."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fault.postgres.crowd import NodesCrowd, short, told
from tests.fault.postgres.nodes import Node, several, surprises
from tests.fault.team.history import check
from tests.postgres.cluster import Cluster

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets of this crowd are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NODES, WRITERS, READERS, STREAMS = 3, 12, 3, 3
MUTANT_ATTEMPTS = 5
_HURRY = 1.0
# Its commit is under way in the database, which does not wait for it; or it has a transaction open.
_COMMITS = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND state <> 'idle'"


async def freezing(
    cluster: Cluster, crowd: NodesCrowd, nodes: Sequence[Node], times: int, waits: list[float], least: float
) -> None:
    """Freeze nodes in turn, each while it commits, and for `least` seconds after the others have gone on."""
    chance, loop = random.Random(times), asyncio.get_running_loop()
    for round_ in range(times):
        node = nodes[round_ % len(nodes)]
        await crowd.goes_on(10)
        while True:
            await asyncio.sleep(chance.uniform(0.0, 0.1))
            node.freeze()
            if await loop.run_in_executor(None, cluster.ask, _COMMITS, f"parley {node.name} writes"):
                break
            node.thaw()
        frozen = time.monotonic()
        try:
            await crowd.goes_on(5, apart_from=node.door)
            waits.append(time.monotonic() - frozen)
            await asyncio.sleep(least + chance.uniform(0.0, 0.5))
        finally:
            node.thaw()
    await crowd.goes_on(10)


def frozen(folder: Path, cluster: Cluster, dsn: str, times: int, *, mutant: str = "") -> NodesCrowd:
    """What a crowd does and sees meanwhile."""
    waits: list[float] = []
    # On a fast disk a commit is over in a millisecond, and hardly a node would be frozen in one.
    for setting in ("commit_delay = 20000", "commit_siblings = 0"):
        cluster.ask(f"ALTER DATABASE {dsn.rpartition('/')[2]} SET {setting}")
    with several(folder, dsn, NODES, mutant) as nodes:
        # Whoever asked the frozen node asks another one before the first has said anything.
        crowd = NodesCrowd([node.door for node in nodes], times, hurry=_HURRY)
        crowd.patience = 1.0 if mutant else crowd.patience

        async def play() -> None:
            await crowd.open_channel()
            # A mutant shows only when somebody has given up on the frozen node.
            least = _HURRY if mutant else 0.0
            await crowd.play(WRITERS, READERS, STREAMS, freezing(cluster, crowd, nodes, times, waits, least))

        asyncio.run(play())
        crowd.surprises = surprises(nodes)
    print(told(crowd), f"; the others went on after {', '.join(f'{wait:.1f}' for wait in waits)} s")
    return crowd


def test_the_others_go_on_and_nothing_is_lost_or_doubled(
    tmp_path: Path, durable_cluster: Cluster, dsn: str, full: bool
) -> None:
    crowd = frozen(tmp_path, durable_cluster, dsn, 15 if full else 2)

    assert check(crowd.history) + short(crowd.history) == []
    assert crowd.refusals + crowd.surprises == []


def test_a_node_that_forgets_what_it_was_asked_before_is_found_out(
    tmp_path: Path, durable_cluster: Cluster, dsn: str
) -> None:
    # On a busy machine a frozen node may have committed nothing that is asked for again: then it is frozen once more.
    for attempt in range(MUTANT_ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        crowd = frozen(folder, durable_cluster, dsn, 2, mutant="forget_idempotency")
        if "I4" in {line.split(":")[0] for line in check(crowd.history)}:
            return

    pytest.fail(f"not found in {MUTANT_ATTEMPTS} attempts")
