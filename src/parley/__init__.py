"""Parley: agents talk to each other, as plain files, over HTTP, under an organisation's rules."""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` says, without the time that importing it takes
if TYPE_CHECKING:
    from parley.domain.errors.errors import (
        Conflict,
        Forbidden,
        Invalid,
        LeaseLost,
        NotFound,
        ParleyError,
        Problem,
        Unavailable,
        Undelivered,
        UnknownAgent,
        UnknownMessage,
        UnknownProject,
    )
    from parley.domain.errors.rules import ApprovalDecided, ApprovalStale, Denied, MessageHeld, Suspended
    from parley.domain.errors.team import (
        AgentGone,
        AskEnded,
        AskTimeout,
        BookmarkTaken,
        ChannelClosed,
        CursorEvicted,
        Gone,
        NameTaken,
        NotMember,
        QuotaExceeded,
        RateLimited,
        Unauthorized,
        VersionMismatch,
    )
    from parley.domain.errors.workflow import WorkflowAbandoned, WorkflowFailed, WorkflowInvalid, WorkflowTimedOut
    from parley.domain.mailbox.listing import FoundMessage, Item
    from parley.domain.message.message import Kind, Message, Priority
    from parley.domain.message.review import Review
    from parley.sdk.agent.agent import Agent, BaseAgent
    from parley.sdk.agent.channels import ChannelHandle
    from parley.sdk.agent.decorators import on_approval, on_assignment, on_message
    from parley.sdk.agent.running import run_agents, serve_agents
    from parley.sdk.blocking.client import Client
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.mailbox import Mailbox
    from parley.sdk.records import StreamItem
    from parley.sdk.workflow.context import StepContext
    from parley.sdk.workflow.result import WorkflowEvent, WorkflowResult
    from parley.sdk.workflow.workflow import Workflow
    from parley.wire.api.records.audit import (
        AuditCheckpoint,
        AuditCheckpoints,
        AuditEntry,
        AuditPage,
        AuditProof,
        Erasure,
    )
    from parley.wire.api.records.channels import (
        Attempt,
        Channel,
        ChannelMessage,
        ChannelOptions,
        NewSubscription,
        Subscription,
        SubscriptionSecret,
    )
    from parley.wire.api.records.directory import (
        AgentInfo,
        Bookmark,
        Challenge,
        Health,
        Heartbeat,
        Identity,
        Key,
        NewKey,
        Role,
        ServerInfo,
        SignatureCheck,
        Tenant,
    )
    from parley.wire.api.records.intents import (
        AccessList,
        AccessRequest,
        Assignment,
        ChainCheck,
        Checkpoint,
        Consistency,
        Event,
        EventProof,
        Grant,
        Intent,
        Task,
    )
    from parley.wire.api.records.record import Record
    from parley.wire.api.records.rules import (
        Approval,
        Exchange,
        Explanation,
        Policies,
        Policy,
        PolicyInForce,
        PolicyRevision,
        Replay,
        Suspension,
    )

    MessageTimeoutError = AskTimeout

__version__ = "0.7.0"

__all__ = [
    "AccessList",
    "AccessRequest",
    "Agent",
    "AgentGone",
    "AgentInfo",
    "Approval",
    "ApprovalDecided",
    "ApprovalStale",
    "AskEnded",
    "AskTimeout",
    "Assignment",
    "AsyncClient",
    "Attempt",
    "AuditCheckpoint",
    "AuditCheckpoints",
    "AuditEntry",
    "AuditPage",
    "AuditProof",
    "BaseAgent",
    "Bookmark",
    "BookmarkTaken",
    "ChainCheck",
    "Challenge",
    "Channel",
    "ChannelClosed",
    "ChannelHandle",
    "ChannelMessage",
    "ChannelOptions",
    "Checkpoint",
    "Client",
    "Conflict",
    "Consistency",
    "CursorEvicted",
    "Denied",
    "Erasure",
    "Event",
    "EventProof",
    "Exchange",
    "Explanation",
    "Forbidden",
    "FoundMessage",
    "Gone",
    "Grant",
    "Health",
    "Heartbeat",
    "Identity",
    "Intent",
    "Invalid",
    "Item",
    "Key",
    "Kind",
    "LeaseLost",
    "Mailbox",
    "Message",
    "MessageHeld",
    "MessageTimeoutError",
    "NameTaken",
    "NewKey",
    "NewSubscription",
    "NotFound",
    "NotMember",
    "ParleyError",
    "Policies",
    "Policy",
    "PolicyInForce",
    "PolicyRevision",
    "Priority",
    "Problem",
    "QuotaExceeded",
    "RateLimited",
    "Record",
    "Replay",
    "Review",
    "Role",
    "ServerInfo",
    "SignatureCheck",
    "StepContext",
    "StreamItem",
    "Subscription",
    "SubscriptionSecret",
    "Suspended",
    "Suspension",
    "Task",
    "Tenant",
    "Unauthorized",
    "Unavailable",
    "Undelivered",
    "UnknownAgent",
    "UnknownMessage",
    "UnknownProject",
    "VersionMismatch",
    "Workflow",
    "WorkflowAbandoned",
    "WorkflowEvent",
    "WorkflowFailed",
    "WorkflowInvalid",
    "WorkflowResult",
    "WorkflowTimedOut",
    "on_approval",
    "on_assignment",
    "on_message",
    "run_agents",
    "serve_agents",
]

# Where they are defined, but for those of `parley.domain.errors.errors`.
_HOMES = {
    "AccessList": "parley.wire.api.records.intents",
    "AccessRequest": "parley.wire.api.records.intents",
    "Agent": "parley.sdk.agent.agent",
    "AgentGone": "parley.domain.errors.team",
    "AgentInfo": "parley.wire.api.records.directory",
    "Approval": "parley.wire.api.records.rules",
    "ApprovalDecided": "parley.domain.errors.rules",
    "ApprovalStale": "parley.domain.errors.rules",
    "AskEnded": "parley.domain.errors.team",
    "AskTimeout": "parley.domain.errors.team",
    "Assignment": "parley.wire.api.records.intents",
    "AsyncClient": "parley.sdk.client.client",
    "Attempt": "parley.wire.api.records.channels",
    "AuditCheckpoint": "parley.wire.api.records.audit",
    "AuditCheckpoints": "parley.wire.api.records.audit",
    "AuditEntry": "parley.wire.api.records.audit",
    "AuditPage": "parley.wire.api.records.audit",
    "AuditProof": "parley.wire.api.records.audit",
    "BaseAgent": "parley.sdk.agent.agent",
    "Bookmark": "parley.wire.api.records.directory",
    "BookmarkTaken": "parley.domain.errors.team",
    "ChainCheck": "parley.wire.api.records.intents",
    "Challenge": "parley.wire.api.records.directory",
    "Channel": "parley.wire.api.records.channels",
    "ChannelClosed": "parley.domain.errors.team",
    "ChannelHandle": "parley.sdk.agent.channels",
    "ChannelMessage": "parley.wire.api.records.channels",
    "ChannelOptions": "parley.wire.api.records.channels",
    "Checkpoint": "parley.wire.api.records.intents",
    "Client": "parley.sdk.blocking.client",
    "Consistency": "parley.wire.api.records.intents",
    "CursorEvicted": "parley.domain.errors.team",
    "Denied": "parley.domain.errors.rules",
    "Erasure": "parley.wire.api.records.audit",
    "Event": "parley.wire.api.records.intents",
    "EventProof": "parley.wire.api.records.intents",
    "Exchange": "parley.wire.api.records.rules",
    "Explanation": "parley.wire.api.records.rules",
    "FoundMessage": "parley.domain.mailbox.listing",
    "Gone": "parley.domain.errors.team",
    "Grant": "parley.wire.api.records.intents",
    "Health": "parley.wire.api.records.directory",
    "Heartbeat": "parley.wire.api.records.directory",
    "Identity": "parley.wire.api.records.directory",
    "Intent": "parley.wire.api.records.intents",
    "Item": "parley.domain.mailbox.listing",
    "Key": "parley.wire.api.records.directory",
    "Kind": "parley.domain.message.message",
    "Mailbox": "parley.sdk.mailbox",
    "Message": "parley.domain.message.message",
    "MessageHeld": "parley.domain.errors.rules",
    "NameTaken": "parley.domain.errors.team",
    "NewKey": "parley.wire.api.records.directory",
    "NewSubscription": "parley.wire.api.records.channels",
    "NotMember": "parley.domain.errors.team",
    "Policies": "parley.wire.api.records.rules",
    "Policy": "parley.wire.api.records.rules",
    "PolicyInForce": "parley.wire.api.records.rules",
    "PolicyRevision": "parley.wire.api.records.rules",
    "Priority": "parley.domain.message.message",
    "QuotaExceeded": "parley.domain.errors.team",
    "RateLimited": "parley.domain.errors.team",
    "Record": "parley.wire.api.records.record",
    "Replay": "parley.wire.api.records.rules",
    "Review": "parley.domain.message.review",
    "Role": "parley.wire.api.records.directory",
    "ServerInfo": "parley.wire.api.records.directory",
    "SignatureCheck": "parley.wire.api.records.directory",
    "StepContext": "parley.sdk.workflow.context",
    "StreamItem": "parley.sdk.records",
    "Subscription": "parley.wire.api.records.channels",
    "SubscriptionSecret": "parley.wire.api.records.channels",
    "Suspended": "parley.domain.errors.rules",
    "Suspension": "parley.wire.api.records.rules",
    "Task": "parley.wire.api.records.intents",
    "Tenant": "parley.wire.api.records.directory",
    "Unauthorized": "parley.domain.errors.team",
    "VersionMismatch": "parley.domain.errors.team",
    "Workflow": "parley.sdk.workflow.workflow",
    "WorkflowAbandoned": "parley.domain.errors.workflow",
    "WorkflowEvent": "parley.sdk.workflow.result",
    "WorkflowFailed": "parley.domain.errors.workflow",
    "WorkflowInvalid": "parley.domain.errors.workflow",
    "WorkflowResult": "parley.sdk.workflow.result",
    "WorkflowTimedOut": "parley.domain.errors.workflow",
    "on_approval": "parley.sdk.agent.decorators",
    "on_assignment": "parley.sdk.agent.decorators",
    "on_message": "parley.sdk.agent.decorators",
    "run_agents": "parley.sdk.agent.running",
    "serve_agents": "parley.sdk.agent.running",
}
# As the RFC calls it, and as 0.5 called it.
_OTHER_NAMES = {"MessageTimeoutError": "AskTimeout", "Found": "FoundMessage"}


if not TYPE_CHECKING:  # a type checker would take any name for a public one

    def __getattr__(name: str) -> object:
        """Import a public name when it is first asked for: a command that lists files pays for nothing else."""
        if name not in __all__ and name not in _OTHER_NAMES:
            raise AttributeError(f"module 'parley' has no attribute {name!r}")
        from importlib import import_module

        target = _OTHER_NAMES.get(name, name)
        return getattr(import_module(_HOMES.get(target, "parley.domain.errors.errors")), target)

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
