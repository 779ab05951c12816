"""What tools say to a model, the same wherever they are carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.content.visible import safe
from parley.surfaces.mcp.protocol import ToolResult
from parley.surfaces.mcp.tools import TOOLS

if TYPE_CHECKING:
    from parley.domain.errors.errors import ParleyError

FINISHED = "Finished."
RELEASED = "Released."
NO_ANSWER_YET = "No answer yet; it will come with next."
# No tool searches.
_OR_OTHERS = ", parley outbox, or parley search TEXT"


def nothing_waits(agent: str, yet: str = "") -> str:
    """That there is no message to take."""
    return f"No message for {agent}{f' {yet}' if yet else ''}."


def held_result(why: str) -> ToolResult:
    """A message that waits for a person is no error: there is nothing to do better."""
    return ToolResult(f"Held for a person's approval, not sent: {safe(why)}")


def not_waiting(sent: str, why: str, *, comes_later: bool) -> str:
    """The result of a message that was sent, and whose answer cannot be waited for: no error, or it is sent again."""
    later = " Its answer will come with next." if comes_later else ""
    return f"{sent}\nNot waiting: {safe(why).rstrip('.')}.{later}"


def name_tools(text: str) -> str:
    """A text of an error with the names of tools in place of the commands that do the same."""
    text = text.replace(_OR_OTHERS, "")
    for tool in TOOLS:
        text = text.replace(f"parley {tool['name']}", tool["name"])
    return text


def error_result(error: ParleyError) -> ToolResult:
    """An error and what to do about it, for the model."""
    hint = f" ({safe(name_tools(error.hint))})" if error.hint else ""
    return ToolResult(f"{error.code}: {safe(error.message)}{hint}", is_error=True)
