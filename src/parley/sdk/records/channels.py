"""What a server says, as records: fields as attributes, and also by `record["field"]`.

They are the classes of `wire.api`, which the server encodes. What has to do with rules, approvals and proofs is in
`sdk.records.rules`, who there is in `sdk.records.directory`.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from parley.domain.errors.errors import Unavailable
from parley.wire.api.records.channels import (
    Attempt,
    Channel,
    ChannelMessage,
    ChannelOptions,
    NewSubscription,
    Subscription,
    SubscriptionSecret,
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

__all__ = [
    "AccessList",
    "AccessRequest",
    "Assignment",
    "Attempt",
    "ChainCheck",
    "Channel",
    "ChannelMessage",
    "ChannelOptions",
    "Checkpoint",
    "Consistency",
    "Event",
    "EventProof",
    "Grant",
    "Intent",
    "NewSubscription",
    "Record",
    "StreamItem",
    "Subscription",
    "SubscriptionSecret",
    "Task",
    "made",
    "read",
]

R = TypeVar("R")


class StreamItem(Record, frozen=True, kw_only=True):
    """What comes on a stream: a message, or an event of an intent's log.

    `id` is the place on the stream: give it as `after` to go on behind it. `name` is `channel_message`, or the type
    of the event; a state that was patched is called `state_changed`.
    """

    id: str
    name: str
    message: ChannelMessage | None = None
    event: Event | None = None


def read(content: bytes, kind: type[R]) -> R:
    """A record, or a list of them, from the server's JSON."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unavailable(f"the server's answer cannot be understood: {error}") from None


def made(document: object, kind: type[R]) -> R:
    """A record, or a list of them, from a document that was read before."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise Unavailable(f"the server's answer cannot be understood: {error}") from None
