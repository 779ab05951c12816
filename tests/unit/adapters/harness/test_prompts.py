"""Prompts reach a program by its protocol, and what it asks for is refused unless it is a tool of Parley."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from parley.adapters.harness.program import Program
from parley.adapters.harness.prompts import AcpPrompter, StreamPrompter, is_parley_tool
from parley.domain.errors.errors import Unavailable

# Answers each request with what a line of its source says about it.
ACP = """
import json, sys
answers = {answers}
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] in answers:
        print(json.dumps({{"jsonrpc": "2.0", "id": request.get("id"), **answers[request["method"]]}}), flush=True)
"""
OPENED: dict[str, object] = {"initialize": {"result": {}}, "session/new": {"result": {"sessionId": "s1"}}}


def acp(folder: Path, answers: dict[str, object]) -> tuple[Program, AcpPrompter]:
    program = Program([sys.executable, "-c", ACP.format(answers=answers)], str(folder), dict(os.environ))
    prompter = AcpPrompter(
        program,
        time.monotonic,
        lambda: None,
        cwd=str(folder),
        server=["parley", "mcp"],
        version="1",
        log=lambda _text: None,
    )
    return program, prompter


def test_a_prompt_returns_how_its_turn_ended(tmp_path: Path) -> None:
    program, prompter = acp(tmp_path, {**OPENED, "session/prompt": {"result": {"stopReason": "end_turn"}}})
    prompter.open()

    assert prompter.prompt("T", 30) == "end_turn"
    program.end()


def test_a_refusal_and_a_missing_session_are_told(tmp_path: Path) -> None:
    program, prompter = acp(tmp_path, {"initialize": {"error": {"code": -32000, "message": "Log in first"}}})
    with pytest.raises(Unavailable, match="refused initialize: Log in first"):
        prompter.open()
    program.end()
    program, prompter = acp(tmp_path, {**OPENED, "session/new": {"result": {}}})
    with pytest.raises(Unavailable, match="gave no session"):
        prompter.open()
    program.end()


def test_a_turn_that_does_not_end_is_cancelled(tmp_path: Path) -> None:
    program, prompter = acp(tmp_path, {**OPENED, "session/cancel": {"result": {"cancelled": True}}})
    prompter.open()
    with pytest.raises(Unavailable, match=r"took longer than 0\.1 s"):
        prompter.prompt("T", 0.1)

    assert program.read(30) == {"jsonrpc": "2.0", "id": None, "result": {"cancelled": True}}
    program.end()


def test_lines_of_claude_code_end_with_a_result(tmp_path: Path) -> None:
    code = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    assert json.loads(line)['message']['content'][0]['text'] == 'T'\n"
        "    print(json.dumps({'type': 'assistant'}))\n"
        "    print(json.dumps({'type': 'result', 'subtype': 'success'}), flush=True)"
    )
    program = Program([sys.executable, "-c", code], str(tmp_path), dict(os.environ))
    prompter = StreamPrompter(program, time.monotonic, lambda: None)
    prompter.open()

    assert [prompter.prompt("T", 30) for _ in range(2)] == ["success", "success"]
    program.end()


@pytest.mark.parametrize(
    ("call", "is_own"),
    [
        ({"title": "next (parley MCP Server)", "kind": "other"}, True),
        ({"title": "parley_reply"}, True),
        ({"title": "parley next", "kind": "execute"}, False),
        ({"title": "Edit parley.toml", "kind": "edit"}, False),
        ({"title": "Delete everything", "kind": "other"}, False),
        ({}, False),
    ],
)
def test_a_tool_of_parley_is_known_by_its_kind_and_title(call: dict[str, str], is_own: bool) -> None:
    assert is_parley_tool(call) is is_own
