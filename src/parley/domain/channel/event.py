"""The event log of an intent: append-only, each event linked to the one before by its hash."""

from __future__ import annotations

import json
from typing import NamedTuple

CHANNEL_MESSAGE = "channel_message"
# The OpenIntent SDK's spelling, the only one that it reads.
SDK_CHANNEL_MESSAGE = "channel.message"

INTENT_CREATED = "intent_created"
STATE_PATCHED = "state_patched"
STATUS_CHANGED = "status_changed"
AGENT_ASSIGNED = "agent_assigned"
AGENT_UNASSIGNED = "agent_unassigned"
ACCESS_GRANTED = "access_granted"
ACCESS_REVOKED = "access_revoked"
ACCESS_EXPIRED = "access_expired"
ACCESS_REQUESTED = "access_requested"
ACCESS_REQUEST_APPROVED = "access_request_approved"
ACCESS_REQUEST_DENIED = "access_request_denied"

# Event types that only the server may write.
RESERVED = frozenset(
    {
        CHANNEL_MESSAGE,
        SDK_CHANNEL_MESSAGE,
        INTENT_CREATED,
        STATE_PATCHED,
        STATUS_CHANGED,
        AGENT_ASSIGNED,
        AGENT_UNASSIGNED,
        ACCESS_GRANTED,
        ACCESS_REVOKED,
        ACCESS_EXPIRED,
        ACCESS_REQUESTED,
        ACCESS_REQUEST_APPROVED,
        ACCESS_REQUEST_DENIED,
        "task.created",
        "task.ready",
        "task.claimed",
        "task.started",
        "task.blocked",
        "task.unblocked",
        "task.completed",
        "task.failed",
        "task.cancelled",
        "task.skipped",
    }
)
# Reserved: stream control events, and events of the SDK's runtime.
STREAM_WORDS = frozenset(
    {
        "revoked",
        "state_changed",
        "intent_assigned",
        "intent_completed",
        "intent_failed",
        "connected",
        "keepalive",
        "error",
        "message",
    }
)


def _of(family: str, words: str) -> set[str]:
    return {f"{family}.{word}" for word in words.split()}


# Every type that the SDK's parser knows; an unknown type makes its whole listing fail.
SDK_TYPES = (
    (RESERVED - {CHANNEL_MESSAGE})
    | {
        "constraint_added",
        "constraint_removed",
        "dependency_added",
        "dependency_removed",
        "lease_acquired",
        "lease_released",
        "arbitration_requested",
        "decision_recorded",
        "attachment_added",
        "portfolio_created",
        "added_to_portfolio",
        "removed_from_portfolio",
        "failure_recorded",
        "comment",
    }
    | {f"{call}_{end}" for call in ("tool_call", "llm_request") for end in ("started", "completed", "failed")}
    | {f"stream_{end}" for end in ("started", "chunk", "completed", "cancelled")}
    | _of("task", "progress retrying delegated escalated")
    | _of("plan", "created activated paused resumed completed failed")
    | _of("plan", "checkpoint_reached checkpoint_approved checkpoint_rejected")
    | _of("coordinator", "decision heartbeat paused resumed replaced unresponsive failed_over handoff")
    | _of("coordinator", "plan_overridden guardrails_updated stalled escalation_resolved")
    | _of("governance", "policy_set policy_removed approval_granted approval_denied violation approval_enforced")
    | _of("tool", "invoked denied")
    | _of("grant", "created delegated revoked expired suspended resumed")
    | _of("credential", "created rotated expired revoked")
    | _of("memory", "created updated deleted archived evicted expired")
    | _of("agent", "lifecycle registered status_changed dead")
    | _of("agent.identity", "registered rotated revoked challenge_issued verified")
    | _of("trigger", "fired skipped cascade_limit namespace_blocked")
    | _of("log.checkpoint", "created anchored")
    | _of("channel", "created closed")
    | _of("federation", "dispatched received callback budget_warning completed failed")
    | _of("intent", "suspended resumed suspension_expired suspension_renotified suspension_escalated")
    | _of("portfolio", "member_suspended member_resumed")
    | {"engagement.decision"}
)

_spell = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class EventDraft(NamedTuple):
    """An event before it has its place in the log; `payload` is JSON."""

    id: str
    intent_id: str
    event_type: str
    actor: str
    payload: bytes
    created_at: str
    trace_id: str = ""
    parent_event_id: str = ""
    proof: bytes = b""


class Event(NamedTuple):
    """An event at its place: `sequence` counts from 1 within its intent, `document` is the JSON as it is served."""

    position: int
    intent_id: str
    sequence: int
    id: str
    event_type: str
    actor: str
    created_at: str
    trace_id: str
    document: bytes
    event_hash: str


def quoted(payload: dict[str, object]) -> bytes:
    """A payload as JSON."""
    return _spell(payload).encode()


def stored_type(event_type: str) -> str:
    """The stored spelling of a type, for either of its two spellings."""
    return CHANNEL_MESSAGE if event_type == SDK_CHANNEL_MESSAGE else event_type
