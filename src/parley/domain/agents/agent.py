"""The registry's record of an agent: capabilities, health, and last heartbeat.

active ──90 s of silence──> unhealthy ──300 s──> dead        a heartbeat leads back to active from either
   │  └──> draining ──its drain timeout──> deregistered      it has left, and may register anew
   └──it says that it has stopped──> dead

Unhealthy and dead say that an agent is away: it has been silent for so long, or has said that it stops. They are
computed when somebody looks, and change nothing: its roles, channels, mail and open requests stay as they are until it
is deregistered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Attributes
from parley.domain.directory.callers import AgentStatus
from parley.domain.record import Record, changed
from parley.domain.times import from_stamp, stamp

V = TypeVar("V")

DEFAULT_TASKS = 5


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """How often an agent sends heartbeats, and after how many seconds of silence it counts as unhealthy or dead."""

    interval_seconds: int = 30
    unhealthy_after_seconds: int = 90
    dead_after_seconds: int = 300


DEFAULT_HEARTBEATS = Heartbeats()


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
    # The key that registered the endpoint: pushes end with it. Empty in data of before 0.7.
    endpoint_key: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    status: AgentStatus = AgentStatus.ACTIVE
    registered_at: str
    last_heartbeat_at: str = ""
    heartbeats: Heartbeats = DEFAULT_HEARTBEATS
    drain_timeout_seconds: int | None = None
    draining_since: str = ""
    # When it said that it has stopped; empty since its next heartbeat or registration.
    stopped_at: str = ""
    # Set by an admin: the person it acts for, its org unit, what it may know.
    attributes: Attributes = UNKNOWN_ATTRIBUTES
    # Set with each commit, see `decisive_version`; 0 in data of before 0.7.
    decisive: int = 0

    @property
    def decisive_version(self) -> int:
        """Decisions depend on whether it has left and on its attributes; not on heartbeats, load or capabilities."""
        return self.decisive or self.version

    def after(self, before: Record | None) -> Self:
        version = self.version + 1
        same = isinstance(before, AgentRecord) and (before.gone, before.attributes) == (self.gone, self.attributes)
        return changed(self, version=version, decisive=before.decisive_version if before and same else version)

    @property
    def gone(self) -> bool:
        """Whether it has left. An agent that is only silent has not."""
        return self.status is AgentStatus.DEREGISTERED

    @property
    def due(self) -> str:
        """When its drain time is over; empty while it does not drain, or has no limit."""
        if self.status is not AgentStatus.DRAINING or self.drain_timeout_seconds is None:
            return ""
        return _later(self.draining_since, self.drain_timeout_seconds)


class AgentDraft(NamedTuple):
    """The fields of a registration; None keeps the present value."""

    agent_id: str
    capabilities: tuple[str, ...] | None = None
    role_id: str | None = None
    title: str | None = None
    max_concurrent_tasks: int | None = None
    current_load: int | None = None
    endpoint: str | None = None
    endpoint_key: str = ""
    metadata: dict[str, Any] | None = None
    heartbeats: Heartbeats | None = None
    drain_timeout_seconds: int | None = None
    attributes: Attributes | None = None


def health(record: AgentRecord, now: str, since: str = "") -> AgentStatus:
    """The health of an agent at this moment, whether or not the sweep has run.

    No silence counts from before `since`, when the server's own clock began to run: who could not be heard was not
    silent.
    """
    if record.gone:
        return record.status
    if record.due and record.due <= now:
        return AgentStatus.DEREGISTERED
    if record.stopped_at:
        return AgentStatus.DEAD
    settled = AgentStatus.DRAINING if record.status is AgentStatus.DRAINING else AgentStatus.ACTIVE
    if not record.last_heartbeat_at:
        return settled
    heard = max(record.last_heartbeat_at, since)
    if _later(heard, record.heartbeats.dead_after_seconds) <= now:
        return AgentStatus.DEAD
    silent = _later(heard, record.heartbeats.unhealthy_after_seconds) <= now
    return AgentStatus.UNHEALTHY if silent and settled is AgentStatus.ACTIVE else settled


def registered(draft: AgentDraft, tenant: str, record: AgentRecord | None, now: str) -> AgentRecord:
    """The record of an agent that registers: for the first time, again, or anew after it had left."""
    before = record if record is not None and health(record, now) is not AgentStatus.DEREGISTERED else None
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
        endpoint_key=base.endpoint_key if draft.endpoint is None else draft.endpoint_key,
        metadata=_given(draft.metadata, base.metadata),
        heartbeats=_given(draft.heartbeats, base.heartbeats),
        registered_at=base.registered_at,
        # A registration counts as a heartbeat, but only for agents that send heartbeats.
        last_heartbeat_at=now if base.last_heartbeat_at else "",
        drain_timeout_seconds=_given(draft.drain_timeout_seconds, base.drain_timeout_seconds),
        # Leaving and coming back does not reset the attributes set by an admin.
        attributes=_given(draft.attributes, record.attributes if record else UNKNOWN_ATTRIBUTES),
    )


def host_of(url: str) -> str:
    """Scheme and host of an address, for others: the rest often contains a secret."""
    scheme, mark, rest = url.partition("://")
    host = rest.partition("/")[0].partition("?")[0].partition("#")[0].rpartition("@")[2]
    return f"{scheme}{mark}{host}" if host else ""


def _given(value: V | None, otherwise: V) -> V:
    return otherwise if value is None else value


def _later(moment: str, seconds: float) -> str:
    return stamp(from_stamp(moment) + timedelta(seconds=seconds))
