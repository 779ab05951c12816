"""A workflow whose process is killed: resumed, it goes on where it was; and only one process at a time runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.sdk.blocking.client import Client
from tests.rigs.process import ADMIN_KEY, ROOT, ServerProcess, running

pytestmark = [pytest.mark.fault, pytest.mark.slow]

WORKFLOW = """\
version: "1.0"
intent: {title: To be killed}
agents: {ann: {handler: work}, bob: {handler: work}}
workflow:
  first: {assign: ann}
  second: {assign: bob, depends_on: [first], inputs: {before: first.pid}}
  third: {assign: ann, depends_on: [second]}
"""
# Each call is a line; the second step waits until the gate is open.
HANDLERS = """\
import os, pathlib, time

here = pathlib.Path(__file__).parent

def work(step):
    with open(here / "journal", "a") as journal:
        journal.write(f"{step.name}\\n")
    while step.name == "second" and not (here / "gate").exists():
        time.sleep(0.01)
    return {"pid": os.getpid()}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with running(tmp_path / "data") as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "workflow"
    folder.mkdir()
    (folder / "w.yaml").write_text(WORKFLOW)
    (folder / "handlers.py").write_text(HANDLERS)
    return folder


def start(server: ServerProcess, folder: Path, *options: str) -> subprocess.Popen[str]:
    environment = {"PATH": os.defpath, "PARLEY_URL": server.url, "PARLEY_KEY": ADMIN_KEY, "HOME": str(folder)}
    command = [sys.executable, "-m", "parley.cli.main", "workflow", "run", str(folder / "w.yaml"), "--json", *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )


def journal(folder: Path) -> Counter[str]:
    path = folder / "journal"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def wait_for(folder: Path, step: str, count: int = 1) -> None:
    """Until a step has been begun so many times."""
    deadline = time.monotonic() + 60
    while journal(folder)[step] < count:
        assert time.monotonic() < deadline, journal(folder)
        time.sleep(0.01)


def killed_in_the_second_step(server: ServerProcess, folder: Path) -> str:
    """The intent of a run whose process was killed."""
    run = start(server, folder)
    assert run.stdout is not None
    wait_for(folder, "second")
    run.kill()
    out, _ = run.communicate()
    return str(json.loads(out.splitlines()[0])["detail"])


def result_of(out: str) -> dict[str, object]:
    result: dict[str, object] = json.loads(out.splitlines()[-1])
    return result


def test_a_killed_run_goes_on_where_it_was_and_repeats_only_what_was_running(
    server: ServerProcess, folder: Path
) -> None:
    intent = killed_in_the_second_step(server, folder)
    (folder / "gate").touch()

    resumed = start(server, folder, "--resume", intent)
    out, err = resumed.communicate(timeout=120)

    assert resumed.returncode == 0, err
    assert journal(folder) == {"first": 1, "second": 2, "third": 1}
    assert result_of(out)["outcome"] == "completed"
    with Client(server.url, key=ADMIN_KEY) as client:
        assert client.get_intent(intent).status == "completed"
        assert {task.status for task in client.list_tasks(intent)} == {"completed"}


def test_a_run_can_be_killed_again_and_again(server: ServerProcess, folder: Path, full: bool) -> None:
    intent = killed_in_the_second_step(server, folder)
    kills = 20 if full else 2
    for number in range(kills):
        again = start(server, folder, "--resume", intent)
        wait_for(folder, "second", number + 2)
        again.kill()
        again.communicate()
    (folder / "gate").touch()

    last = start(server, folder, "--resume", intent)
    _, err = last.communicate(timeout=120)

    assert last.returncode == 0, err
    assert journal(folder) == {"first": 1, "second": kills + 2, "third": 1}


def test_of_several_that_resume_one_wins_and_the_others_are_told_by_whom(server: ServerProcess, folder: Path) -> None:
    intent = killed_in_the_second_step(server, folder)
    resumed = [start(server, folder, "--resume", intent) for _ in range(3)]
    losers: list[subprocess.Popen[str]] = []
    deadline = time.monotonic() + 60
    while len(losers) < 2 and time.monotonic() < deadline:
        losers = [process for process in resumed if process.poll() is not None]
        time.sleep(0.01)
    (folder / "gate").touch()
    (winner,) = [process for process in resumed if process not in losers]
    _, err = winner.communicate(timeout=120)

    assert winner.returncode == 0, err
    for loser in losers:
        _, err = loser.communicate()
        assert loser.returncode == 4
        assert f"is run by pid {winner.pid} on host" in err
    assert journal(folder) == {"first": 1, "second": 2, "third": 1}


def test_a_run_that_is_alive_is_not_taken_over_and_one_that_ended_not_resumed(
    server: ServerProcess, folder: Path
) -> None:
    first = start(server, folder)
    wait_for(folder, "second")
    with Client(server.url, key=ADMIN_KEY) as client:
        (intent,) = [intent.id for intent in client.list_intents()]
        too_early = start(server, folder, "--resume", intent)
        _, early = too_early.communicate(timeout=60)
        (folder / "gate").touch()
        first.communicate(timeout=60)
    too_late = start(server, folder, "--resume", intent)
    _, late = too_late.communicate(timeout=60)

    assert (too_early.returncode, first.returncode, too_late.returncode) == (4, 0, 4)
    assert f"is run by pid {first.pid} on host" in early
    assert f"{intent} is completed" in late


def test_two_runs_of_one_file_at_once_both_complete(server: ServerProcess, folder: Path) -> None:
    runs = [start(server, folder) for _ in range(2)]
    wait_for(folder, "second", 2)
    (folder / "gate").touch()
    ended = [(run.communicate(timeout=120), run.returncode) for run in runs]

    assert [code for _, code in ended] == [0, 0]
    assert journal(folder) == {"first": 2, "second": 2, "third": 2}
