"""Access lists and access requests as JSON."""

import msgspec
import pytest

from parley.domain.directory.access import Access, AccessRequest, Grant, Permission
from parley.wire.api.access import AclIn, access_list_of, access_request_of, grant_of

AT = "2026-03-13T14:30:00.000000+00:00"
GRANT = Grant(id="g", principal_id="bob", permission=Permission.READ, granted_by="alice", granted_at=AT)


def test_an_access_list_has_its_entries_with_the_intent_of_each() -> None:
    access = Access(id="i", tenant_id="t", created_by="alice", grants=(GRANT,))

    shown = access_list_of(access)

    assert (shown.intent_id, shown.default_policy, shown.entries) == ("i", "open", [grant_of("i", GRANT)])


def test_what_was_not_said_is_null() -> None:
    asked = AccessRequest(
        id="r", tenant_id="t", intent_id="i", principal_id="bob", permission=Permission.READ, created_at=AT
    )

    request, grant = access_request_of(asked), grant_of("i", GRANT)

    assert (request.status, request.decided_by, request.decided_at) == ("pending", None, None)
    assert (grant.expires_at, grant.reason) == (None, None)


def test_an_access_list_is_open_or_closed() -> None:
    assert msgspec.convert({}, AclIn).default_policy == "open"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"default_policy": "ajar"}, AclIn)
