"""A copy that is cut off goes on where it stopped."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.surface.cli.store_copy.installation import (
    PATIENCE,
    copying,
    in_store,
    written,
)
from tests.surface.stage import Ran, Stage, parley_script


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["to", "from"])
def test_a_copy_that_is_killed_again_and_again_ends_up_whole(
    stage: Stage, dsn: str, tmp_path: Path, direction: str
) -> None:
    data = in_store(tmp_path / "data", 4_000)
    chance = random.Random(f"{direction} 11")
    source, target = str(data), dsn
    if direction == "from":
        assert stage.run(*copying(data, dsn)).code == 0
        source, target = dsn, str(tmp_path / "back")
    kills = 0
    for turn in range(8):  # a little later each time, at first before it could begin
        process = subprocess.Popen(
            [parley_script(), *copying(source, target, "--json")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            process.communicate(timeout=0.2 + 0.25 * turn + chance.uniform(0, 0.25))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
            process.communicate(timeout=PATIENCE)
        if process.returncode == 0:
            break

    last = until_free(stage, source, target)

    assert kills > 0
    assert (last.code, last.json["finished"]) == (0, True)
    again = stage.run(*copying(source, target, "--json"))
    assert (again.code, written(again)) == (0, {})
    assert stage.run(*copying(data, target, "--verify-only")).code == 0


def until_free(stage: Stage, source: str, target: str) -> Ran:
    """Copy as soon as the database has noticed that the one before is dead."""
    end = time.monotonic() + PATIENCE
    while True:
        ran = stage.run(*copying(source, target, "--json"))
        if ran.code != 4 or "another copy" not in ran.err or time.monotonic() > end:
            return ran


def test_ctrl_c_leaves_a_copy_that_goes_on(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data", 3_000)

    tries = 0
    while True:
        back = tmp_path / f"back{tries}"
        ended, out, err = interrupted(copying(data, back), back / "parley.db.copying")
        tries += 1
        if ended == 130 or tries == 10:  # otherwise it was through before it heard of it
            break

    assert (ended, out) == (130, "")
    assert err == "Interrupted. Run the same command again to continue.\n"
    assert stage.run(*copying(data, back)).code == 0


def listens_to_ctrl_c() -> None:
    """A shell lets its background jobs ignore SIGINT, and so would what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(command: list[str], begun: Path) -> tuple[int, str, str]:
    """What has become of a copy that was interrupted as soon as it had begun."""
    process = subprocess.Popen(
        [parley_script(), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listens_to_ctrl_c,  # noqa: PLW1509  # this process has one thread
    )
    end = time.monotonic() + PATIENCE
    while not begun.exists() and process.poll() is None and time.monotonic() < end:
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err
