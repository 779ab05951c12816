"""What the fault tests need from the machine: skipped where it is missing, except in CI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fault.stage import Stage, environment

FULL = os.environ.get("PARLEY_FAULT") == "full"
DISK = Path(__file__).with_name("disk.py")
Play = Callable[..., dict[str, Any]]


def missing(what: str) -> None:
    """Skip at home, fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture
def full() -> bool:
    """Whether to run at full length."""
    return FULL


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path / "stage") as stage:
        yield stage


@pytest.fixture(scope="session")
def strace() -> None:
    if shutil.which("strace") is None:
        missing("strace is not installed")
    tried = subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        missing(f"strace may not trace here: {tried.stderr.strip()}")


@pytest.fixture
def root() -> None:
    """For tests that act as several users; whoever is not root is only one."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as several users")


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Play a scenario on a disk of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    for tool in ("unshare", "mount", "mkfs.ext4"):
        if shutil.which(tool) is None:
            missing(f"{tool} is not installed")

    def play(scenario: str, mutant: str = "", **options: object) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(scenario)
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, str(DISK)]
        done = subprocess.run(
            [*command, scenario, str(folder), mutant, json.dumps(options)],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        if done.returncode:
            raise OSError(done.stderr)
        report: dict[str, Any] = json.loads(done.stdout)
        shutil.rmtree(folder)
        return report

    try:
        play("probe")
    except OSError as error:
        # Some environments have root without loop devices: nothing that could be installed would help.
        pytest.skip(f"a disk cannot be mounted and cut here: {str(error).strip().splitlines()[-1]}")
    return play
