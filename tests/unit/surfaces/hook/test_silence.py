"""Whatever goes wrong in a hook, its user's session goes on, and the log has one line about it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from parley.domain.errors.errors import Unavailable
from parley.surfaces.hook import silence
from parley.surfaces.hook.silence import HookLog, run_silently


def fail(error: BaseException) -> str:
    raise error


def wait_for_ever() -> str:
    while True:
        signal.pause()


def log_in(folder: Path) -> HookLog:
    return HookLog(str(folder / "state" / "hook.log"), lambda: "2026-03-13T14:30:00Z")


def lines_in(folder: Path) -> list[str]:
    path = folder / "state" / "hook.log"
    return path.read_text().splitlines() if path.exists() else []


def test_what_a_hook_says_is_written(tmp_path: Path) -> None:
    written: list[str] = []

    assert run_silently(lambda: "{}", log_in(tmp_path), written.append) == 0
    assert run_silently(lambda: "", log_in(tmp_path), written.append) == 0
    assert (written, lines_in(tmp_path)) == (["{}\n"], [])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Unavailable("the disk is\nslow"), "unavailable: the disk is\\nslow"),
        (RecursionError("deep"), "internal: RecursionError: deep"),
        (OSError(30, "Read-only file system"), "internal: OSError: [Errno 30] Read-only file system"),
    ],
)
def test_an_error_ends_in_silence_and_in_one_line(tmp_path: Path, error: Exception, line: str) -> None:
    written: list[str] = []

    assert run_silently(lambda: fail(error), log_in(tmp_path), written.append) == 0
    assert (written, lines_in(tmp_path)) == ([], [f"2026-03-13T14:30:00Z {line}"])


def test_a_log_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")

    assert run_silently(lambda: fail(OSError("x")), log_in(tmp_path), print) == 0


def test_the_log_does_not_grow_without_end(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.write("first")
    path = tmp_path / "state" / "hook.log"
    path.write_bytes(b"x" * (silence._LOG_BYTES + 1))

    log.write("y" * 5_000)

    assert path.stat().st_size < 1_000
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state" / "hook.log.1").stat().st_size == silence._LOG_BYTES + 1


def test_a_hook_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "TIME_LIMIT_SECONDS", 0.05)
    child = os.fork()
    if not child:
        run_silently(wait_for_ever, log_in(tmp_path), print)
        os._exit(9)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lines_in(tmp_path) == ["2026-03-13T14:30:00Z timeout: took longer than 0.05 s"]
