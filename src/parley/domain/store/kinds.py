"""Every kind of record in the server's store, by its stored name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.identity import Challenge, Identity
from parley.domain.agents.org_units import OrgUnits
from parley.domain.audit.checkpoint import AuditCheckpoint, AuditMark
from parley.domain.channel.bookmark import Bookmark
from parley.domain.channel.channel import Channel
from parley.domain.channel.checkpoint import Checkpoint, LogMark
from parley.domain.channel.job import Job
from parley.domain.channel.participation import Participant
from parley.domain.channel.request import RequestMark, RequestState
from parley.domain.channel.subscription import Subscription
from parley.domain.channel.timer import Timer
from parley.domain.directory.access import Access, AccessRequest
from parley.domain.directory.callers import IssuedKey, Key, KeyNames, Role, Tenant
from parley.domain.directory.intent import Intent, IntentCount, Task
from parley.domain.directory.session import LoginSession
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange
from parley.domain.exchange.link import ApprovalLink
from parley.domain.rules.policy import PolicyRevision, PolicySnapshot
from parley.domain.rules.suspension import Suspensions

if TYPE_CHECKING:
    from parley.domain.record import Record

KINDS: dict[str, type[Record]] = {
    kind.kind: kind
    for kind in (
        Tenant,
        Key,
        IssuedKey,
        LoginSession,
        ApprovalLink,
        KeyNames,
        Role,
        Channel,
        Intent,
        IntentCount,
        Task,
        Access,
        AccessRequest,
        Participant,
        AgentRecord,
        Bookmark,
        Job,
        Timer,
        Identity,
        Challenge,
        Checkpoint,
        LogMark,
        Subscription,
        RequestState,
        RequestMark,
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
