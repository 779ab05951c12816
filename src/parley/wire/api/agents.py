"""Tenants, keys, agents and roles as JSON; pure. An agent is spelled as the OpenIntent SDK reads it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, json

from parley.domain.agents.agent import DEAD_AFTER, HEARTBEAT_EVERY, UNHEALTHY_AFTER
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.domain.directory.callers import AgentStatus, KeyKind
from parley.domain.errors.errors import Invalid, Problem
from parley.wire.api.channels import Mapping, Name, Time, moment

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.agents.agent import AgentRecord
    from parley.domain.agents.identity import Identity
    from parley.domain.agents.party import Attributes
    from parley.domain.directory.callers import Key, Role, Tenant

User = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$(?!\n)", description="A person's name or address.")
]
_NAIVE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
Line = Annotated[str, Meta(max_length=200)]
Capability = Annotated[str, Meta(min_length=1, max_length=128)]

# ---------------------------------------------------------------- what comes in


class TenantIn(Struct, forbid_unknown_fields=True):
    """A tenant to be created."""

    id: Name
    name: Line = ""


class KeyIn(Struct, forbid_unknown_fields=True):
    """A key to be made: for an agent, a person, a service or an admin."""

    kind: KeyKind
    tenant_id: Name | None = None
    agent_id: Name | None = None
    user_id: User | None = None
    expires_at: Time | None = None


class CapacityIn(Struct):
    """How much an agent can do at once."""

    max_concurrent_tasks: Annotated[int, Meta(ge=0, le=1_000_000)] = 5
    current_load: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class AgentIn(Struct):
    """An agent that registers. The SDK passes on whatever its user gives, so other fields are left aside."""

    agent_id: Name
    capabilities: Annotated[list[Capability], Meta(max_length=256)] | None = None
    role_id: Name | None = None
    name: Line | None = None
    capacity: CapacityIn | None = None
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
    """That an agent is alive, and how busy it is."""

    status: Line = "active"
    current_load: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    tasks_in_progress: Annotated[list[Line], Meta(max_length=1_000)] = []


class AgentStatusIn(Struct, forbid_unknown_fields=True):
    """What an agent is to be from now on; deregistered ends it."""

    status: Literal["active", "draining", "deregistered"]


class HolderIn(Struct, forbid_unknown_fields=True):
    """An agent that is to hold a role."""

    agent_id: Name


# ---------------------------------------------------------------- what goes out (for the published schemas)


class TenantOut(Struct):
    """A tenant."""

    id: str
    name: str
    created_at: Time


class KeyOut(Struct):
    """A key, without its secret."""

    id: str
    kind: KeyKind
    tenant_id: str
    agent_id: str | None
    user_id: str | None
    operator: bool
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None


class NewKeyOut(KeyOut):
    """A key with its secret, which is shown this once."""

    key: str


class CapacityOut(Struct):
    max_concurrent_tasks: int
    current_load: int


class HeartbeatConfigOut(Struct):
    interval_seconds: int
    unhealthy_after_seconds: int
    dead_after_seconds: int


class AgentOut(Struct):
    """An agent's record."""

    agent_id: str
    status: AgentStatus
    role_id: str | None
    name: str | None
    capabilities: list[str]
    capacity: CapacityOut
    endpoint: str | None
    heartbeat_config: HeartbeatConfigOut
    metadata: Mapping
    registered_at: Time
    last_heartbeat_at: Time | None
    drain_timeout_seconds: int | None
    version: int
    public_key: str | None
    did: str | None
    key_algorithm: str | None
    key_registered_at: Time | None
    key_expires_at: Time | None
    previous_keys: list[str]
    tenant_id: str
    org_unit: str
    user_id: str | None
    team: str | None
    max_classification: Classification
    can_receive_queries: bool
    can_auto_respond: bool
    supported_exchange_types: list[Purpose]
    max_rounds_accepted: int | None


class HeartbeatOut(Struct):
    """When the next heartbeat is due."""

    status: Literal["ok"]
    agent_status: AgentStatus
    server_timestamp: Time
    next_heartbeat_at: Time


class RoleOut(Struct):
    """A role and who holds it."""

    role_id: str
    holders: list[str]


# ---------------------------------------------------------------- from domain


def tenant(shown: Tenant) -> dict[str, Any]:
    return {"id": shown.id, "name": shown.title, "created_at": shown.created_at}


def key(shown: Key) -> dict[str, Any]:
    return {
        "id": shown.id,
        "kind": shown.key_kind.value,
        "tenant_id": shown.owner,
        "agent_id": shown.agent_id or None,
        "user_id": shown.user_id or None,
        "operator": shown.operator,
        "created_at": shown.created_at,
        "expires_at": shown.expires_at or None,
        "revoked_at": shown.revoked_at or None,
    }


def new_key(shown: Key, secret: str) -> dict[str, Any]:
    return {**key(shown), "key": secret}


def agent(record: AgentRecord, status: AgentStatus, identity: Identity | None) -> dict[str, Any]:
    """An agent as the SDK reads it."""
    return {
        "agent_id": record.id,
        "status": status.value,
        "role_id": record.role_id or None,
        "name": record.title or None,
        "capabilities": list(record.capabilities),
        "capacity": {
            "max_concurrent_tasks": record.max_concurrent_tasks,
            "current_load": record.current_load,
        },
        "endpoint": record.endpoint or None,
        "heartbeat_config": {
            "interval_seconds": int(HEARTBEAT_EVERY.total_seconds()),
            "unhealthy_after_seconds": int(UNHEALTHY_AFTER.total_seconds()),
            "dead_after_seconds": int(DEAD_AFTER.total_seconds()),
        },
        "metadata": record.metadata,
        "registered_at": record.registered_at,
        "last_heartbeat_at": record.last_heartbeat_at or None,
        "drain_timeout_seconds": record.drain_timeout_seconds,
        "version": record.version,
        "public_key": identity.public_key if identity else None,
        "did": identity.did if identity else None,
        "key_algorithm": "Ed25519" if identity else None,
        "key_registered_at": identity.registered_at if identity else None,
        "key_expires_at": (identity.expires_at or None) if identity else None,
        "previous_keys": list(identity.previous_keys) if identity else [],
        "tenant_id": record.tenant_id,
        "org_unit": record.attributes.org_unit,
        "user_id": record.attributes.user_id or None,
        "team": record.attributes.team or None,
        "max_classification": record.attributes.max_classification.value,
        "can_receive_queries": record.attributes.can_receive_queries,
        "can_auto_respond": record.attributes.can_auto_respond,
        "supported_exchange_types": [one.value for one in record.attributes.supported_exchange_types],
        "max_rounds_accepted": record.attributes.max_rounds_accepted,
    }


def role(shown: Role) -> dict[str, Any]:
    return {"role_id": shown.id, "holders": [one.agent for one in shown.holders]}


# ---------------------------------------------------------------- to domain


def attributes_of(given: AgentIn, known: Attributes) -> Attributes | None:
    """What an admin says about an agent, over what was known; None when nothing is said."""
    said = {name: value for name in _ATTRIBUTES if (value := getattr(given, name)) is not None}
    if not said:
        return None
    if "supported_exchange_types" in said:
        said["supported_exchange_types"] = tuple(dict.fromkeys(said["supported_exchange_types"]))
    return replace(known, **said)


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


def check_metadata(given: Mapping | None, most: int) -> None:
    if given and len(json.encode(given)) > most:
        raise Invalid.because([Problem("too_large", "metadata", f"at most {most} bytes")])


def lenient_moment(text: str | None, field: str) -> datetime | None:
    """A time as the SDK sends it: whatever its user had, so one without an offset is UTC."""
    if text is not None and re.fullmatch(_NAIVE, text):
        text += "+00:00"
    return moment(text, field)
