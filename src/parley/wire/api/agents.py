"""Tenants, keys, agents and roles as JSON; pure. Agents have the fields that the OpenIntent SDK reads."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from msgspec import Meta, Struct, json

from parley.domain.agents.agent import DEFAULT_HEARTBEATS, Heartbeats
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.domain.directory.callers import AgentStatus, KeyKind
from parley.domain.errors.errors import Invalid, Problem
from parley.wire.api.channels import Name, Time, moment
from parley.wire.api.records.directory import AgentInfo, Capacity, HeartbeatConfig, Key, KeyHolder, NewKey, Role, Tenant
from parley.wire.api.records.record import Mapping, fill_record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from parley.domain.agents.agent import AgentRecord
    from parley.domain.agents.identity import Identity
    from parley.domain.agents.party import Attributes
    from parley.domain.directory.callers import Key as StoredKey
    from parley.domain.directory.callers import Role as StoredRole
    from parley.domain.directory.callers import Tenant as StoredTenant

User = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$(?!\n)", description="A person's name or address.")
]
_NAIVE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
Line = Annotated[str, Meta(max_length=200)]
Capability = Annotated[str, Meta(min_length=1, max_length=128)]

# ---------------------------------------------------------------- what comes in


class TenantIn(Struct, forbid_unknown_fields=True):
    """A tenant to create."""

    id: Name
    name: Line = ""


class KeyIn(Struct, forbid_unknown_fields=True):
    """A key to create: for an agent, a person, a service, an admin or an auditor."""

    kind: KeyKind
    tenant_id: Name | None = None
    agent_id: Name | None = None
    user_id: User | None = None
    expires_at: Time | None = None


class CapacityIn(Struct):
    """How many tasks an agent can run at once."""

    max_concurrent_tasks: Annotated[int, Meta(ge=0, le=1_000_000)] = 5
    current_load: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


Seconds = Annotated[int, Meta(ge=1, le=2_592_000)]


class HeartbeatConfigIn(Struct):
    """How often an agent sends heartbeats, and after how many seconds of silence it counts as unhealthy or dead."""

    interval_seconds: Seconds = DEFAULT_HEARTBEATS.interval_seconds
    unhealthy_after_seconds: Seconds | None = None
    dead_after_seconds: Seconds | None = None


class AgentIn(Struct):
    """An agent to register. Unknown fields are ignored."""

    agent_id: Name
    capabilities: Annotated[list[Capability], Meta(max_length=256)] | None = None
    role_id: Name | None = None
    name: Line | None = None
    capacity: CapacityIn | None = None
    heartbeat_config: HeartbeatConfigIn | None = None
    endpoint: Annotated[str, Meta(max_length=2048)] | None = None
    metadata: Mapping | None = None
    drain_timeout_seconds: Annotated[int, Meta(ge=0, le=86_400)] | None = None
    # What only an admin says.
    tenant_id: Name | None = None
    org_unit: Name | None = None
    user_id: User | None = None
    team: Name | None = None
    max_classification: Classification | None = None
    can_receive_queries: bool | None = None
    can_auto_respond: bool | None = None
    supported_exchange_types: Annotated[list[Purpose], Meta(max_length=3)] | None = None
    max_rounds_accepted: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class HeartbeatIn(Struct):
    """A heartbeat of an agent, with its current load."""

    status: Line = "active"
    current_load: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    tasks_in_progress: Annotated[list[Line], Meta(max_length=1_000)] = []


class AgentStatusIn(Struct, forbid_unknown_fields=True):
    """The new status of an agent. One that `stopped` is shown as dead until it is back; `deregistered` removes it."""

    status: Literal["active", "draining", "stopped", "deregistered"]


class HolderIn(Struct, forbid_unknown_fields=True):
    """The agent to grant a role to."""

    agent_id: Name


# ---------------------------------------------------------------- what goes out


# ---------------------------------------------------------------- from domain


def tenant_of(stored: StoredTenant) -> Tenant:
    return fill_record(Tenant, stored, name=stored.title)


def key_of(stored: StoredKey) -> Key:
    return fill_record(Key, stored, kind=stored.key_kind, tenant_id=stored.owner)


def key_holder_of(
    stored: StoredKey, agent: str, roles: Iterable[str], agents: Iterable[str] = (), *, is_approver: bool = False
) -> KeyHolder:
    return fill_record(
        KeyHolder,
        stored,
        agents=sorted(agents),
        is_approver=is_approver,
        key_id=stored.id,
        kind=stored.key_kind,
        tenant_id=stored.owner,
        agent_id=agent or None,
        roles=sorted(roles),
    )


def new_key_of(stored: StoredKey, secret: str) -> NewKey:
    return fill_record(NewKey, stored, kind=stored.key_kind, tenant_id=stored.owner, key=secret)


class Presence(NamedTuple):
    """Whether an agent is there, when it was last seen, and how many requests wait for it."""

    online: bool
    last_seen_at: str
    open_asks: int


def agent_of(stored: AgentRecord, status: AgentStatus, identity: Identity | None, presence: Presence) -> AgentInfo:
    """An agent as the SDK reads it."""
    return fill_record(
        AgentInfo,
        presence,
        stored,
        stored.attributes,
        agent_id=stored.id,
        status=status,
        name=stored.title,
        capacity=fill_record(Capacity, stored),
        heartbeat_config=fill_record(HeartbeatConfig, stored.heartbeats),
        public_key=identity.public_key if identity else None,
        did=identity.did if identity else None,
        key_algorithm="Ed25519" if identity else None,
        key_registered_at=identity.registered_at if identity else None,
        key_expires_at=identity.expires_at if identity else None,
        previous_keys=identity.previous_keys if identity else [],
    )


def role_of(stored: StoredRole) -> Role:
    return Role(role_id=stored.id, holders=[holder.agent for holder in stored.holders])


# ---------------------------------------------------------------- to domain


def heartbeats_of(body: HeartbeatConfigIn) -> Heartbeats:
    """The times that an agent gives; what it leaves out is three and ten times its interval, as by default."""
    every = body.interval_seconds
    unhealthy = body.unhealthy_after_seconds or 3 * every
    dead = body.dead_after_seconds or max(10 * every, unhealthy)
    if not every <= unhealthy <= dead:
        detail = "unhealthy_after_seconds is at least the interval, and dead_after_seconds at least that"
        raise Invalid.because([Problem("invalid", "heartbeat_config", detail)])
    return Heartbeats(every, unhealthy, dead)


def attributes_of(body: AgentIn, present: Attributes) -> Attributes | None:
    """What an admin sets about an agent, over what it has at present; None when nothing is set."""
    fields = {name: value for name in _ATTRIBUTES if (value := getattr(body, name)) is not None}
    if not fields:
        return None
    if "supported_exchange_types" in fields:
        fields["supported_exchange_types"] = tuple(dict.fromkeys(fields["supported_exchange_types"]))
    return replace(present, **fields)


_ATTRIBUTES = (
    "org_unit",
    "user_id",
    "team",
    "max_classification",
    "can_receive_queries",
    "can_auto_respond",
    "supported_exchange_types",
    "max_rounds_accepted",
)


def check_metadata(metadata: Mapping | None, most: int) -> None:
    if metadata and len(json.encode(metadata)) > most:
        raise Invalid.because([Problem("too_large", "metadata", f"at most {most} bytes")])


def lenient_moment(text: str | None, field: str) -> datetime | None:
    """A time as the SDK sends it: whatever its user had, so one without an offset is UTC."""
    if text is not None and re.fullmatch(_NAIVE, text):
        text += "+00:00"
    return moment(text, field)
