"""`parley audit state`: how far the server has signed and verified its audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import add_server_options, connection_of, utc_text
from parley.domain.errors.errors import Problem
from parley.domain.errors.rules import LogChanged

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection


def _add_state(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "The server recomputes the hashes, chains and checkpoints of its own log. To\n"
        "verify it without trusting the server: parley audit verify. Exit code 13: an\n"
        "entry was changed or is missing."
    )


def _state(args: argparse.Namespace) -> int:
    state = _complete_state(connection_of(args, agent=False))
    screen = screen_of(args)
    if args.json:
        screen.json(state)
    else:
        _show_state(screen, state)
    if state["broken_at"]:
        why = f"number {state['broken_at']}: {state['reason']}"
        raise LogChanged.because([Problem("chain_broken", "audit log", why)])
    return OK


def _complete_state(connection: Connection) -> Mapping[str, Any]:
    """Ask until the server has checked all entries, which it does piece by piece."""
    checked = -1
    while True:
        state: dict[str, Any] = connection.get("audit", "state")
        if state["broken_at"] or state["verified_to"] >= state["size"] or state["verified_to"] == checked:
            return state
        checked = state["verified_to"]


def _show_state(screen: Screen, state: Mapping[str, Any]) -> None:
    if not state["size"]:
        screen.prose("The audit log has no entries yet.")
        return
    size = count_of(state["size"], "entry", "entries")
    intact = f"{screen.paint('broken', 'red')} at entry {state['broken_at']}" if state["broken_at"] else "intact"
    screen.prose(f"{size}, verified to {state['verified_to']}: {intact}")
    if state["signed_size"]:
        key = f" by key {safe(state['key_id'])}" if state["key_id"] else ""
        screen.prose(f"Signed to {state['signed_size']} at {utc_text(state['signed_at'])}{key}")
    else:
        screen.prose("Not signed yet: a checkpoint follows within a few seconds.")


COMMANDS = {
    "audit state": Command(
        "Show how far the audit log is signed and verified",
        _add_state,
        _state,
        ("parley audit state", "parley audit state --json"),
    ),
}
