"""What a handler was called with, for what it says meanwhile: the intent and the trace of its message."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# The intent on which the handler that runs now was called.
current_intent: ContextVar[str] = ContextVar("current_intent", default="")
# The trace of the message that the handler was called with: what the handler says belongs to it, too.
current_trace: ContextVar[str] = ContextVar("current_trace", default="")


def with_trace(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Metadata with the trace of the message that is handled now, unless it names one; None when there is nothing."""
    trace = current_trace.get()
    return {**({"trace_id": trace} if trace else {}), **(metadata or {})} or None
