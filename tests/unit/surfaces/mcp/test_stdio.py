"""MCP on standard input and output: a bug in one call is answered and logged."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from parley.cli.attention.limits import hook_log
from parley.cli.attention.mcp import _log_bug
from parley.surfaces.mcp.protocol import ToolResult, ToolServer
from parley.surfaces.mcp.stdio import LineInput, serve


def call_of(number: int, tool: str) -> bytes:
    params = {"name": tool, "arguments": {}}
    request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(request).encode() + b"\n"


def use(tool: str, _arguments: Mapping[str, Any]) -> ToolResult:
    if tool == "broken":
        raise ZeroDivisionError("a secret\nof the message")
    return ToolResult("fine")


def test_a_bug_in_a_tool_is_answered_and_logged_and_the_next_call_is_answered() -> None:
    reading, writing = os.pipe()
    os.write(writing, call_of(1, "broken") + call_of(2, "good"))
    os.close(writing)
    answers: list[dict[str, Any]] = []
    logged: list[Exception] = []
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("broken", "good")]

    serve(
        LineInput(reading),
        lambda line: answers.append(json.loads(line)),
        ToolServer("1", "", tools, use),
        logged.append,
    )
    os.close(reading)

    assert [(answer["id"], "error" in answer) for answer in answers] == [(1, True), (2, False)]
    assert answers[0]["error"]["code"] == -32603
    assert [type(error) for error in logged] == [ZeroDivisionError]


def test_a_bug_is_one_line_of_the_log_of_hooks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    _log_bug(ZeroDivisionError("division\nby zero"))
    hook_log().write("other: line")

    first, second = (tmp_path / "parley" / "hook.log").read_text(encoding="utf-8").splitlines()
    assert first.partition(" ")[2] == "mcp: internal: ZeroDivisionError: division\\nby zero"
    assert second.endswith(" other: line")
