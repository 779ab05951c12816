"""What real coding agents gave to hooks and to the MCP server, as `tests.harness.record` wrote it down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded")
RECORDED_AGENTS = ("claude", "codex", "gemini", "opencode")


def load(name: str) -> dict[str, Any]:
    """The record of a coding agent: `program`, `version`, `hook_events` and `mcp`, the lines of one client."""
    document: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return document
