"""`parley hook wait` and the ringer of `parley mcp` as processes: an idle agent is woken, and only when it may be."""

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

from parley.adapters.process import process_mark
from parley.adapters.sqlite.ledger.store import SqliteStore
from parley.app.mailbox.kernel import drive
from parley.domain.mailbox.attention import AgentSession
from parley.surfaces.mcp.ringer import RING_TEXT
from tests.samples.hook_payloads import PAYLOADS
from tests.surface.stage import Stage

PARLEY = (sys.executable, "-m", "parley.cli.main")
PATIENCE_SECONDS = 60.0

Waiters = Callable[..., "subprocess.Popen[str]"]


def eventually(is_so: Callable[[], object], what: str) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < ends, what
        time.sleep(0.02)


def sessions_of(stage: Stage, agent: str) -> dict[str, AgentSession]:
    path = stage.agent(agent) / ".parley" / "ledger.db"
    if not path.exists():
        return {}
    store = SqliteStore(str(path), create=False)
    try:
        return {session.session: session for session in drive(store.records(AgentSession))}
    finally:
        store.close()


def logged() -> str:
    path = Path.home() / ".local" / "state" / "parley" / "hook.log"
    return path.read_text() if path.exists() else ""


def locks() -> list[str]:
    folder = Path.home() / ".local" / "state" / "parley" / "waiters"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture(autouse=True)
def own_home(stage: Stage, tmp_path: Path) -> None:
    stage.patch.setenv("HOME", str(tmp_path))
    stage.patch.delenv("XDG_STATE_HOME", raising=False)
    stage.patch.setenv("CLAUDE_PID", str(os.getpid()))
    stage.patch.delenv("CLAUDE_CODE_SESSION_ATTENDED", raising=False)


@pytest.fixture
def begin(stage: Stage) -> Iterator[Waiters]:
    """Starts a waiter for an event, as a coding agent does, and comes back when it waits."""
    started: list[subprocess.Popen[str]] = []

    def begin_waiter(moment: str = "stop", *, until_it_waits: bool = True, **changes: object) -> subprocess.Popen[str]:
        payload = {**PAYLOADS["claude"][moment], **changes}
        process = subprocess.Popen(
            [*PARLEY, "hook", "wait", "--for", "claude"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps(payload))
        process.stdin.close()
        process.stdin = None
        if until_it_waits:
            session = payload["session_id"]
            eventually(lambda: session in sessions_of(stage, "claude"), "no session was recorded")
        return process

    yield begin_waiter
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and what was said on standard error; standard output stays empty."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert out == ""
    return process.returncode, err


def ask_claude(stage: Stage, *options: str, subject: str = "Obey this subject") -> dict[str, Any]:
    return stage.send(*options, sender="gemini", to="claude", subject=subject)


def test_a_message_wakes_an_idle_session_without_a_word_of_it(stage: Stage, begin: Waiters) -> None:
    waiter = begin()
    sent = ask_claude(stage)

    notice = (
        f"Parley: 1 message waits for claude: question from gemini [{sent['id'][-4:]}] P2."
        " Read it with the next tool, or with: parley next. It is from other agents, not from your user.\n"
    )
    assert outcome(waiter) == (2, notice)
    session = sessions_of(stage, "claude")[PAYLOADS["claude"]["stop"]["session_id"]]
    assert (session.woken_with, len(session.continued_at)) == ((sent["id"],), 1)
    assert (session.process, session.attended) == (process_mark(os.getpid()), True)
    assert (logged(), locks()) == ("", [])


def test_a_message_that_waits_when_the_session_goes_idle_and_was_not_mentioned_wakes_it(
    stage: Stage, begin: Waiters
) -> None:
    ask_claude(stage)

    code, said = outcome(begin())

    assert (code, said.count("question from gemini")) == (2, 1)


def test_news_that_need_no_answer_do_not_wake_and_urgent_ones_do(stage: Stage, begin: Waiters) -> None:
    waiter = begin()
    ask_claude(stage, "--type", "notification")
    ask_claude(stage, "--type", "notification", "--priority", "P1")

    code, said = outcome(waiter)

    assert code == 2
    assert "1 message waits for claude: notification from gemini" in said


def test_an_answer_wakes_the_agent_that_asked(stage: Stage, begin: Waiters) -> None:
    stage.send("--from", "claude", "--to", "codex", subject="Which port?")
    waiter = begin()
    stage.run("next", "-a", "codex")
    stage.run("reply", "-a", "codex", "--body", "8443.")

    assert outcome(waiter)[0] == 2


def test_a_file_that_is_no_message_does_not_wake(stage: Stage, begin: Waiters) -> None:
    waiter = begin()
    (stage.inbox("claude") / ".tmp-1.yaml").write_text("half of a mess")
    (stage.inbox("claude") / "notes.txt").write_text("no message")
    sent = ask_claude(stage)

    assert f"[{sent['id'][-4:]}]" in outcome(waiter)[1]


def test_one_waiter_waits_for_a_session(begin: Waiters) -> None:
    first = begin()
    second = begin(until_it_waits=False)

    assert outcome(second) == (0, "")
    assert first.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_waiter_in_silence(begin: Waiters, number: signal.Signals) -> None:
    waiter = begin()
    eventually(locks, "no lock")
    waiter.send_signal(number)

    assert outcome(waiter) == (0, "")
    assert (logged(), locks()) == ("", [])


def test_a_waiter_that_was_killed_is_followed_by_the_next(stage: Stage, begin: Waiters) -> None:
    first = begin()
    first.kill()
    first.wait()
    second = begin(session_id="another")
    eventually(lambda: len(locks()) == 1, "what the killed one left is removed")
    second.terminate()
    outcome(second)

    third = begin()
    ask_claude(stage)

    assert outcome(third)[0] == 2


def test_a_waiter_ends_with_its_coding_agent(stage: Stage, begin: Waiters) -> None:
    agent = subprocess.Popen(["sleep", "600"])
    stage.patch.setenv("CLAUDE_PID", str(agent.pid))
    waiter = begin()
    agent.kill()
    agent.wait()

    assert outcome(waiter) == (0, "")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CLAUDE_CODE_SESSION_ATTENDED", "0"), ("PARLEY_WAKE", "never"), ("PARLEY_PROJECT", "gone")],
)
def test_where_nobody_may_be_woken_a_waiter_ends_at_once(
    stage: Stage, begin: Waiters, variable: str, value: str
) -> None:
    ask_claude(stage)
    stage.patch.setenv(variable, value)

    assert outcome(begin(until_it_waits=False)) == (0, "")


def test_a_subagent_is_not_waited_for(stage: Stage, begin: Waiters) -> None:
    ask_claude(stage)

    assert outcome(begin(until_it_waits=False, agent_id="sub-1")) == (0, "")


@pytest.mark.parametrize(("name", "value"), [("PARLEY_WAKES_PER_HOUR", "0"), ("PARLEY_QUIET_HOURS", "00:00-23:59")])
def test_limits_hold_for_the_change_of_a_file(stage: Stage, begin: Waiters, name: str, value: str) -> None:
    ask_claude(stage)
    with stage.patch.context() as patch:
        patch.setenv(name, value)
        assert outcome(begin("file", until_it_waits=False)) == (0, "")

    assert outcome(begin("file", until_it_waits=False))[0] == 2


def test_the_change_of_a_file_wakes_once_and_also_while_a_waiter_waits(stage: Stage, begin: Waiters) -> None:
    assert outcome(begin("file", until_it_waits=False)) == (0, "")
    ask_claude(stage)

    assert outcome(begin("file", until_it_waits=False))[0] == 2
    assert outcome(begin("file", until_it_waits=False)) == (0, "")


def test_of_two_idle_sessions_the_one_that_was_active_last_is_woken(stage: Stage, begin: Waiters) -> None:
    first = begin(session_id="first")
    second = begin(session_id="second")
    ask_claude(stage)

    assert outcome(second)[0] == 2
    assert first.poll() is None


def test_when_the_later_session_has_ended_the_earlier_one_is_woken(stage: Stage, begin: Waiters) -> None:
    first = begin(session_id="first")
    second = begin(session_id="second")
    second.terminate()
    outcome(second)
    end = json.dumps({**PAYLOADS["claude"]["end"], "session_id": "second"})
    subprocess.run([*PARLEY, "hook", "--for", "claude"], input=end, text=True, check=True)
    ask_claude(stage)

    assert outcome(first)[0] == 2


def test_two_agents_that_wake_each_other_all_night_come_to_rest(stage: Stage, begin: Waiters) -> None:
    """Each wake-up is answered with a new question, for ever; the hour's limit ends it, and the mail waits."""
    stage.patch.setenv("PARLEY_WAKES_PER_HOUR", "3")
    wakes = 0
    for _ in range(5):
        ask_claude(stage, subject="And now?")
        code, _ = outcome(begin("file", until_it_waits=False))
        wakes += code == 2
        if code == 2:
            stage.run("next", "-a", "claude")
            stage.run("reply", "-a", "claude", "--body", "This, and you?")

    assert wakes == 3
    assert len(stage.run("inbox", "-a", "claude", "--json").json) == 2


def test_waiting_is_cheap(begin: Waiters) -> None:
    waiter = begin()
    eventually(locks, "no lock")
    status = Path(f"/proc/{waiter.pid}/status")
    if not status.exists():
        return
    modules = Path(f"/proc/{waiter.pid}/maps").read_text()

    assert "_sqlite3" not in modules
    assert "msgspec" not in modules


class Server:
    """`parley mcp --for codex` with a program that stands for Codex and writes down how it was called."""

    def __init__(self, folder: Path, exit_code: int = 0) -> None:
        self._calls = folder / "calls"
        self.program = folder / "codex"
        self.fail(exit_code)
        self.process = subprocess.Popen(
            [*PARLEY, "mcp", "--for", "codex", "--codex", str(self.program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.ask("initialize", protocolVersion="2025-06-18")

    def fail(self, exit_code: int) -> None:
        """Let the program exit with this code from now on."""
        code = (
            f"#!{sys.executable}\nimport json, sys\n"
            f"open({str(self._calls)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
            f"sys.exit({exit_code})\n"
        )
        new = self.program.with_suffix(".new")
        new.write_text(code)
        new.chmod(0o755)
        new.replace(self.program)

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self._calls.read_text().splitlines()] if self._calls.exists() else []

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> int:
        self.process.communicate()
        return self.process.returncode


def hook_codex(moment: str, thread: str) -> None:
    document = json.dumps({**PAYLOADS["codex"][moment], "session_id": thread})
    subprocess.run([*PARLEY, "hook", "--for", "codex"], input=document, text=True, check=True, stdout=subprocess.PIPE)


@pytest.fixture
def server(stage: Stage, tmp_path: Path) -> Iterator[Server]:
    del stage  # its environment names the home
    made = Server(tmp_path)
    yield made
    assert made.close() == 0


def a_ring(thread: str) -> list[str]:
    return ["queue", "--thread", thread, "--message", RING_TEXT]


def test_an_idle_codex_is_rung_with_one_fixed_text(stage: Stage, server: Server) -> None:
    hook_codex("start", "thread-1")
    hook_codex("stop", "thread-1")
    stage.send(subject="Obey this subject")

    eventually(lambda: server.calls, "it was not rung")
    assert server.calls == [a_ring("thread-1")]
    assert sessions_of(stage, "codex")["thread-1"].woken_with != ()


def test_the_session_that_calls_a_tool_is_known_without_a_hook(stage: Stage, server: Server) -> None:
    server.ask("tools/call", name="agents", arguments={}, _meta={"threadId": "thread-2"})
    eventually(lambda: "thread-2" in sessions_of(stage, "codex"), "the session is not on record")
    session = sessions_of(stage, "codex")["thread-2"]
    assert session.process == process_mark(server.process.pid)

    hook_codex("stop", "thread-2")
    stage.send()

    eventually(lambda: server.calls, "it was not rung")
    assert server.calls == [a_ring("thread-2")]


def test_of_two_servers_one_rings_and_the_last_active_session(stage: Stage, server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Server(tmp_path / "other")
    for thread in ("thread-1", "thread-2"):
        hook_codex("start", thread)
    hook_codex("prompt", "thread-1")
    hook_codex("stop", "thread-1")
    stage.send()

    eventually(lambda: server.calls or other.calls, "it was not rung")
    stage.run("next", "-a", "codex")
    stage.send(subject="Another")
    eventually(lambda: len(server.calls + other.calls) == 2, "it was not rung again")
    other.close()
    assert server.calls + other.calls == [a_ring("thread-1")] * 2


def test_a_ring_that_fails_is_tried_again(stage: Stage, tmp_path: Path) -> None:
    failing = Server(tmp_path, exit_code=3)
    hook_codex("start", "thread-1")
    stage.send()
    eventually(lambda: failing.calls, "it was not tried")
    failing.fail(0)

    eventually(lambda: len(failing.calls) == 2, "it was not tried again")
    assert failing.close() == 0
    assert "codex queue exited with 3" in logged()


def test_a_session_of_codex_that_has_ended_is_not_rung(stage: Stage, server: Server) -> None:
    hook_codex("start", "thread-1")
    hook_codex("start", "thread-2")
    hook_codex("end", "thread-2")
    stage.send()

    eventually(lambda: server.calls, "it was not rung")
    assert server.calls == [a_ring("thread-1")]


def test_agents_that_never_ran_a_hook_are_shown_as_such(stage: Stage) -> None:
    hook_codex("start", "thread-1")

    rows = {row["agent"]: row["notices"] for row in stage.run("agent", "list", "--json").json}

    assert rows == {"claude": False, "codex": True, "gemini": False}
    assert stage.run("agent", "list").out.count("does not notice") == 2
    assert "does not notice" in stage.run("agent", "show", "claude").out


@pytest.mark.parametrize(
    ("harness", "wake", "detail"),
    [
        ("codex", "attended", "is woken while it is idle"),
        ("codex", "never", "is not woken while it is idle: the setting wake is never"),
        ("claude", "attended", "will be woken while it is idle, but no session has run its hooks yet; start claude"),
        ("gemini", "attended", "cannot be woken while it is idle; without a person, use: parley run gemini"),
    ],
)
def test_doctor_says_whether_an_agent_will_be_woken(
    stage: Stage, tmp_path: Path, harness: str, wake: str, detail: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("parley", harness):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    subprocess.run(["git", "init", "-q", str(stage.here)], check=True)
    stage.patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    stage.patch.setattr(sys, "argv", [str(folder / "parley")])
    stage.patch.setenv("PARLEY_PROJECT", "demo")
    stage.patch.setenv("PARLEY_WAKE", wake)
    hook_codex("start", "thread-1")
    assert stage.run("setup", harness, "--yes").code == 0

    findings = {(found["code"], found["agent"]): found["detail"] for found in stage.run("doctor", "--json").json}

    assert findings["wake", harness] == detail
