"""Codex is called with a thread and a text, and whatever goes wrong is told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.adapters.harness import codex
from parley.adapters.harness.codex import queue_message


def a_program(folder: Path, script: str) -> str:
    path = folder / "codex"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_text_is_put_into_the_queue_of_a_thread(tmp_path: Path) -> None:
    program = a_program(tmp_path, f"printf '%s\\n' \"$@\" > {tmp_path}/words")

    assert queue_message(program, "019a-7b", "Parley: $(boo) messages wait") == ""
    words = (tmp_path / "words").read_text().splitlines()
    assert words == ["queue", "--thread", "019a-7b", "--message", "Parley: $(boo) messages wait"]


@pytest.mark.parametrize("thread", ["", "--help", "a b", "a\n", "../x", "x" * 300])
def test_a_name_that_could_be_anything_else_is_not_passed_on(tmp_path: Path, thread: str) -> None:
    assert queue_message(str(tmp_path / "missing"), thread, "T") == "the session has no name that Codex could know"


def test_a_program_that_is_missing_fails_or_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert queue_message(str(tmp_path / "missing"), "t1", "T").endswith("No such file or directory")
    program = a_program(tmp_path, "echo 'no such thread' >&2; exit 4")
    assert queue_message(program, "t1", "T") == f"{program} queue exited with 4: no such thread"
    monkeypatch.setattr(codex, "_SECONDS", 0.05)
    program = a_program(tmp_path, "exec sleep 60")
    assert queue_message(program, "t1", "T") == f"{program} queue took longer than 0.05 s"
