"""Access to intents: who has it, who wants it, who gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from parley.sdk.client.session import AsyncSession, Session, fetch, given, spelled, tell
from parley.sdk.records.channels import AccessList, AccessRequest, Grant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.sdk.client.session import Moment
    from parley.sdk.protocol.flow import Flow, Speaker


class _Requests(msgspec.Struct):
    access_requests: list[AccessRequest]


def _entry(one: Mapping[str, Any] | Grant) -> dict[str, Any]:
    """An entry as the server takes it; the rest of a `Grant` is the server's to say."""
    fields = {name: one.get(name) for name in ("principal_id", "principal_type", "permission", "reason")}
    return given(**fields, expires_at=spelled(one.get("expires_at")))


def _set(
    speaker: Speaker, intent_id: str, default_policy: str, entries: Iterable[Mapping[str, Any] | Grant]
) -> Flow[AccessList]:
    body = {"default_policy": default_policy, "entries": [_entry(one) for one in entries]}
    return fetch(speaker, AccessList, "PUT", "intents", intent_id, "acl", body=body)


def _requests(speaker: Speaker, intent_id: str) -> Flow[list[AccessRequest]]:
    return (yield from fetch(speaker, _Requests, "GET", "intents", intent_id, "access-requests")).access_requests


def _decide(speaker: Speaker, intent_id: str, request_id: str, what: str, body: dict[str, Any]) -> Flow[AccessRequest]:
    path = ("intents", intent_id, "access-requests", request_id, what)
    return fetch(speaker, AccessRequest, "POST", *path, body=body)


class Access(Session):
    """What a client does with access lists."""

    def get_acl(self, intent_id: str) -> AccessList:
        """Who has access to an intent."""
        return self._run(fetch(self._speaker, AccessList, "GET", "intents", intent_id, "acl"))

    def set_acl(
        self, intent_id: str, default_policy: str = "open", entries: Iterable[Mapping[str, Any] | Grant] = ()
    ) -> AccessList:
        """Replace the access list of an intent.

        `default_policy` is "open" (everybody) or "closed" (only those listed). An entry is a `Grant`, or a mapping with
        the parameters of `grant_access`.
        """
        return self._run(_set(self._speaker, intent_id, default_policy, entries))

    def grant_access(
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
        body = given(principal_id=principal_id, permission=permission, principal_type=principal_type)
        body |= given(reason=reason, expires_at=spelled(expires_at))
        return self._run(fetch(self._speaker, Grant, "POST", "intents", intent_id, "acl", "entries", body=body))

    def revoke_access(self, intent_id: str, entry_id: str) -> None:
        """Take an entry off the access list, by its id."""
        return self._run(tell(self._speaker, "DELETE", "intents", intent_id, "acl", "entries", entry_id))

    def request_access(
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
        body = given(requested_permission=requested_permission, reason=reason, principal_id=principal_id)
        body |= given(principal_type=principal_type, capabilities=None if capabilities is None else list(capabilities))
        path = ("intents", intent_id, "access-requests")
        return self._run(fetch(self._speaker, AccessRequest, "POST", *path, body=body))

    def list_access_requests(self, intent_id: str) -> list[AccessRequest]:
        """Who asked for access to an intent, and what became of it."""
        return self._run(_requests(self._speaker, intent_id))

    def approve_access(
        self,
        intent_id: str,
        request_id: str,
        *,
        permission: str | None = None,
        expires_at: Moment | None = None,
        reason: str | None = None,
    ) -> AccessRequest:
        """Let somebody in who asked, perhaps to less than was asked for, or for a while."""
        body = given(permission=permission, expires_at=spelled(expires_at), reason=reason)
        return self._run(_decide(self._speaker, intent_id, request_id, "approve", body))

    def deny_access(self, intent_id: str, request_id: str, *, reason: str | None = None) -> AccessRequest:
        """Do not let somebody in who asked."""
        return self._run(_decide(self._speaker, intent_id, request_id, "deny", given(reason=reason)))


class AsyncAccess(AsyncSession):
    """What an asynchronous client does with access lists."""

    async def get_acl(self, intent_id: str) -> AccessList:
        """Who has access to an intent."""
        return await self._run(fetch(self._speaker, AccessList, "GET", "intents", intent_id, "acl"))

    async def set_acl(
        self, intent_id: str, default_policy: str = "open", entries: Iterable[Mapping[str, Any] | Grant] = ()
    ) -> AccessList:
        """Replace the access list of an intent.

        `default_policy` is "open" (everybody) or "closed" (only those listed). An entry is a `Grant`, or a mapping with
        the parameters of `grant_access`.
        """
        return await self._run(_set(self._speaker, intent_id, default_policy, entries))

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
        body = given(principal_id=principal_id, permission=permission, principal_type=principal_type)
        body |= given(reason=reason, expires_at=spelled(expires_at))
        return await self._run(fetch(self._speaker, Grant, "POST", "intents", intent_id, "acl", "entries", body=body))

    async def revoke_access(self, intent_id: str, entry_id: str) -> None:
        """Take an entry off the access list, by its id."""
        return await self._run(tell(self._speaker, "DELETE", "intents", intent_id, "acl", "entries", entry_id))

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
        body = given(requested_permission=requested_permission, reason=reason, principal_id=principal_id)
        body |= given(principal_type=principal_type, capabilities=None if capabilities is None else list(capabilities))
        path = ("intents", intent_id, "access-requests")
        return await self._run(fetch(self._speaker, AccessRequest, "POST", *path, body=body))

    async def list_access_requests(self, intent_id: str) -> list[AccessRequest]:
        """Who asked for access to an intent, and what became of it."""
        return await self._run(_requests(self._speaker, intent_id))

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
        body = given(permission=permission, expires_at=spelled(expires_at), reason=reason)
        return await self._run(_decide(self._speaker, intent_id, request_id, "approve", body))

    async def deny_access(self, intent_id: str, request_id: str, *, reason: str | None = None) -> AccessRequest:
        """Do not let somebody in who asked."""
        return await self._run(_decide(self._speaker, intent_id, request_id, "deny", given(reason=reason)))
