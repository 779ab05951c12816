"""The direct channel of two agents: a closed intent with the two of them, and one channel on it; one for each pair.

Its ids follow from the pair, so two first messages at once make one channel.
"""

from __future__ import annotations

from base64 import b32encode
from hashlib import sha256
from typing import NamedTuple

from parley.domain.channel.channel import Channel, Member, MemberPolicy
from parley.domain.directory.access import Access, AccessPolicy, Grant, Permission
from parley.domain.directory.callers import SYSTEM
from parley.domain.directory.intent import Intent, IntentStatus

LABEL = "direct"
_ID_CHARS = 26


class DirectIds(NamedTuple):
    """The ids of a direct channel and of its intent."""

    channel_id: str
    intent_id: str


class DirectRecords(NamedTuple):
    """What the first message between two agents creates."""

    intent: Intent
    access: Access
    channel: Channel


def direct_pair(one: str, other: str) -> tuple[str, str]:
    """Two agents in the order in which they are stored."""
    return (one, other) if one < other else (other, one)


def direct_ids(tenant: str, one: str, other: str) -> DirectIds:
    """The ids of the direct channel of two agents, whoever speaks first."""
    digest = sha256("\n".join((tenant, *direct_pair(one, other))).encode()).digest()
    suffix = b32encode(digest).decode()[:_ID_CHARS]
    return DirectIds(f"chan_{suffix}", f"intent_{suffix}")


def new_direct(tenant: str, one: str, other: str, now: str) -> DirectRecords:
    """A new direct channel. It belongs to the server: neither of the two can close it or let others in."""
    ids, pair = direct_ids(tenant, one, other), direct_pair(one, other)
    intent = Intent(
        id=ids.intent_id,
        tenant_id=tenant,
        title=f"Direct: {' and '.join(pair)}",
        created_by=SYSTEM,
        status=IntentStatus.ACTIVE,
        created_at=now,
        updated_at=now,
    )
    grants = tuple(
        [
            Grant(
                id=f"{ids.intent_id.replace('intent_', 'acl_', 1)}{number}",
                principal_id=agent,
                permission=Permission.WRITE,
                granted_by=SYSTEM,
                reason="a direct channel",
                granted_at=now,
                since=0,
            )
            for number, agent in enumerate(pair)
        ]
    )
    access = Access(
        id=ids.intent_id,
        tenant_id=tenant,
        created_by=SYSTEM,
        policy=AccessPolicy.CLOSED,
        grants=grants,
        reaches_all=False,
    )
    channel = Channel(
        id=ids.channel_id,
        tenant_id=tenant,
        intent_id=ids.intent_id,
        label=LABEL,
        created_by=SYSTEM,
        created_at=now,
        members=tuple([Member(agent=agent) for agent in pair]),
        policy=MemberPolicy.EXPLICIT,
        direct=pair,
    )
    return DirectRecords(intent, access, channel)
