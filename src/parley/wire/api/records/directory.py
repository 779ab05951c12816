"""Agents, keys, roles, identities, bookmarks and the server in API responses."""

from __future__ import annotations

import msgspec

from parley.wire.api.records.record import Mapping, Record, Timestamp, repr_without

# ---------------------------------------------------------------- agents, keys and roles


class Tenant(Record, frozen=True, kw_only=True):
    """A tenant."""

    id: str
    name: str
    created_at: Timestamp


class Key(Record, frozen=True, kw_only=True):
    """A key, without its secret."""

    id: str
    kind: str
    tenant_id: str
    agent_id: str | None = None
    user_id: str | None = None
    operator: bool
    created_at: Timestamp
    expires_at: Timestamp | None = None
    revoked_at: Timestamp | None = None


class NewKey(Key, frozen=True, kw_only=True):
    """A new key with its secret in `key`, which is shown only once."""

    key: str

    def __repr__(self) -> str:
        return repr_without("key", self)


class Capacity(Record, frozen=True, kw_only=True):
    """How many tasks an agent can run at once, and how many it runs."""

    max_concurrent_tasks: int
    current_load: int


class HeartbeatConfig(Record, frozen=True, kw_only=True):
    """How often an agent sends heartbeats, and when it counts as unhealthy or dead."""

    interval_seconds: int
    unhealthy_after_seconds: int
    dead_after_seconds: int


class AgentInfo(Record, frozen=True, kw_only=True):
    """An agent in the registry."""

    agent_id: str
    status: str
    role_id: str | None = None
    name: str | None = None
    capabilities: list[str]
    capacity: Capacity
    endpoint: str | None = None
    heartbeat_config: HeartbeatConfig
    metadata: Mapping
    registered_at: Timestamp
    last_heartbeat_at: Timestamp | None = None
    drain_timeout_seconds: int | None = None
    version: int
    public_key: str | None = None
    did: str | None = None
    key_algorithm: str | None = None
    key_registered_at: Timestamp | None = None
    key_expires_at: Timestamp | None = None
    previous_keys: list[str]
    tenant_id: str
    org_unit: str
    user_id: str | None = None
    team: str | None = None
    max_classification: str
    can_receive_queries: bool
    can_auto_respond: bool
    supported_exchange_types: list[str]
    max_rounds_accepted: int | None = None


class Heartbeat(Record, frozen=True, kw_only=True):
    """When the next heartbeat is due."""

    status: str
    agent_status: str
    server_timestamp: Timestamp
    next_heartbeat_at: Timestamp


class Role(Record, frozen=True, kw_only=True):
    """A role and its holders."""

    role_id: str
    holders: list[str]


# ---------------------------------------------------------------- identity


class Challenge(Record, frozen=True, kw_only=True):
    """The challenge that an agent signs to prove its key, and its expiry."""

    agent_id: str
    challenge: str
    challenge_expires_at: Timestamp


class Identity(Record, frozen=True, kw_only=True):
    """The public key that an agent has proved."""

    agent_id: str
    public_key: str
    did: str
    key_algorithm: str
    registered_at: Timestamp
    key_expires_at: Timestamp | None = None
    previous_keys: list[str]
    metadata: Mapping


class SignatureCheck(Record, frozen=True, kw_only=True):
    """Whether a signature is an agent's."""

    valid: bool
    agent_id: str
    did: str | None = None
    verified_at: Timestamp


# ---------------------------------------------------------------- bookmarks


class Bookmark(Record, frozen=True, kw_only=True):
    """The read position of an agent in its stream.

    All items up to `position` are finished, except those in `open`. `head` is the end of the stream.
    Only `holder`, which opened it last, can save it; `process` (`PID@HOST`) and `opened_at` say who that is. It was
    `interrupted` when the holder before had not closed it; then `attempts` counts how often each item in `open` was
    started.
    """

    agent_id: str
    name: str
    position: int
    open: list[int]
    attempts: list[int] = msgspec.field(default_factory=list)
    holder: str
    process: str | None = None
    opened_at: Timestamp | None = None
    interrupted: bool = False
    saved_at: Timestamp
    head: int


# ---------------------------------------------------------------- the server


class Health(Record, frozen=True, kw_only=True):
    """The health of the server: `ready` when it can write and read."""

    status: str


class Implementation(Record, frozen=True, kw_only=True):
    """The name and version of the server."""

    name: str
    version: str


class ServerInfo(Record, frozen=True, kw_only=True):
    """The protocols that the server supports."""

    protocol: str
    version: str
    rfc_urls: list[str] = msgspec.field(name="rfcUrls", default_factory=list)
    capabilities: list[str]
    openapi_url: str = msgspec.field(name="openApiUrl", default="")
    api_base_url: str = msgspec.field(name="apiBaseUrl", default="")
    implementation: Implementation
