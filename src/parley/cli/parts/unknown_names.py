"""Print a note about a name that no registered agent has, since it may be a typing error."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from parley.cli.reports import note
from parley.domain.errors.errors import ParleyError
from parley.domain.names import meant

if TYPE_CHECKING:
    from parley.sdk.blocking.connection import Connection

# Kind of name -> the field of an agent that has it, and a description.
_FIELDS = {
    "agent": ("agent_id", "agent"),
    "org": ("org_unit", "agent in org unit"),
    "team": ("team", "agent in team"),
    "user": ("user_id", "agent acting for"),
}
# The org unit of agents without one, registered or not.
_UNPLACED = {"org": "default"}


def note_similar(connection: Connection, agent: str) -> None:
    """Print on standard error that nobody is registered under a name, when registered agents have a similar one."""
    from parley.domain.names import near_misses, suggestion

    with suppress(ParleyError):  # it is only a note
        registered = {str(record["agent_id"]) for record in connection.get("agents")}
        similar = near_misses(agent, registered, 2)
        if agent not in registered and similar:
            note(f'no agent "{agent}" is registered yet ({suggestion(similar)})')


def note_unknown(connection: Connection, scope: str, *names: str) -> None:
    """Print on standard error which names no registered agent has; the command goes on."""
    field, description = _FIELDS[scope]
    with suppress(ParleyError):  # it is only a note
        registered = {agent[field] for agent in connection.get("agents")}
        for name in names:
            if name not in registered and name != _UNPLACED.get(scope):
                note(f"no registered {description} {name}", meant(name, sorted(filter(None, registered))))
