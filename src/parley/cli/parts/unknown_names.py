"""A note about a name that no registered agent has: it may be meant for later, or be a slip of the pen."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.cli.output import safe
from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    from parley.sdk.blocking.connection import Connection

# What a name is of, the field of an agent that has it, and what it is called.
_FIELDS = {
    "agent": ("agent_id", "agent called"),
    "org": ("org_unit", "agent in the org unit"),
    "team": ("team", "agent in the team"),
    "user": ("user_id", "agent that acts for"),
}
# Where an agent is that nobody has placed, registered or not.
_UNPLACED = {"org": "default"}


def note_unknown(connection: Connection, scope: str, *names: str) -> None:
    """Say on standard error which of the names no registered agent has. What was asked for is done all the same."""
    field, description = _FIELDS[scope]
    with suppress(ParleyError):  # it is only a note
        registered = {agent[field] for agent in connection.get("agents")}
        for name in names:
            if name not in registered and name != _UNPLACED.get(scope):
                sys.stderr.write(f"parley: note: the server knows no {description} {safe(name)}\n")
