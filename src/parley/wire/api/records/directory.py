"""Agents, keys, roles, identities, bookmarks and the server in API responses."""

from typing import Annotated

import msgspec
from msgspec import Meta

from parley.wire.api.records.record import Mapping, Record, Timestamp, repr_without

# ---------------------------------------------------------------- agents, keys and roles


class Tenant(Record, frozen=True, kw_only=True):
    """A tenant."""

    __module__ = "parley"

    id: str
    name: str
    created_at: Timestamp


class Key(Record, frozen=True, kw_only=True):
    """A key, without its secret."""

    __module__ = "parley"

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

    __module__ = "parley"

    key: str

    def __repr__(self) -> str:
        return repr_without("key", self)


class KeyHolder(Record, frozen=True, kw_only=True):
    """Whose key a request carries. `agent_id` is the agent that it speaks for, `roles` those that this agent holds.

    For a person's key, `agents` are those that act for the person, and `is_approver` says whether a policy lets the
    person decide about messages of other people's agents.
    """

    __module__ = "parley"

    key_id: str
    kind: str
    operator: bool
    tenant_id: str
    agent_id: str | None = None
    user_id: str | None = None
    roles: list[str]
    agents: list[str] = msgspec.field(default_factory=list)
    is_approver: bool = False
    expires_at: Timestamp | None = None


class LoginSession(Record, frozen=True, kw_only=True):
    """A sign-in of a browser. `via` says how it began: by "key", or by a "link" that is used once."""

    __module__ = "parley"

    id: str
    key_id: str
    user_id: str | None = None
    via: str
    created_at: Timestamp
    expires_at: Timestamp


class EndedSessions(Record, frozen=True, kw_only=True):
    """How many sign-ins were ended."""

    __module__ = "parley"

    ended: int


class LoginLink(Record, frozen=True, kw_only=True):
    """A secret in `once` with which a browser signs in one time. It belongs into the fragment of an address."""

    __module__ = "parley"

    once: str
    expires_at: Timestamp

    def __repr__(self) -> str:
        return repr_without("once", self)


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

    __module__ = "parley"

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
    online: Annotated[bool, Meta(description="It has a stream open on any server, or heartbeats in time.")] = False
    last_seen_at: Annotated[
        Timestamp | None,
        Meta(description="Now while a stream is open; else its last heartbeat, or when its last stream here ended."),
    ] = None
    open_asks: Annotated[int, Meta(description="Requests that wait for its answer, of those that you may see.")] = 0

    @property
    def presence(self) -> str:
        """Whether it is there: "online", "stopping", "away" (silent for a while), "offline", "left", or "never seen".

        `last_seen_at` is when it was last seen.
        """
        from parley.domain.agents.presence import presence_of

        # A server of before 0.7 does not say whether it is online.
        last_seen = self.last_seen_at or self.last_heartbeat_at
        online = self.online or (self.status == "active" and last_seen is not None and self.last_seen_at is None)
        return presence_of(self.status, last_seen, online=online)


class Heartbeat(Record, frozen=True, kw_only=True):
    """When the next heartbeat is due."""

    __module__ = "parley"

    status: str
    agent_status: str
    server_timestamp: Timestamp
    next_heartbeat_at: Timestamp


class Role(Record, frozen=True, kw_only=True):
    """A role and its holders."""

    __module__ = "parley"

    role_id: str
    holders: list[str]


# ---------------------------------------------------------------- identity


class Challenge(Record, frozen=True, kw_only=True):
    """The challenge that an agent signs to prove its key, and its expiry."""

    __module__ = "parley"

    agent_id: str
    challenge: str
    challenge_expires_at: Timestamp


class Identity(Record, frozen=True, kw_only=True):
    """The public key that an agent has proved."""

    __module__ = "parley"

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

    __module__ = "parley"

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

    __module__ = "parley"

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

    __module__ = "parley"

    status: str


class Implementation(Record, frozen=True, kw_only=True):
    """The name and version of the server."""

    name: str
    version: str


class ServerInfo(Record, frozen=True, kw_only=True):
    """The protocols that the server supports."""

    __module__ = "parley"

    protocol: str
    version: str
    rfc_urls: list[str] = msgspec.field(name="rfcUrls", default_factory=list)
    capabilities: list[str]
    openapi_url: str = msgspec.field(name="openApiUrl", default="")
    api_base_url: str = msgspec.field(name="apiBaseUrl", default="")
    implementation: Implementation
