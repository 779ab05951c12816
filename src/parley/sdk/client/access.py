"""Access to intents: who has it, who wants it, who gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.client.area import AsyncArea
from parley.sdk.client.fields import lists_of, timestamp_of, without_none
from parley.wire.api.records.intents import AccessList, AccessRequest, AccessRequestList, Grant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.sdk.client.fields import Moment


def _entry(entry: Mapping[str, Any] | Grant) -> dict[str, Any]:
    """An entry as the server takes it; the rest of a `Grant` is the server's to say."""
    fields = {name: entry.get(name) for name in ("principal_id", "principal_type", "permission", "reason")}
    return without_none(**fields, expires_at=timestamp_of(entry.get("expires_at")))


class AsyncAccess(AsyncArea):
    """What a client does with access lists."""

    async def get_acl(self, intent_id: str) -> AccessList:
        """Who has access to an intent."""
        return await self._fetch(AccessList, "GET", "intents", intent_id, "acl")

    async def set_acl(
        self, intent_id: str, default_policy: str = "open", entries: Iterable[Mapping[str, Any] | Grant] = ()
    ) -> AccessList:
        """Replace the access list of an intent.

        `default_policy` is "open" (everybody) or "closed" (only those listed). An entry is a `Grant`, or a mapping with
        the parameters of `grant_access`.
        """
        body = {"default_policy": default_policy, "entries": [_entry(entry) for entry in entries]}
        return await self._fetch(AccessList, "PUT", "intents", intent_id, "acl", body=body)

    async def grant_access(
        self,
        intent_id: str,
        principal_id: str,
        permission: str = "read",
        *,
        principal_type: str = "agent",
        reason: str | None = None,
        expires_at: Moment | None = None,
    ) -> Grant:
        """Give somebody access to an intent: "read", "write" or "admin"."""
        body = without_none(principal_id=principal_id, permission=permission, principal_type=principal_type)
        body |= without_none(reason=reason, expires_at=timestamp_of(expires_at))
        return await self._fetch(Grant, "POST", "intents", intent_id, "acl", "entries", body=body)

    async def revoke_access(self, intent_id: str, entry_id: str) -> None:
        """Take an entry off the access list, by its id."""
        await self._tell("DELETE", "intents", intent_id, "acl", "entries", entry_id)

    async def request_access(
        self,
        intent_id: str,
        requested_permission: str = "read",
        reason: str | None = None,
        *,
        principal_id: str | None = None,
        principal_type: str = "agent",
        capabilities: Iterable[str] | None = None,
    ) -> AccessRequest:
        """Ask for access to an intent."""
        body = without_none(requested_permission=requested_permission, reason=reason, principal_id=principal_id)
        body |= without_none(principal_type=principal_type) | lists_of(capabilities=capabilities)
        path = ("intents", intent_id, "access-requests")
        return await self._fetch(AccessRequest, "POST", *path, body=body)

    async def list_access_requests(self, intent_id: str) -> list[AccessRequest]:
        """Who asked for access to an intent, and what became of it."""
        page = await self._fetch(AccessRequestList, "GET", "intents", intent_id, "access-requests")
        return page.access_requests

    async def approve_access(
        self,
        intent_id: str,
        request_id: str,
        *,
        permission: str | None = None,
        expires_at: Moment | None = None,
        reason: str | None = None,
    ) -> AccessRequest:
        """Let somebody in who asked, perhaps to less than was asked for, or for a while."""
        body = without_none(permission=permission, expires_at=timestamp_of(expires_at), reason=reason)
        path = ("intents", intent_id, "access-requests", request_id, "approve")
        return await self._fetch(AccessRequest, "POST", *path, body=body)

    async def deny_access(self, intent_id: str, request_id: str, *, reason: str | None = None) -> AccessRequest:
        """Do not let somebody in who asked."""
        path = ("intents", intent_id, "access-requests", request_id, "deny")
        return await self._fetch(AccessRequest, "POST", *path, body=without_none(reason=reason))
