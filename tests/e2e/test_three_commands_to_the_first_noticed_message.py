"""From a clone of somebody's repository to the first message that a coding agent notices: three commands."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.terminal import Person
from tests.samples.hook_payloads import PAYLOADS

# What the person types, after `git clone`.
COMMANDS = ("parley init", "parley setup --yes", "parley send {to} 'Which schema is current?' --from {sender}")


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """Somebody who has three coding agents, and a clone of a repository with instructions and settings of its owner."""
    (tmp_path / "bin").mkdir()
    for command in ("claude", "codex", "gemini"):
        (tmp_path / "bin" / command).touch(mode=0o755)
    theirs = tmp_path / "theirs"
    (theirs / ".claude").mkdir(parents=True)
    (theirs / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash(make:*)"]}}\n')
    (theirs / "CLAUDE.md").write_text("# Theirs\n")
    git = ["git", "-C", str(theirs), "-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", "init", "-q", str(theirs)], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Begin"], check=True)
    subprocess.run(["git", "clone", "-q", str(theirs), str(tmp_path / "app")], check=True)
    return Person(tmp_path)


def hook_command(app: Path, harness: str, event: str) -> str:
    """The command that the coding agent finds in its settings for an event."""
    file = {"claude": ".claude/settings.local.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json"}
    groups: list[dict[str, Any]] = json.loads((app / file[harness]).read_text())["hooks"][event]
    commands: list[str] = [hook["command"] for group in groups for hook in group["hooks"] if "async" not in str(hook)]
    return next(command for command in commands if " hook --for " in command)


def run_by_program(person: Person, command: str, cwd: Path, stdin: str) -> str:
    """What a coding agent gets from a command that it runs through pipes."""
    environment = person._environment
    ran = subprocess.run(
        ["sh", "-c", command], input=stdin, cwd=cwd, env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    return ran.stdout


@pytest.mark.parametrize(("harness", "sender"), [("claude", "codex"), ("codex", "claude"), ("gemini", "claude")])
def test_a_coding_agent_notices_takes_and_answers_its_first_message(person: Person, harness: str, sender: str) -> None:
    app = person.home / "app"

    # When the person types three commands in the clone
    for command in COMMANDS:
        person.type(command.format(to=harness, sender=sender), cwd=app)
    assert len(person.typed) == 3

    # Then the coding agent is told at its start, by the command in its own settings
    event = {**PAYLOADS[harness]["start"], "cwd": str(app)}
    command = hook_command(app, harness, event["hook_event_name"])
    printed = run_by_program(person, command, app, json.dumps(event))
    notice = json.loads(printed)["hookSpecificOutput"]["additionalContext"]
    assert notice.startswith(f"Parley: 1 message waits for {harness}: question from {sender} [")
    assert "schema" not in notice

    # And its model takes and answers the message with the tools
    calls = [("next", {}), ("reply", {"text": "v2.3"})]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": {"name": name, "arguments": given}})
        for at, (name, given) in enumerate(calls)
    ]
    server = f"{shlex.split(command)[0]} mcp --for {harness}"
    answers = [json.loads(line) for line in run_by_program(person, server, app, "\n".join(lines)).splitlines()]
    texts = [answer["result"]["content"][0]["text"] for answer in answers]
    assert "\nWhich schema is current?\n---" in texts[0]
    assert texts[1] == f"Sent to {sender} as notification, and finished the message."

    # And nothing of it is offered for a commit
    status = ["git", "-C", str(app), "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""
    person.type("parley setup --remove --yes", cwd=app)
    left = [path.relative_to(app).as_posix() for path in app.rglob("*") if path.is_file() and ".git/" not in str(path)]
    assert sorted(left) == [".claude/settings.json", "CLAUDE.md"]
