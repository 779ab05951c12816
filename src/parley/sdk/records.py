"""A server's answer as records: the classes of `wire.api.records`, which the server encodes."""

from typing import Any, TypeVar

import msgspec

from parley.domain.errors.errors import Unavailable
from parley.wire.api.records.channels import ChannelMessage, EvictedMessages
from parley.wire.api.records.intents import Event
from parley.wire.api.records.record import Record

R = TypeVar("R")


class StreamItem(Record, frozen=True, kw_only=True):
    """What comes on a stream: a message, an event of an intent's log, or that messages are no longer kept.

    `id` is the place on the stream: give it as `after` to go on behind it. `name` is `channel_message`, or the type
    of the event; a state that was patched is called `state_changed`. `evicted` comes first when you go on behind
    messages that a channel no longer keeps: some of them may have been for you.
    """

    __module__ = "parley"

    id: str
    name: str
    message: ChannelMessage | None = None
    event: Event | None = None
    evicted: EvictedMessages | None = None


class LiveItem(Record, frozen=True, kw_only=True):
    """What comes on a live stream: `name` says what it is, `document` is that thing as the API has it.

    The names are `approval` (a summary), `exchange`, `agent`, `audit` (an entry), `suspensions` (all of them),
    `channel_message`, or the type of an event. `id` is the place in both logs: give it as `after` to go on behind it.
    """

    __module__ = "parley"

    id: str
    name: str
    document: Any


def read_answer(content: bytes, kind: type[R]) -> R:
    """A record, or a list of them, from the server's JSON."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from None


def convert_answer(document: object, kind: type[R]) -> R:
    """A record, or a list of them, from JSON that was decoded before."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> Unavailable:
    return Unavailable(f"the server's answer cannot be understood: {error}")
