"""The arguments of tools, read the same way wherever a tool is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid
from parley.domain.message.kinds import KINDS
from parley.domain.message.message import PRIORITIES
from parley.surfaces.mcp.tools import WAIT_MAX_SECONDS
from parley.wire.model_text import check_budget

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from parley.domain.message.kinds import Kind, Priority
    from parley.domain.message.message import Body, Value


def budget_of(arguments: Mapping[str, Any]) -> int:
    """The most tokens to return; 0: all."""
    budget: int = arguments.get("budget", 0)
    if budget < 0:
        raise Invalid("budget must be a number of tokens")
    check_budget(budget)
    return budget


def wait_of(arguments: Mapping[str, Any]) -> float:
    """How many seconds to wait, at most so many as clients do."""
    return float(min(max(0, arguments.get("wait", 0)), WAIT_MAX_SECONDS))


def kind_of(arguments: Mapping[str, Any]) -> Kind | None:
    """The type of message that was asked for."""
    name = arguments.get("type", "")
    if name and name not in KINDS:
        raise Invalid(f"no type {name!r}", hint=f"one of {', '.join(KINDS)}")
    return KINDS[name] if name else None


def priority_of(arguments: Mapping[str, Any]) -> Priority | None:
    """The priority that was asked for."""
    priority = arguments.get("priority", "").upper()
    if priority and priority not in PRIORITIES:
        raise Invalid(f"priority must be P0, P1, P2 or P3, not {priority!r}")
    return PRIORITIES[priority] if priority else None


def body_of(arguments: Mapping[str, Any]) -> Body:
    """A text, or fields."""
    text: str = arguments.get("text", "")
    fields: dict[str, Value] = arguments.get("fields", {})
    if bool(text) == bool(fields):
        raise Invalid("give text, or fields")
    return fields or text
