"""Parley: agents talk to each other, as plain files, over HTTP, under an organisation's rules."""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` says, without the time that importing it takes
if TYPE_CHECKING:
    from parley.domain.errors import (
        Conflict,
        Forbidden,
        Invalid,
        LeaseLost,
        NotFound,
        ParleyError,
        Problem,
        Unavailable,
        Undelivered,
        UnknownAgent,
        UnknownMessage,
        UnknownProject,
    )
    from parley.domain.governance_errors import Denied, MessageHeld
    from parley.domain.mailbox import Found, Item
    from parley.domain.message import Kind, Message, Priority
    from parley.domain.review import Review
    from parley.sdk.mailbox import Mailbox

__version__ = "0.3.0"

__all__ = [
    "Conflict",
    "Denied",
    "Forbidden",
    "Found",
    "Invalid",
    "Item",
    "Kind",
    "LeaseLost",
    "Mailbox",
    "Message",
    "MessageHeld",
    "NotFound",
    "ParleyError",
    "Priority",
    "Problem",
    "Review",
    "Unavailable",
    "Undelivered",
    "UnknownAgent",
    "UnknownMessage",
    "UnknownProject",
]

_HOMES = {
    "Denied": "parley.domain.governance_errors",
    "Found": "parley.domain.mailbox",
    "Item": "parley.domain.mailbox",
    "Kind": "parley.domain.message",
    "Mailbox": "parley.sdk.mailbox",
    "Message": "parley.domain.message",
    "MessageHeld": "parley.domain.governance_errors",
    "Priority": "parley.domain.message",
    "Review": "parley.domain.review",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: a command that lists files pays for nothing else."""
    if name not in __all__:
        raise AttributeError(f"module 'parley' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "parley.domain.errors")), name)
