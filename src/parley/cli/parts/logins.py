"""What commands about saved logins share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.reports import note
from parley.domain.logins import Login

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.settings import Settings


def login_from(holder: Mapping[str, Any], url: str, key: str) -> Login:
    """A login of a key, as the server describes the key; without a name."""
    return Login(
        "",
        url,
        key,
        kind=str(holder["kind"]),
        tenant=str(holder["tenant_id"]),
        agent=str(holder.get("agent_id") or ""),
        user=str(holder.get("user_id") or ""),
        expires_at=str(holder.get("expires_at") or ""),
        key_id=str(holder.get("key_id") or holder.get("id") or ""),
    )


def holder_of(holder: Mapping[str, Any]) -> str:
    """Whose key it is, in a few words."""
    return login_from(holder, "", "").holder


def note_overrides(settings: Settings) -> None:
    """Say on standard error which settings go before a saved login."""
    names = [value.source for value in settings.sources if value.name in ("url", "key", "context") and value.value]
    sources = sorted({source for source in names if source not in ("default", "flag")})
    if sources:
        note(f"{' and '.join(sources)} goes before saved logins")


def note_replaced(before: Login | None, key_id: str) -> None:
    """Say on standard error that a context had another key, which nobody has revoked."""
    if before is not None and before.key_id and before.key_id != key_id:
        note(
            f'context "{before.name}" had key {before.key_id} until now; that key stays valid',
            f"end it with: parley key revoke {before.key_id}",
        )
