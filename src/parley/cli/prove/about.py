"""What an entry on the tenant's own side of the audit log is about, in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.agents.party import PAIR_MARK

if TYPE_CHECKING:
    from collections.abc import Mapping


def about(document: Mapping[str, Any]) -> str:
    """Whom or what those who rule have changed; empty for entries of an exchange."""
    action, said = document.get("action"), {name: str(value) for name, value in document.items()}.get
    if action == "policy_changed":
        return f"{said('document') or 'all documents'}: now {said('new')}"
    if action == "agent_placed":
        place = f"for {said('user_id')}, in {said('org_unit')}, up to {said('max_classification')}"
        return f"agent {said('agent')}: {place}"
    if action in ("suspended", "suspension_lifted"):
        kind = said("what", "").replace("_", " ")
        return f"{kind} {said('name', '').replace(PAIR_MARK, ' and ')}".strip()
    if "made_key" in document:
        return f"key of {said('user_id')}"
    if action == "content_erased":
        return f"conversation {said('conversation_id')}" if "conversation_id" in document else f"by {said('agent_id')}"
    return f"entries up to {said('through')}" if action == "audit_let_go" else ""
