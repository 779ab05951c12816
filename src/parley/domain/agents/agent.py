"""The registry's record of an agent: capabilities, health, and last heartbeat.

active ──90 s of silence──> unhealthy ──300 s──> dead        a heartbeat leads back from unhealthy to active
   │  └──> draining ──its drain timeout──> deregistered      dead and deregistered end it; it may register anew
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, TypeVar

from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Attributes
from parley.domain.directory.callers import GONE, AgentStatus
from parley.domain.record import Record
from parley.domain.times import from_stamp, stamp

V = TypeVar("V")

# Silence after which an agent counts as unhealthy, and as dead.
UNHEALTHY_AFTER = timedelta(seconds=90)
DEAD_AFTER = timedelta(seconds=300)
HEARTBEAT_EVERY = timedelta(seconds=30)
DEFAULT_TASKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord(Record):
    """One agent as it registered. Its roles are kept by the roles themselves (`domain.directory.callers.Role`)."""

    kind: ClassVar[str] = "agent"

    role_id: str = ""
    title: str = ""
    capabilities: tuple[str, ...] = ()
    max_concurrent_tasks: int = DEFAULT_TASKS
    current_load: int = 0
    endpoint: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    status: AgentStatus = AgentStatus.ACTIVE
    registered_at: str
    last_heartbeat_at: str = ""
    drain_timeout_seconds: int | None = None
    draining_since: str = ""
    # Set by an admin: the person it acts for, its org unit, what it may know.
    attributes: Attributes = UNKNOWN_ATTRIBUTES

    @property
    def gone(self) -> bool:
        return self.status in GONE

    @property
    def due(self) -> str:
        """When its missing heartbeat has to be checked; empty before its first heartbeat."""
        if self.gone:
            return ""
        moments = []
        if self.last_heartbeat_at:
            patience = UNHEALTHY_AFTER if self.status is AgentStatus.ACTIVE else DEAD_AFTER
            moments.append(_later(self.last_heartbeat_at, patience))
        if self.drained_at:
            moments.append(self.drained_at)
        return min(moments, default="")

    @property
    def drained_at(self) -> str:
        """When its drain time is over; empty while it does not drain, or has no limit."""
        if self.status is not AgentStatus.DRAINING or self.drain_timeout_seconds is None:
            return ""
        return _later(self.draining_since, timedelta(seconds=self.drain_timeout_seconds))


class AgentDraft(NamedTuple):
    """The fields of a registration; None keeps the present value."""

    agent_id: str
    capabilities: tuple[str, ...] | None = None
    role_id: str | None = None
    title: str | None = None
    max_concurrent_tasks: int | None = None
    current_load: int | None = None
    endpoint: str | None = None
    metadata: dict[str, Any] | None = None
    drain_timeout_seconds: int | None = None
    attributes: Attributes | None = None


def health(record: AgentRecord, now: str) -> AgentStatus:
    """The health of an agent at this moment, whether or not the sweep has run."""
    if record.gone:
        return record.status
    if record.last_heartbeat_at and _later(record.last_heartbeat_at, DEAD_AFTER) <= now:
        return AgentStatus.DEAD
    if record.drained_at and record.drained_at <= now:
        return AgentStatus.DEREGISTERED
    if record.status is AgentStatus.DRAINING or not record.last_heartbeat_at:
        return record.status
    silent = _later(record.last_heartbeat_at, UNHEALTHY_AFTER) <= now
    return AgentStatus.UNHEALTHY if silent else AgentStatus.ACTIVE


def registered(draft: AgentDraft, tenant: str, record: AgentRecord | None, now: str) -> AgentRecord:
    """The record of an agent that registers: for the first time, again, or anew after it had left."""
    before = record if record is not None and health(record, now) not in GONE else None
    fresh = AgentRecord(id=draft.agent_id, tenant_id=tenant, registered_at=now)
    base = before or fresh
    return AgentRecord(
        id=draft.agent_id,
        tenant_id=tenant,
        version=record.version if record else 0,
        role_id=_given(draft.role_id, base.role_id),
        title=_given(draft.title, base.title),
        capabilities=_given(draft.capabilities, base.capabilities),
        max_concurrent_tasks=_given(draft.max_concurrent_tasks, base.max_concurrent_tasks),
        current_load=_given(draft.current_load, base.current_load),
        endpoint=_given(draft.endpoint, base.endpoint),
        metadata=_given(draft.metadata, base.metadata),
        registered_at=base.registered_at,
        # A registration counts as a heartbeat, but only for agents that send heartbeats.
        last_heartbeat_at=now if base.last_heartbeat_at else "",
        drain_timeout_seconds=_given(draft.drain_timeout_seconds, base.drain_timeout_seconds),
        # Leaving and coming back does not reset the attributes set by an admin.
        attributes=_given(draft.attributes, record.attributes if record else UNKNOWN_ATTRIBUTES),
    )


def _given(value: V | None, otherwise: V) -> V:
    return otherwise if value is None else value


def _later(moment: str, span: timedelta) -> str:
    return stamp(from_stamp(moment) + span)
