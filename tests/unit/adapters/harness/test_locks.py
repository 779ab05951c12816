"""One process has a lock; whoever was killed leaves nothing that stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from parley.adapters.harness.locks import acquire


def test_a_lock_is_had_once_and_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    first = acquire(str(folder), "a")
    assert first is not None
    assert acquire(str(folder), "a") is None
    first.release()
    first.release()
    assert [*folder.iterdir()] == []

    again = acquire(str(folder), "a")

    assert again is not None
    again.release()


def test_what_a_killed_process_left_is_removed_and_what_others_hold_stays(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        acquire(str(tmp_path), "killed")
        os.write(writer, b"x")
        signal.pause()
    os.read(reader, 1)
    held = acquire(str(tmp_path), "held")
    assert {path.name for path in tmp_path.iterdir()} == {"killed.lock", "held.lock"}
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

    other = acquire(str(tmp_path), "other")

    assert {path.name for path in tmp_path.iterdir()} == {"held.lock", "other.lock"}
    assert held is not None
    assert other is not None
    held.release()
    other.release()
    os.close(reader)
    os.close(writer)
