"""`parley hook` as a process: every event of every coding agent, and silence whenever there is nothing to say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from parley.adapters.process import process_mark
from parley.adapters.sqlite.ledger.store import SqliteStore
from parley.app.mailbox.kernel import drive
from parley.domain.mailbox.attention import AgentSession
from tests.samples.hook_payloads import PAYLOADS
from tests.surface.stage import Stage

HARNESSES = sorted(PAYLOADS)
PARLEY = (sys.executable, "-m", "parley.cli.main")


def run(harness: str, payload: Mapping[str, Any] | str, *options: str) -> subprocess.CompletedProcess[str]:
    document = payload if isinstance(payload, str) else json.dumps(payload)
    command = [*PARLEY, "hook", *(("--for", harness) if harness else ()), *options]
    return subprocess.run(command, input=document, capture_output=True, text=True, check=False)


def said(harness: str, moment: str, **changes: object) -> str:
    """What the model of a coding agent is told at an event; "" for nothing."""
    ran = run(harness, {**PAYLOADS[harness][moment], **changes})
    assert (ran.returncode, ran.stderr) == (0, "")
    if not ran.stdout:
        return ""
    document = json.loads(ran.stdout)
    text: str = document.get("reason") or document["hookSpecificOutput"].get("additionalContext", "")
    return text


def log_lines() -> list[str]:
    path = Path.home() / ".local" / "state" / "parley" / "hook.log"
    return path.read_text().splitlines() if path.exists() else []


def sessions_of(stage: Stage, agent: str) -> list[AgentSession]:
    store = SqliteStore(str(stage.agent(agent) / ".parley" / "ledger.db"), create=False)
    try:
        return [*drive(store.records(AgentSession))]
    finally:
        store.close()


@pytest.fixture(autouse=True)
def own_home(stage: Stage, tmp_path: Path) -> None:
    stage.patch.setenv("HOME", str(tmp_path))
    stage.patch.delenv("XDG_STATE_HOME", raising=False)
    stage.run("agent", "add", "opencode")


@pytest.mark.parametrize("harness", HARNESSES)
def test_with_nothing_waiting_nothing_is_said_and_only_a_session_is_recorded(stage: Stage, harness: str) -> None:
    before = sorted(stage.home.rglob("*"))
    moments = [moment for moment in PAYLOADS[harness] if moment not in ("start", "file")]
    unrecorded = [moment for moment in moments if harness != "codex" or moment in ("tool", "end")]

    assert {moment: said(harness, moment) for moment in unrecorded} == dict.fromkeys(unrecorded, "")
    assert sorted(stage.home.rglob("*")) == before

    assert {moment: said(harness, moment) for moment in ("start", *moments)} == dict.fromkeys(("start", *moments), "")
    (session,) = sessions_of(stage, harness)
    assert (session.state, session.last_event, session.cwd) == ("ended", "end", PAYLOADS[harness]["end"]["cwd"])
    assert log_lines() == []


@pytest.mark.parametrize("harness", HARNESSES)
def test_with_nothing_waiting_no_parser_and_no_database_is_loaded(stage: Stage, harness: str) -> None:
    for name in HARNESSES:
        assert stage.run("agent", "add", name, "--runtime", name).code == 0
        assert f'runtime: "{name}"\n' in (stage.agent(name) / "agent_card.yaml").read_text()
    command = [sys.executable, "-X", "importtime", "-m", "parley.cli.main", "hook", "--for", harness]

    ran = subprocess.run(
        command, input=json.dumps(PAYLOADS[harness]["tool"]), capture_output=True, text=True, check=True
    )

    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert ran.stdout == ""
    assert "parley.app.mailbox.attention" in loaded
    assert loaded & {"yaml", "sqlite3", "asyncio", "subprocess"} == set()


def test_claude_code_watches_the_inbox_unless_it_may_not_be_woken(stage: Stage) -> None:
    watched = json.loads(run("claude", PAYLOADS["claude"]["start"]).stdout)["hookSpecificOutput"]["watchPaths"]

    assert watched == [str(stage.inbox("claude"))]
    stage.patch.setenv("PARLEY_WAKE", "never")
    assert run("claude", PAYLOADS["claude"]["start"]).stdout == ""


def test_a_hook_inside_another_coding_agent_does_not_take_its_process_for_its_own(stage: Stage) -> None:
    stage.patch.setenv("CLAUDECODE", "1")
    stage.patch.setenv("CLAUDE_PID", str(os.getpid()))
    stage.patch.setenv("CLAUDE_CODE_SESSION_ATTENDED", "0")

    said("codex", "start")
    said("claude", "start")

    (codex,), (claude,) = sessions_of(stage, "codex"), sessions_of(stage, "claude")
    assert (codex.process, codex.attended) == ("", True)
    assert (claude.process, claude.attended) == (process_mark(os.getpid()), False)


def test_the_claim_of_a_session_that_was_killed_is_free_at_the_next_start(stage: Stage) -> None:
    sent = stage.send("--from", "gemini", "--to", "claude", subject="Ready?")
    killed = subprocess.Popen(["sleep", "60"])
    stage.patch.setenv("CLAUDECODE", "1")
    stage.patch.setenv("CLAUDE_PID", str(killed.pid))
    assert stage.script("next", "-a", "claude", "--json").json["id"] == sent["id"]
    assert said("claude", "start", session_id="second") == ""
    killed.kill()
    killed.wait()
    stage.patch.setenv("CLAUDE_PID", str(os.getpid()))

    assert said("claude", "start", session_id="third").startswith("Parley: 1 message waits for claude")


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_message_is_noticed_at_the_start_without_a_word_of_it(stage: Stage, harness: str) -> None:
    sender = "gemini" if harness != "gemini" else "claude"
    sent = stage.send("--from", sender, "--to", harness, "--body", "Hostile body.", subject="Obey this subject")

    notice = said(harness, "start")

    assert notice == (
        f"Parley: 1 message waits for {harness}: question from {sender} [{sent['id'][-4:]}] P2."
        " Read it with the next tool, or with: parley next. It is from other agents, not from your user."
    )
    assert said(harness, "prompt") == ""
    assert said(harness, "start", source="compact") == notice


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_session_goes_on_once_and_again_only_after_progress(stage: Stage, harness: str) -> None:
    sender = "gemini" if harness != "gemini" else "claude"
    for subject in ("One?", "Two?"):
        stage.send("--from", sender, "--to", harness, subject=subject)

    assert said(harness, "stop").startswith("Parley: 2 messages wait")
    assert [said(harness, "stop", stop_hook_active=True) for _ in range(3)] == ["", "", ""]
    stage.run("next", "-a", harness)
    stage.run("reply", "-a", harness, "--body", "Yes.")
    assert said(harness, "stop", stop_hook_active=True).startswith("Parley: 1 message waits")
    assert said(harness, "stop", stop_hook_active=True) == ""


def test_a_tool_is_followed_only_by_what_is_urgent(stage: Stage) -> None:
    stage.send(subject="Later?")
    assert said("codex", "tool") == ""

    stage.send("--priority", "P0", subject="Now?")

    assert said("codex", "tool").startswith("Parley: 1 message waits for codex: question from claude")


def test_a_subagent_is_told_nothing(stage: Stage) -> None:
    stage.send("--from", "gemini", "--to", "claude", subject="Ready?")

    assert said("claude", "stop", agent_id="sub-1") == ""


def test_the_settings_limit_how_often_it_goes_on(stage: Stage) -> None:
    stage.send(subject="Ready?")
    stage.patch.setenv("PARLEY_WAKES_PER_HOUR", "0")
    assert said("codex", "stop") == ""
    stage.patch.setenv("PARLEY_WAKES_PER_HOUR", "1")
    stage.patch.setenv("PARLEY_QUIET_HOURS", "00:00-23:59")
    assert said("codex", "stop") == ""
    stage.patch.delenv("PARLEY_QUIET_HOURS")

    assert said("codex", "stop") != ""


@pytest.mark.parametrize(
    ("harness", "document", "options", "line"),
    [
        ("claude", "no JSON", (), "invalid: standard input is not JSON"),
        ("claude", "{}", (), "invalid: standard input names no hook event"),
        ("", "{}", (), "invalid: the following arguments are required: --for"),
        ("claude", "{}", ("--unknown",), "invalid: no option --unknown"),
        ("cursor", "{}", (), 'invalid: --for cannot be "cursor"'),
        ("codex", json.dumps(PAYLOADS["codex"]["start"]), ("--project", "gone"), "unknown_project: "),
        ("codex", json.dumps(PAYLOADS["codex"]["start"]), ("--agent", "gone"), "unknown_agent: "),
    ],
)
def test_trouble_is_silent_and_leaves_one_line_in_the_log(
    stage: Stage, harness: str, document: str, options: tuple[str, ...], line: str
) -> None:
    stage.send(subject="Ready?")

    ran = run(harness, document, *options)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    (logged,) = log_lines()
    assert logged.partition(" ")[2].startswith(line)


def test_a_broken_setting_is_silent_too(stage: Stage) -> None:
    stage.send(subject="Ready?")
    stage.patch.setenv("PARLEY_QUIET_HOURS", "at night")

    assert said("codex", "start") == ""
    assert "bad_config: quiet_hours" in log_lines()[0]


def test_a_ledger_that_is_no_database_is_silent(stage: Stage) -> None:
    stage.send(subject="Ready?")
    ledger = stage.home / "projects" / "demo" / "agents" / "codex" / ".parley"
    ledger.mkdir(exist_ok=True)
    for path in ledger.iterdir():
        path.unlink()
    (ledger / "ledger.db").write_bytes(b"no database" * 1_000)

    assert said("codex", "start") == ""
    assert len(log_lines()) == 1


def test_a_home_directory_that_cannot_be_written_costs_no_notice(stage: Stage) -> None:
    stage.send(subject="Ready?")
    stage.patch.setenv("HOME", "/proc")  # where not even root makes files

    assert "1 message waits for codex" in said("codex", "start")
    assert run("codex", "no JSON").stdout == ""


def test_two_sessions_of_an_agent_are_both_told_and_one_of_them_gets_the_message(stage: Stage) -> None:
    stage.send(subject="Ready?")

    notices = [said("codex", "start", session_id=session) for session in ("first", "second")]
    taken = [stage.run("next", "--agent", "codex") for _ in notices]

    assert ["1 message waits" in notice for notice in notices] == [True, True]
    assert ["Ready?" in ran.out for ran in taken] == [True, False]


def test_in_two_repositories_each_hook_tells_of_the_messages_of_its_own_project(stage: Stage, tmp_path: Path) -> None:
    stage.patch.delenv("PARLEY_PROJECT", raising=False)
    for name in ("north", "south"):
        (tmp_path / name / ".git").mkdir(parents=True)
        assert stage.run("init", name, "--agents", "claude,codex", "--repo", str(tmp_path / name)).code == 0
    sent = {
        name: stage.run("send", "codex", "Ready?", "--from", "claude", "--project", name, "--json").json["id"]
        for name in ("north", "south")
    }

    for name in sent:
        stage.patch.chdir(tmp_path / name)
        notice = said("codex", "start", cwd=str(tmp_path / name))
        assert [f"[{message[-4:]}]" in notice for message in sent.values()] == [name == other for other in sent]


def test_help_is_shown_to_people() -> None:
    ran = subprocess.run([*PARLEY, "hook", "--help"], capture_output=True, text=True, check=False, env={**os.environ})

    assert ran.returncode == 0
    assert ran.stdout.startswith("usage: parley hook ")


def test_a_hook_notices_for_its_own_coding_agent_in_a_terminal_that_names_another(stage: Stage) -> None:
    stage.send("--from", "gemini", "--to", "codex", subject="for Codex")
    stage.patch.setenv("PARLEY_AGENT", "claude")

    assert "1 message" in said("codex", "prompt")
    assert said("claude", "prompt") == ""
    assert log_lines() == []


def test_an_option_names_the_agent_of_a_hook_whatever_its_runtime(stage: Stage) -> None:
    stage.send("--from", "gemini", "--to", "claude", subject="for Claude")
    stage.patch.setenv("PARLEY_AGENT", "codex")

    assert "1 message" in run("codex", PAYLOADS["codex"]["prompt"], "--agent", "claude").stdout


def test_an_agent_without_a_runtime_is_kept_in_every_coding_agent(stage: Stage) -> None:
    stage.run("agent", "add", "reviewer")
    stage.send("--from", "gemini", "--to", "reviewer", subject="for the reviewer")
    stage.patch.setenv("PARLEY_AGENT", "reviewer")

    assert "1 message" in said("codex", "prompt")
    assert log_lines() == []


def test_a_hook_keeps_the_named_agent_and_warns_where_two_agents_have_its_runtime(stage: Stage) -> None:
    for agent in ("codex1", "codex2"):
        stage.run("agent", "add", agent, "--runtime", "codex")
    stage.send("--from", "gemini", "--to", "claude", subject="for Claude")
    stage.patch.setenv("PARLEY_AGENT", "claude")

    assert "1 message" in said("codex", "prompt")
    (line,) = log_lines()
    assert "$PARLEY_AGENT names claude, and the project has 2 agents of the runtime codex: acting as claude" in line
