"""A work queue on two nodes over kills of readers and nodes: every job is done, and none by two readers at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.fault.postgres.nodes import several
from tests.fault.team.queues import Scene, play, problems

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # Connections are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_every_job_is_done_and_none_by_two_at_once_on_two_nodes(tmp_path: Path, dsn: str, full: bool) -> None:
    workers, jobs, kills, node_kills = (16, 10_000, 100, 10) if full else (4, 200, 3, 1)

    async def killing_nodes() -> None:
        for number in range(node_kills):
            await asyncio.sleep(5.0)
            node = nodes[number % 2]
            await asyncio.to_thread(node.kill)
            await asyncio.to_thread(node.start)

    async def main() -> object:
        killer = asyncio.create_task(killing_nodes())
        try:
            return await play(scene, jobs, kills, zombies=2, pause=0.6, seconds=400 if full else 90)
        finally:
            killer.cancel()
            await asyncio.gather(killer, return_exceptions=True)

    began = time.monotonic()
    with several(tmp_path, dsn, 2) as nodes:
        scene = Scene(tmp_path, [node.url for node in nodes], workers)
        asyncio.run(main())
        history = scene.history(scene.answered)
    print(
        f"two PostgreSQL nodes: {jobs} jobs, {workers} readers, {kills} kills of readers, {node_kills} of nodes:"
        f" {time.monotonic() - began:.0f} s; late: {scene.late}"
    )

    assert problems(history) == []
