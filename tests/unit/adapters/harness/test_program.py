"""A program is talked to in lines, and ends with all that it started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from parley.adapters.harness.program import Program
from parley.domain.errors.errors import Unavailable

ECHO = "import sys\nprint('a note')\nprint('[]')\nfor line in sys.stdin: print(line, end='', flush=True)"


def a_program(code: str, folder: Path) -> Program:
    return Program([sys.executable, "-c", code], str(folder), dict(os.environ))


def test_documents_go_in_and_come_out_and_notes_are_passed_over(tmp_path: Path) -> None:
    program = a_program(ECHO, tmp_path)
    program.write({"a": 1})
    assert program.read(30) == {"a": 1}
    assert program.read(0) is None
    program.write({"b": 2})
    while program._documents.empty():
        pass
    program.drain()
    assert program.read(0) is None

    program.end()
    program.end()

    assert program.has_ended


def test_a_program_that_has_ended_says_how(tmp_path: Path) -> None:
    program = a_program("import sys; sys.exit(7)", tmp_path)
    with pytest.raises(Unavailable, match="ended with exit code 7"):
        program.read(30)
    with pytest.raises(Unavailable):
        program.drain()
    program.end()

    killed = a_program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    with pytest.raises(Unavailable, match="ended by SIGKILL"):
        killed.read(30)
    with pytest.raises(Unavailable):
        killed.write({})
    killed.end()


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot start .*missing: No such file"):
        Program([str(tmp_path / "missing")], str(tmp_path), {})


def test_what_it_started_ends_with_it_even_if_it_will_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.adapters.harness.program._END_SECONDS", 0.2)
    code = (
        "import json, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(json.dumps({'child': child.pid}), flush=True)\n"
        "time.sleep(600)"
    )
    program = a_program(code, tmp_path)
    document = program.read(30)
    assert document is not None

    program.end()

    assert program.has_ended
    # Its end is under way: the signal was sent, and nobody can ignore it.
    while _runs(document["child"]):
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
