"""Every kind of record that the team's store keeps, by the name it is kept under."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.access import Access, AccessRequest
from parley.domain.approval import Approval
from parley.domain.audit_checkpoint import AuditCheckpoint, AuditMark
from parley.domain.bookmark import Bookmark
from parley.domain.channel import Channel
from parley.domain.checkpoint import Checkpoint, LogMark
from parley.domain.directory import IssuedKey, Key, Role, Tenant
from parley.domain.exchange import Exchange
from parley.domain.identity import Challenge, Identity
from parley.domain.intent import Intent, Task
from parley.domain.org_units import OrgUnits
from parley.domain.policy import PolicyRevision, PolicySnapshot
from parley.domain.registry import AgentRecord
from parley.domain.subscription import Subscription
from parley.domain.suspension import Suspensions

if TYPE_CHECKING:
    from parley.domain.record import Record

KINDS: dict[str, type[Record]] = {
    kind.kind: kind
    for kind in (
        Tenant,
        Key,
        IssuedKey,
        Role,
        Channel,
        Intent,
        Task,
        Access,
        AccessRequest,
        AgentRecord,
        Bookmark,
        Identity,
        Challenge,
        Checkpoint,
        LogMark,
        Subscription,
        Exchange,
        Approval,
        PolicySnapshot,
        PolicyRevision,
        Suspensions,
        OrgUnits,
        AuditCheckpoint,
        AuditMark,
    )
}
