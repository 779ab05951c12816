"""Check filters of the audit log that select nothing: the value may be a typing error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.audit.entry import TENANT_SIDE
from parley.domain.errors.errors import Forbidden, Invalid, NotFound
from parley.domain.exchange.exchange import Outcome
from parley.domain.names import meant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.sdk.blocking.connection import Connection

ACTIONS = (
    "agent_exchange",
    "agent_exchange_ended",
    "agent_exchange_withdrawn",
    "approval_told",
    "approval_decided",
    "policy_changed",
    "agent_placed",
    "suspended",
    "suspension_lifted",
    "key_created",
    "key_rotated",
    "key_revoked",
    "session_started",
    "session_ended",
    "login_link_created",
    "approval_link_created",
    "identity_registered",
    "identity_rotated",
    "content_erased",
    "audit_let_go",
)
OUTCOMES = ("delivered", "held", *[outcome.value for outcome in Outcome])


def check_word(word: str, choices: Iterable[str], option: str) -> None:
    """Refuse a word that no entry has."""
    choices = list(choices)
    if word and word not in choices:
        raise Invalid(f'{option}: no entry has "{word}"', hint=meant(word, choices) or f"use {', '.join(choices)}")


def check_side(connection: Connection, name: str, option: str) -> None:
    """Refuse a name that has no entries and that the directory does not know."""
    if not name or name == TENANT_SIDE or connection.get("audit", query={"side": name, "limit": 1})["entries"]:
        return
    try:
        agents = connection.get("agents")
    except Forbidden:
        return
    names = {agent[field] for agent in agents for field in ("agent_id", "user_id") if agent.get(field)}
    if name not in names:
        hint = meant(name, sorted(names)) or "see: parley agent list --server"
        raise NotFound(f'{option}: no agent "{name}", and no entries of it', hint=hint)
