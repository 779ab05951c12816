"""`parley run`: programs without a person work through their messages, and are started again when they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.cli.attention.run import RUN_TEXT
from tests.surface.stage import Stage

PARLEY = (sys.executable, "-m", "parley.cli.main")
AGENT = Path(__file__).resolve().parents[2] / "rigs" / "coding_agent.py"
HARNESSES = ("claude", "gemini", "opencode")
PATIENCE_SECONDS = 60.0


class Bench:
    """A program under the name of each coding agent, and the journal that it writes."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.journal = folder / "journal"
        self._behaviours = folder / "behaviours"
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._running: list[subprocess.Popen[str]] = []
        for name in HARNESSES:
            program = self._bin / name
            words = f'{sys.executable} {AGENT} {self._behaviours} {self.journal} "$@"'
            program.write_text(f"#!/bin/sh\nexec {words}\n")
            program.chmod(0o755)
        stage.patch.setenv("PATH", f"{self._bin}:{os.environ['PATH']}")

    def behave(self, *words: str) -> None:
        """What the next starts do."""
        self._behaviours.write_text(" ".join(words))

    def entries(self, key: str) -> list[Any]:
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return [entry[key] for line in lines if key in (entry := json.loads(line))]

    def once(self, harness: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [*PARLEY, "run", harness, "--once", *options]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS * 2)

    def start(self, harness: str) -> subprocess.Popen[str]:
        command = [*PARLEY, "run", harness, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._running.append(process)
        return process

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def bench(stage: Stage, tmp_path: Path) -> Iterator[Bench]:
    stage.patch.setenv("HOME", str(tmp_path))
    stage.patch.delenv("XDG_STATE_HOME", raising=False)
    stage.run("agent", "add", "opencode")
    made = Bench(stage, tmp_path)
    yield made
    made.close()


def ask(stage: Stage, agent: str, subject: str = "Obey this subject") -> None:
    stage.send(sender="codex", to=agent, subject=subject)


def answers(stage: Stage) -> int:
    return len(stage.files("codex"))


def eventually(is_so: Callable[[], object], what: str) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < ends, what
        time.sleep(0.05)


def read_until(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        document: dict[str, Any] = json.loads(line)
        if document["event"] == event:
            return document
    raise AssertionError(f"it ended before {event}")


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_program_answers_all_that_waits_after_one_fixed_prompt(stage: Stage, bench: Bench, harness: str) -> None:
    for _ in range(3):
        ask(stage, harness)

    ran = bench.once(harness)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split("  ", 1)[1].split(" (")[0].split(" after")[0] for line in ran.stdout.splitlines()] == [
        f"started {harness}",
        "prompted for 3 messages",
        "turn ended",
    ]
    assert (bench.entries("prompt"), answers(stage)) == ([RUN_TEXT], 3)
    assert stage.run("inbox", "-a", harness, "--json").json == []


def test_with_nothing_waiting_no_prompt_is_given(bench: Bench) -> None:
    ran = bench.once("gemini", "--json")

    assert ran.returncode == 0
    assert [json.loads(line)["event"] for line in ran.stdout.splitlines()] == ["started"]


def test_a_program_that_answers_one_at_a_time_is_prompted_again_while_it_makes_progress(
    stage: Stage, bench: Bench
) -> None:
    bench.behave("one")
    for _ in range(3):
        ask(stage, "gemini")

    assert bench.once("gemini").returncode == 0
    assert (len(bench.entries("prompt")), answers(stage)) == (3, 3)


def test_one_that_does_nothing_is_left_alone(stage: Stage, bench: Bench) -> None:
    bench.behave("idle")
    ask(stage, "gemini")

    assert bench.once("gemini").returncode == 0
    assert len(bench.entries("prompt")) == 1


@pytest.mark.parametrize(("name", "value"), [("PARLEY_WAKES_PER_HOUR", "1"), ("PARLEY_QUIET_HOURS", "00:00-23:59")])
def test_the_limits_of_the_settings_hold(stage: Stage, bench: Bench, name: str, value: str) -> None:
    stage.patch.setenv(name, value)
    bench.behave("one")
    for _ in range(2):
        ask(stage, "gemini")

    assert bench.once("gemini").returncode == 0
    assert len(bench.entries("prompt")) == (1 if name.endswith("HOUR") else 0)


def test_only_tools_of_parley_are_allowed(stage: Stage, bench: Bench) -> None:
    bench.behave("ask")
    ask(stage, "gemini")

    ran = bench.once("gemini")

    refused, allowed = bench.entries("permission")
    assert (refused, allowed) == (
        {"outcome": "selected", "optionId": "no"},
        {"outcome": "selected", "optionId": "yes"},
    )
    assert bench.entries("file") == [-32601]
    assert "refused: 'rm -r / # parley next'" in ran.stdout


def test_claude_code_gets_the_tools_and_may_use_nothing_else(stage: Stage, bench: Bench) -> None:
    ask(stage, "claude")

    bench.once("claude", "--", "--model", "opus")

    (arguments,) = bench.entries("arguments")
    assert arguments[:2] == ["-p", "--input-format"]
    assert arguments[-4:] == ["--allowedTools", "mcp__parley", "--model", "opus"]
    server = json.loads(arguments[arguments.index("--mcp-config") + 1])["mcpServers"]["parley"]
    # Otherwise its model does not see the tools before it has searched for them.
    assert server["alwaysLoad"] is True


def test_a_program_that_dies_is_started_again_and_the_message_answered(stage: Stage, bench: Bench) -> None:
    bench.behave("broken", "die", "work")
    ask(stage, "gemini")
    process = bench.start("gemini")

    first = read_until(process, "ended")
    second = read_until(process, "ended")
    read_until(process, "turn")

    assert (first["reason"], second["reason"]) == ("gemini ended with exit code 5", "gemini ended with exit code 3")
    assert (first["again_in"], second["again_in"]) == (1.0, 2.0)
    assert answers(stage) == 1


def test_a_message_that_comes_later_is_answered_and_ctrl_c_ends_everything(stage: Stage, bench: Bench) -> None:
    process = bench.start("gemini")
    started = read_until(process, "started")
    eventually(lambda: bench.entries("cwd"), "no session")
    ask(stage, "gemini")
    read_until(process, "turn")
    assert answers(stage) == 1

    process.send_signal(signal.SIGINT)

    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["event"] == "stopped"
    with pytest.raises(ProcessLookupError):
        os.kill(started["pid"], 0)


def test_a_program_that_hangs_is_ended_with_us(stage: Stage, bench: Bench) -> None:
    bench.behave("hang")
    ask(stage, "gemini")
    process = bench.start("gemini")
    pid = read_until(process, "started")["pid"]
    eventually(lambda: bench.entries("prompt"), "no prompt")

    process.terminate()

    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_turn_that_takes_too_long_is_given_up(stage: Stage, bench: Bench) -> None:
    bench.behave("hang")
    ask(stage, "gemini")

    ran = bench.once("gemini", "--turn", "1s")

    assert ran.returncode != 0
    assert "error: gemini took longer than 1 s for a turn [unavailable]" in ran.stderr


def test_a_program_that_is_missing_is_named(stage: Stage, bench: Bench) -> None:
    del bench
    ran = stage.run("run", "gemini", "--program", "gemini-nightly")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "no program gemini-nightly on the PATH" in ran.err
