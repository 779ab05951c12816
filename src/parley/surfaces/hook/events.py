"""The hook events of coding agents: from the document on standard input to an event, and from a notice to the document
on standard output. One command serves every event, because the document names it.

| event | Claude Code | Codex, and OpenCode by its plugin | Gemini CLI |
|---|---|---|---|
| start | SessionStart | SessionStart | SessionStart |
| prompt | UserPromptSubmit | UserPromptSubmit | BeforeAgent |
| tool | PostToolBatch | PostToolUse | AfterTool |
| stop | Stop | Stop | AfterAgent |
| end | SessionEnd | SessionEnd | SessionEnd |
| file | FileChanged | - | - |
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid
from parley.domain.hashes import digest
from parley.domain.mailbox.hook_events import HookEvent, Moment, contains_notice, refs_in_notice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HARNESSES = ("claude", "codex", "gemini", "opencode")
_CODEX_MOMENTS: Mapping[str, Moment] = {
    "SessionStart": Moment.START,
    "UserPromptSubmit": Moment.PROMPT,
    "PostToolUse": Moment.TOOL,
    "Stop": Moment.STOP,
    "SessionEnd": Moment.END,
}
_MOMENTS: Mapping[str, Mapping[str, Moment]] = {
    "claude": {
        "SessionStart": Moment.START,
        "UserPromptSubmit": Moment.PROMPT,
        "PostToolBatch": Moment.TOOL,
        "Stop": Moment.STOP,
        "SessionEnd": Moment.END,
        "FileChanged": Moment.FILE,
    },
    "codex": _CODEX_MOMENTS,
    "opencode": _CODEX_MOMENTS,
    "gemini": {
        "SessionStart": Moment.START,
        "BeforeAgent": Moment.PROMPT,
        "AfterTool": Moment.TOOL,
        "AfterAgent": Moment.STOP,
        "SessionEnd": Moment.END,
    },
}
_NAMES = {harness: {moment: name for name, moment in moments.items()} for harness, moments in _MOMENTS.items()}
_TURNS = {"claude": "prompt_id", "codex": "turn_id", "opencode": "turn_id"}
_PATH_CHARS = 1_000
# Where each says what the model said last. The end of a turn of OpenCode may be one that failed.
_ANSWERS = {"claude": "last_assistant_message", "codex": "last_assistant_message", "gemini": "prompt_response"}
_FINGERPRINT_CHARS = 16


def read_event(document: bytes, harness: str) -> HookEvent | None:
    """The event of a document; None for one that does not concern the inbox: a subagent's, and others.

    Raises `Invalid` for what is no document of a hook.
    """
    try:
        fields: Any = json.loads(document)
    except (ValueError, RecursionError):
        raise Invalid("standard input is not JSON") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("hook_event_name"), str):
        raise Invalid("standard input names no hook event")
    moment = _MOMENTS[harness].get(fields["hook_event_name"])
    if moment is None or fields.get("agent_id"):
        return None
    names = ("session_id", _TURNS.get(harness, ""), "source", "cwd")
    session, turn, source, cwd = (value if isinstance(value := fields.get(name), str) else "" for name in names)
    is_attended = fields.get("attended") is not False
    prompt = fields.get("prompt")
    return HookEvent(
        harness,
        moment,
        session,
        turn,
        source,
        fields.get("stop_hook_active") is True,
        cwd[:_PATH_CHARS],
        is_attended,
        fingerprint=_fingerprint(fields),
        carries_notice=isinstance(prompt, str) and contains_notice(prompt),
        carried_refs=refs_in_notice(prompt) if isinstance(prompt, str) else frozenset(),
        answered=harness in _ANSWERS and bool(fields.get(_ANSWERS[harness], True)),
    )


def _fingerprint(fields: Mapping[str, Any]) -> str:
    """What tells an event from others: all that was said about it but the time. Two hooks of one event get the same."""
    fields_of_event = {name: value for name, value in fields.items() if name != "timestamp"}
    return digest(json.dumps(fields_of_event, sort_keys=True).encode())[:_FINGERPRINT_CHARS]


def notice_document(event: HookEvent, text: str, *, goes_on: bool = False, watched: str = "") -> str:
    """What a coding agent reads on standard output. `watched` is a folder whose changes are events for Claude Code."""
    if goes_on and event.harness != "claude":
        return json.dumps({"decision": "block", "reason": text})
    # Claude Code would show the reason of a block twice.
    name = _NAMES[event.harness][event.moment]
    context = {"additionalContext": text} if text else {}
    paths = {"watchPaths": [watched]} if watched else {}
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, **context, **paths}})
