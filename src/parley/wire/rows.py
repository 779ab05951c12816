"""Records, posts and events as rows, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from parley.domain.channel.channel import Channel, Tally
from parley.domain.channel.event import Event
from parley.domain.channel.post import Post, PostState
from parley.domain.mailbox.ledger import Entry
from parley.domain.message.message import Pattern
from parley.domain.store.changes import UNCOUNTED, ConversationMark, TrafficCount, TrafficGroup
from parley.wire.parts import conversation_of, is_partial

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.record import Record

# number = tenant * 2^40 + position
SHIFT = 40
MASK = (1 << SHIFT) - 1

POST = (
    "post.number, tally.id, post.seq, post.id, sender, addressee, pattern, in_reply_to, created_at, expires_at, state,"
    " recipients, answered, payload, metadata, tally.intent, exchange"
)
# What `mark_from_row` reads.
MARK = "post.number, tally.id, sender, recipients, metadata, exchange"
EVENT = "number, intent_id, sequence, id, event_type, actor, created_at, trace_id, document, hash"

_DECODERS: dict[type[Record], msgspec.json.Decoder[Any]] = {}
_PATTERNS = {pattern.value: pattern for pattern in Pattern}
_STATES = {state.value: state for state in PostState}


def post_to_row(post: Post, tenant: int, channel: int) -> tuple[Any, ...]:
    return (
        tenant << SHIFT | post.position,
        channel,
        post.seq,
        post.id,
        post.sender,
        post.to,
        post.pattern._value_,  # `value` is looked up by a function, in Python
        post.in_reply_to,
        post.created_at,
        post.expires_at,
        post.state._value_,
        joined(post.recipients),
        post.answered,
        post.payload,
        post.metadata,
        post.exchange_id,
    )


def joined(recipients: tuple[str, ...] | None) -> str | None:
    """Recipients as one text with a comma before and after each; None is everyone."""
    return None if recipients is None else f",{','.join(recipients)},"


def separate(recipients: str | None) -> tuple[str, ...]:
    """The recipients of such a text; none for everyone."""
    return tuple(filter(None, (recipients or "").split(",")))


def post_from_row(row: Any) -> Post:  # noqa: ANN401  # a row of either database
    # Unpacked, and in the order of the fields: a list does this for every message.
    number, channel_id, seq, post_id, sender, to, pattern, in_reply_to, created_at, expires_at, state, *rest = row
    recipients, answered, payload, metadata, intent_id, exchange_id, *_ = rest
    kind = _PATTERNS[pattern]
    return tuple.__new__(
        Post,
        (
            post_id,
            channel_id,
            sender,
            to,
            kind,
            in_reply_to,
            payload,
            metadata,
            created_at,
            expires_at,
            _STATES[state],
            None if recipients is None else separate(recipients),
            intent_id,
            number & MASK,
            seq,
            bool(answered),
            exchange_id,
            is_partial(kind, metadata),
        ),
    )


def channels_from_rows(channel_rows: Iterable[Any]) -> tuple[tuple[Channel, Tally], ...]:
    """Channels with their counters; one in which nobody has spoken has none."""
    return tuple(
        [
            (record_from_row(Channel, version, document), Tally(count or 0, last_at or "", floor or 0))  # type: ignore[misc]
            for version, document, count, last_at, floor in channel_rows
        ]
    )


def marks_from_rows(mark_rows: Iterable[Any]) -> tuple[ConversationMark, ...]:
    return tuple(filter(None, map(mark_from_row, mark_rows)))


def mark_from_row(row: Any) -> ConversationMark | None:  # noqa: ANN401  # a row of either database
    """The mark of a message whose metadata mention a conversation; None when they only seem to."""
    number, channel_id, sender, recipients, metadata, exchange = row
    conversation_id = conversation_of(metadata, exchange)
    if not conversation_id:
        return None
    readers = None if recipients is None else tuple(filter(None, recipients.split(",")))
    return ConversationMark(number & MASK, conversation_id, channel_id, sender, readers)


def traffic_from_rows(traffic_rows: Iterable[Any]) -> TrafficCount:
    """Groups of messages, each with its recipients apart; what is kept has whole numbers, counts have positions."""
    groups, uncounted = [], []
    for kind, place, sender, receivers, number, last_at, low, high in traffic_rows:
        if kind == UNCOUNTED:
            uncounted.append(place)
            continue
        to, recipients = _receivers(receivers)
        groups.append(TrafficGroup(kind, place, sender, to, recipients, number, last_at, low & MASK, high & MASK))
    return TrafficCount(tuple(groups), tuple(uncounted))


def _receivers(text: str) -> tuple[str, tuple[str, ...] | None]:
    """The address, or the recipients: `*` is everyone. Those of an audit entry are JSON."""
    if text == "*":
        return "", None
    if text.startswith("["):
        return "", tuple(msgspec.json.decode(text, type=list[str]))
    return ("", separate(text)) if text.startswith(",") else (text, ())


def event_from_row(row: Any) -> Event:  # noqa: ANN401  # a row of either database
    return Event(row[0] & MASK, *row[1:])


def event_to_row(event: Event, tenant: int) -> tuple[Any, ...]:
    return (tenant << SHIFT | event.position, *event[1:])


def record_to_row(record: Record, version: int) -> tuple[Any, ...]:
    document = msgspec.json.encode(record)
    return (record.tenant_id, record.kind, record.id, version, record.parent, record.name, record.due, document)


def record_from_row(kind: type[Record], version: int, document: bytes) -> Record:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    record: Record = decoder.decode(document)
    object.__setattr__(record, "version", version)  # the one in the document is the one that it replaced
    return record


def entry_from_row(document: str) -> Entry:
    fields: dict[str, Any] = msgspec.json.decode(document)
    del fields["position"]
    return Entry(**fields)


def encode_audit_entry(document: dict[str, Any]) -> bytes:
    """An audit entry as it is hashed: keys are ASCII and numbers whole, so this is RFC 8785."""
    return _canonical(document)


_canonical = msgspec.json.Encoder(order="sorted").encode
