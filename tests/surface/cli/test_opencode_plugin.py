"""The plugin for OpenCode, as setup writes it, in a JavaScript runtime with a host that plays OpenCode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.surface.stage import Stage

HOST = Path(__file__).resolve().parents[2] / "rigs" / "opencode_host.mjs"
SESSION = "ses_1"


class Host:
    """OpenCode, as far as a plugin sees it."""

    def __init__(self, plugin: Path, here: Path) -> None:
        self.process = subprocess.Popen(
            ["node", str(HOST), str(plugin)], cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.requests: list[dict[str, Any]] = []
        self.ready = self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def call(self, name: str, *values: object) -> list[Any]:
        """Call a hook of the plugin, and return its arguments as they are after that."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, *values]) + "\n")
        self.process.stdin.flush()
        while "called" not in (answer := self._read()):
            self.requests.append(answer)
        values_after: list[Any] = answer["values"]
        return values_after

    def event(self, kind: str, **properties: object) -> None:
        self.call("event", {"event": {"type": kind, "properties": properties}})

    def idle(self, session: str = SESSION) -> None:
        self.event("session.idle", sessionID=session)

    def prompt(self, session: str = SESSION) -> None:
        self.call("chat.message", {"sessionID": session}, {})

    def tool(self, session: str = SESSION) -> str:
        """What the model gets as the result of a tool."""
        output: str = self.call("tool.execute.after", {"sessionID": session, "tool": "bash"}, {"output": "ok"})[1][
            "output"
        ]
        return output

    def mcp_tool(self) -> list[str]:
        """What the model gets as the result of a tool of an MCP server: texts of its parts."""
        content = [{"type": "text", "text": "ok"}]
        after = self.call("tool.execute.after", {"sessionID": SESSION, "tool": "parley_agents"}, {"content": content})
        return [part["text"] for part in after[1]["content"]]

    def next_request(self) -> dict[str, Any]:
        return self.requests.pop(0) if self.requests else self._read()

    def close(self) -> None:
        self.process.communicate(timeout=60)


def require_node() -> None:
    """Skip without a JavaScript runtime at home; in CI it must be there."""
    if which("node"):
        return
    if os.environ.get("CI"):
        pytest.fail("node is missing")
    pytest.skip("node is missing")


@pytest.fixture
def host(stage: Stage, tmp_path: Path) -> Iterator[Host]:
    require_node()
    stage.patch.setenv("HOME", str(tmp_path))
    stage.patch.delenv("XDG_STATE_HOME", raising=False)
    stage.run("agent", "add", "opencode")
    # The command that setup names is the one that runs: a `parley` of this very source.
    command = tmp_path / "bin" / "parley"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m parley.cli.main "$@"\n')
    command.chmod(0o755)
    subprocess.run(["git", "init", "-q", str(stage.here)], check=True)
    stage.patch.setattr(sys, "argv", [str(command)])
    stage.patch.setenv("PARLEY_PROJECT", "demo")
    assert stage.run("setup", "opencode", "--yes").code == 0
    plugin = tmp_path / "parley.mjs"
    plugin.write_text((stage.here / ".opencode" / "plugin" / "parley.js").read_text())
    made = Host(plugin, stage.here)
    assert made.ready == {"ready": ["chat.message", "event", "tool.execute.after"]}
    yield made
    made.close()


def send(stage: Stage, *options: str, subject: str = "Obey this subject") -> str:
    sent: str = stage.send(*options, to="opencode", subject=subject)["id"]
    return sent


def text_of(request: dict[str, Any], session: str = SESSION) -> str:
    assert request["request"] == f"POST /session/{session}/prompt_async"
    (part,) = request["body"]["parts"]
    assert part["type"] == "text"
    text: str = part["text"]
    assert "Obey" not in text
    return text


def test_an_idle_session_is_woken_without_a_word_of_the_message(stage: Stage, host: Host) -> None:
    host.prompt()
    host.idle()
    sent = send(stage)

    text = text_of(host.next_request())

    assert text.startswith(f"Parley: 1 message waits for opencode: question from claude [{sent[-4:]}] P2.")
    assert text.endswith("It is from other agents, not from your user.")


def test_the_first_tool_of_a_turn_is_followed_by_all_that_waits_and_others_by_what_is_urgent(
    stage: Stage, host: Host
) -> None:
    host.prompt()
    assert host.tool() == "ok"
    send(stage)
    assert host.tool() == "ok"
    host.prompt()
    assert host.tool().startswith("ok\n\nParley: 1 message waits for opencode")
    send(stage, "--priority", "P0")
    assert "P0" in host.tool()
    assert host.tool() == "ok"


def test_a_tool_of_an_mcp_server_is_followed_by_a_notice_and_an_unknown_result_uses_none_up(
    stage: Stage, host: Host
) -> None:
    host.prompt()
    send(stage)

    host.call("tool.execute.after", {"sessionID": SESSION, "tool": "odd"}, {"title": "no text"})
    first, notice = host.mcp_tool()

    assert first == "ok"
    assert notice.startswith("Parley: 1 message waits for opencode")
    assert host.mcp_tool() == ["ok"]


def test_a_session_goes_on_once_for_what_needs_an_answer_and_then_only_after_progress(stage: Stage, host: Host) -> None:
    host.prompt()
    send(stage)
    send(stage)
    host.idle()
    assert text_of(host.next_request()).startswith("Parley: 2 messages wait")
    host.prompt()
    host.idle()
    assert host.requests == []
    host.prompt()
    stage.run("next", "-a", "opencode")
    stage.run("reply", "-a", "opencode", "--body", "Yes.")
    host.idle()

    assert text_of(host.next_request()).startswith("Parley: 1 message waits")


def test_a_session_that_its_user_interrupted_does_not_go_on(stage: Stage, host: Host) -> None:
    host.prompt()
    send(stage)
    host.event("session.error", sessionID=SESSION, error={"name": "MessageAbortedError"})
    host.call("event", {"event": {"type": "session.idle", "properties": {"sessionID": SESSION}}})

    # It is woken later, as any idle session is: by the waiter, not by the stop.
    assert host.requests == []


def test_a_subagent_is_told_nothing(stage: Stage, host: Host) -> None:
    host.event("session.created", info={"id": "child", "parentID": SESSION})
    send(stage)
    host.prompt("child")

    assert host.tool("child") == "ok"
    host.idle("child")
    assert host.requests == []


def test_a_moved_parley_is_no_trouble(stage: Stage, host: Host, tmp_path: Path) -> None:
    send(stage)
    (tmp_path / "bin" / "parley").unlink()
    host.prompt()

    assert host.tool() == "ok"
    host.idle()
    host.event("session.deleted", info={"id": SESSION})
    assert host.requests == []


def test_a_plugin_of_somebody_else_stays_and_our_own_is_removed_though_it_was_changed(stage: Stage, host: Host) -> None:
    del host
    plugin = stage.here / ".opencode" / "plugin" / "parley.js"
    plugin.write_text(plugin.read_text() + "// a change\n")
    assert stage.run("setup", "opencode", "--remove", "--yes").code == 0
    assert not plugin.parent.exists()
    plugin.parent.mkdir(parents=True)
    plugin.write_text("export const Mine = 1\n")

    assert "parley.js is not Parley's" in stage.run("setup", "opencode", "--yes").out
    assert plugin.read_text() == "export const Mine = 1\n"
