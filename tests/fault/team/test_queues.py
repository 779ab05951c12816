"""A work queue over kills: every job is done, and none by two readers at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.fault.team.queue_worker import CONCURRENCY
from tests.fault.team.queues import History, Scene, displaced, play, problems
from tests.rigs.process import ServerProcess

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # Connections are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def line(pid: int, at: float, **what: str) -> dict[str, object]:
    return {"pid": pid, "at": at, **what}


GOOD = History(
    ("a", "b"),
    ("b", "a"),
    (
        line(1, 1.0, begins="a"),
        line(2, 1.1, begins="b"),
        line(2, 1.2, ends="b"),
        line(3, 5.0, begins="a"),
        line(3, 5.1, ends="a"),
    ),
    {1: 2.0},
)


@pytest.mark.parametrize(
    ("history", "says"),
    [
        (GOOD._replace(answered=("a",)), "b has no answer"),
        (GOOD._replace(answered=("a", "b", "b")), "b has 2 answers"),
        (GOOD._replace(answered=("a", "b", "c")), "c was answered, and never asked"),
        (GOOD._replace(killed={}), "a was with 1 and 3 at once"),
        (GOOD._replace(killed={1: 6.0}), "a was with 1 and 3 at once"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_checker_finds_what_must_not_be(history: History, says: str) -> None:
    assert problems(GOOD) == []
    assert any(problem.startswith(says) for problem in problems(history))


def test_every_job_is_done_and_none_by_two_at_once_while_readers_are_killed(tmp_path: Path, full: bool) -> None:
    workers, jobs, kills = (16, 10_000, 100) if full else (4, 300, 4)
    server = ServerProcess(tmp_path / "data")
    server.start()
    began = time.monotonic()
    try:
        scene = Scene(tmp_path, [server.url], workers)
        history = asyncio.run(play(scene, jobs, kills, zombies=2, pause=0.6, seconds=240 if full else 60))
    finally:
        server.kill()
    print(
        f"SQLite: {jobs} jobs, {workers} readers, {kills} kills: {time.monotonic() - began:.0f} s; late: {scene.late}"
    )

    assert problems(history) == []
    assert len(history.killed) >= kills


def test_jobs_are_begun_in_their_order(tmp_path: Path) -> None:
    """But for what the readers have in their hands at once."""
    server = ServerProcess(tmp_path / "data")
    server.start()
    try:
        scene = Scene(tmp_path, [server.url], workers := 3)
        history = asyncio.run(play(scene, 200, 0, zombies=0, pause=0, seconds=60))
    finally:
        server.kill()

    assert problems(history) == []
    assert displaced(history) <= 2 * workers * CONCURRENCY


@pytest.mark.parametrize("mutant", ["answer_without_lease", "claim_outside_the_commit"])
def test_a_broken_server_is_noticed(mutant: str, tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", mutant=mutant)
    server.start()
    try:
        scene = Scene(tmp_path, [server.url], 3)
        history = asyncio.run(play(scene, 60, 0, zombies=4, pause=0, seconds=12))
    finally:
        server.kill()

    assert problems(history) != []
