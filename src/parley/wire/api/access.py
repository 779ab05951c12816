"""Access lists and access requests as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from parley.domain.directory.access import AccessPolicy, Permission
from parley.wire.api.intents import Agent, Reason, Time
from parley.wire.api.records.intents import AccessList, AccessRequest, Grant
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from parley.domain.directory.access import Access
    from parley.domain.directory.access import AccessRequest as StoredRequest
    from parley.domain.directory.access import Grant as StoredGrant


class GrantIn(Struct):
    """An entry of an access list. Unknown fields are ignored."""

    principal_id: Annotated[str, Meta(min_length=1, max_length=64)]
    principal_type: Literal["agent", "user", "group", "org_unit"] = "agent"
    permission: Permission = Permission.READ
    reason: Reason | None = None
    expires_at: Time | None = None


class AclIn(Struct, forbid_unknown_fields=True):
    """A complete access list."""

    default_policy: AccessPolicy = AccessPolicy.OPEN
    entries: Annotated[list[GrantIn], Meta(max_length=1_000)] = []


class AccessRequestIn(Struct, forbid_unknown_fields=True):
    """A request for access."""

    principal_id: Agent | None = None
    principal_type: Literal["agent", "user", "group"] = "agent"
    requested_permission: Permission = Permission.READ
    reason: Reason | None = ""
    capabilities: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=100)] | None = None


class ApproveIn(Struct, forbid_unknown_fields=True):
    """The approval of an access request, optionally with a lower permission or an expiry."""

    decided_by: Agent | None = None
    permission: Permission | None = None
    expires_at: Time | None = None
    reason: Reason | None = None


class DenyIn(Struct, forbid_unknown_fields=True):
    """The denial of an access request."""

    decided_by: Agent | None = None
    reason: Reason | None = None


def grant_of(intent_id: str, stored: StoredGrant) -> Grant:
    return fill_record(Grant, stored, intent_id=intent_id)


def access_list_of(stored: Access) -> AccessList:
    entries = [grant_of(stored.id, grant) for grant in stored.grants]
    return AccessList(
        intent_id=stored.id, default_policy=stored.policy, entries=entries, org_unit=stored.org_unit or None
    )


def access_request_of(stored: StoredRequest) -> AccessRequest:
    return fill_record(AccessRequest, stored, requested_permission=stored.permission)
