"""A link to an approval: a secret of its own with which one person decides about one held message, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from parley.domain.directory.callers import NO_TENANT, key_digest
from parley.domain.errors.rules import ApprovalStale
from parley.domain.errors.team import ScopeRequired
from parley.domain.record import Record
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from parley.domain.directory.callers import Key
    from parley.domain.exchange.approval import Approval

LINK_PREFIX = "pal_"
LINK_LIFETIME = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalLink(Record):
    """A link; only the SHA-256 of its secret is kept. `owner` is the tenant of its key and of the approval."""

    kind: ClassVar[str] = "approval_link"

    owner: str
    approval_id: str
    # Of what would be sent when the link was made: it decides about nothing else.
    content_digest: str
    key_id: str
    user_id: str
    digest: str
    created_at: str
    expires_at: str

    @property
    def name(self) -> str:
        return self.digest

    @property
    def due(self) -> str:
        return self.expires_at


def linked(link_id: str, secret: str, key: Key, approval: Approval, now: str) -> ApprovalLink:
    """The link of a key to an approval as it is now: for a day, and never longer than the key."""
    end = stamp(from_stamp(now) + LINK_LIFETIME)
    return ApprovalLink(
        id=link_id,
        tenant_id=NO_TENANT,
        owner=key.owner,
        approval_id=approval.id,
        content_digest=approval.digest,
        key_id=key.id,
        user_id=key.user_id,
        digest=key_digest(secret),
        created_at=now,
        expires_at=min(end, key.expires_at) if key.expires_at else end,
    )


def check_linked(link: ApprovalLink, approval: Approval) -> None:
    """Refuse a decision by a link about another approval, or about other content than it was made for."""
    if (link.owner, link.approval_id) != (approval.tenant_id, approval.id):
        raise ScopeRequired("this link is for another approval")
    if approval.pending and link.content_digest != approval.digest:
        raise ApprovalStale(
            "what would be sent has changed since the link was made; sign in to look at it again",
            facts={"approval": approval.id, "digest": approval.digest},
        )
