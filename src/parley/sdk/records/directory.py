"""Who there is, as records: agents and their keys, roles, tenants, and the server itself."""

from __future__ import annotations

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

__all__ = [
    "AgentInfo",
    "Bookmark",
    "Challenge",
    "Health",
    "Heartbeat",
    "Identity",
    "Key",
    "NewKey",
    "Role",
    "ServerInfo",
    "SignatureCheck",
    "Tenant",
]
