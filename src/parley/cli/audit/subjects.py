"""Describe in a few words what an administrative entry of the audit log is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.agents.party import PAIR_MARK

if TYPE_CHECKING:
    from collections.abc import Mapping


def subject_of(document: Mapping[str, Any]) -> str:
    """What an administrative entry is about; empty for entries of an exchange."""
    action, fact = document.get("action"), {name: str(value) for name, value in document.items()}.get
    if action == "policy_changed":
        return f"{fact('document') or 'all documents'}: now {fact('new')}"
    if action == "agent_placed":
        place = f"for {fact('user_id')}, in {fact('org_unit')}, up to {fact('max_classification')}"
        return f"agent {fact('agent')}: {place}"
    if action in ("suspended", "suspension_lifted"):
        kind = fact("what", "").replace("_", " ")
        return f"{kind} {fact('name', '').replace(PAIR_MARK, ' and ')}".strip()
    if action == "approval_link_created":
        return f"approval {fact('approval')}"
    if action in ("login_link_created", "session_started", "session_ended"):
        return f"sign-in of {fact('user_id') or 'key ' + fact('of_key', fact('key', ''))}"
    if "made_key" in document:
        whose = fact("user_id") or fact("agent_id")
        return f"{fact('kind', 'human')} key" + (f" of {whose}" if whose else "")
    if "did" in document:
        return f"signing key of {fact('agent_id')}"
    if action == "content_erased":
        return f"conversation {fact('conversation_id')}" if "conversation_id" in document else f"by {fact('agent_id')}"
    return f"entries up to {fact('through')}" if action == "audit_let_go" else ""
