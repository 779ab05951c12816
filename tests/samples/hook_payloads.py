"""What coding agents write to the standard input of a hook, one recorded document for each event.

Events without a recording have the fields that every event of that program has; those of OpenCode are its plugin's.
"""

from __future__ import annotations

from typing import Any

from tests.samples.recorded_agents import load

Payload = dict[str, Any]

_EVENTS = {
    "claude": {"start": "SessionStart", "prompt": "UserPromptSubmit", "tool": "PostToolBatch", "stop": "Stop"},
    "codex": {"start": "SessionStart", "prompt": "UserPromptSubmit", "tool": "PostToolUse", "stop": "Stop"},
    "gemini": {"start": "SessionStart", "prompt": "BeforeAgent", "tool": "AfterTool", "stop": "AfterAgent"},
}


def _first(harness: str, name: str) -> Payload:
    events: list[Payload] = load(harness)["hook_events"]
    return next(event for event in events if event["hook_event_name"] == name)


_COMMON = {"session_id", "transcript_path", "cwd"}
_OPENCODE: Payload = {"session_id": "ses_5f3a1b", "cwd": "/home/me/app", "turn_id": "1", "attended": True}
# Harness -> start, prompt, tool, stop, end; for Claude Code a file that has changed, too.
PAYLOADS: dict[str, dict[str, Payload]] = {
    harness: {moment: _first(harness, name) for moment, name in events.items()} for harness, events in _EVENTS.items()
}
for _harness, _events in PAYLOADS.items():
    _fields = {name: value for name, value in _events["stop"].items() if name in _COMMON}
    _events["end"] = {**_fields, "hook_event_name": "SessionEnd", "reason": "exit"}
PAYLOADS["claude"]["file"] = {
    **{name: value for name, value in PAYLOADS["claude"]["stop"].items() if name in _COMMON},
    "hook_event_name": "FileChanged",
    "file_path": "/home/me/oacp/projects/app/agents/claude/inbox/x.yaml",
}
PAYLOADS["opencode"] = {
    "start": {**_OPENCODE, "hook_event_name": "SessionStart", "source": "startup"},
    "prompt": {**_OPENCODE, "hook_event_name": "UserPromptSubmit"},
    "tool": {**_OPENCODE, "hook_event_name": "PostToolUse"},
    "stop": {**_OPENCODE, "hook_event_name": "Stop", "stop_hook_active": False},
    "end": {**_OPENCODE, "hook_event_name": "SessionEnd"},
}
