"""A link to an approval: when it ends, and what it decides about."""

from __future__ import annotations

import pytest

from parley.domain.directory.callers import NO_TENANT, Key, KeyKind, key_digest
from parley.domain.errors.rules import ApprovalStale
from parley.domain.errors.team import ScopeRequired
from parley.domain.exchange.approval import ApprovalStatus
from parley.domain.exchange.link import check_linked, linked
from parley.domain.record import changed
from tests.samples.governed import an_approval

APPROVAL = an_approval()
NOW = "2026-03-13T14:30:00.000000+00:00"
TOMORROW = "2026-03-14T14:30:00.000000+00:00"


def a_key(expires_at: str = "") -> Key:
    return Key(
        id="key_1",
        tenant_id=NO_TENANT,
        owner=APPROVAL.tenant_id,
        key_kind=KeyKind.HUMAN,
        digest="k",
        user_id="ann",
        created_at=NOW,
        expires_at=expires_at,
    )


def test_a_link_keeps_the_digest_of_its_secret_and_what_it_is_for() -> None:
    link = linked("link_1", "pal_x", a_key(), APPROVAL, NOW)

    assert (link.name, link.tenant_id, link.owner) == (key_digest("pal_x"), NO_TENANT, APPROVAL.tenant_id)
    assert (link.approval_id, link.content_digest) == (APPROVAL.id, APPROVAL.digest)
    assert (link.key_id, link.user_id) == ("key_1", "ann")
    assert "pal_x" not in str(link)


@pytest.mark.parametrize(
    ("key_ends", "ends"),
    [
        ("", TOMORROW),
        ("2026-03-13T15:00:00.000000+00:00", "2026-03-13T15:00:00.000000+00:00"),
        ("2027-01-01", TOMORROW),
    ],
)
def test_a_link_ends_after_a_day_or_with_its_key(key_ends: str, ends: str) -> None:
    link = linked("link_1", "pal_x", a_key(key_ends), APPROVAL, NOW)

    assert link.expires_at == link.due == ends


def test_a_link_decides_about_its_approval_as_it_was() -> None:
    link = linked("link_1", "pal_x", a_key(), APPROVAL, NOW)

    check_linked(link, APPROVAL)
    # What was decided is refused as such, not as changed.
    check_linked(link, changed(APPROVAL, status=ApprovalStatus.REJECTED, digest="d2"))
    with pytest.raises(ApprovalStale):
        check_linked(link, changed(APPROVAL, digest="d2"))
    for other in (changed(APPROVAL, id="appr_2"), changed(APPROVAL, tenant_id="globex")):
        with pytest.raises(ScopeRequired):
            check_linked(link, other)
