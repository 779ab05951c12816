"""RFC-0021 as JSON: channels and messages, bytes to domain and back; pure.

The fields of a message that are ids, names and times need no escaping, and payload and metadata are JSON already, so a
message is put together from its parts. That is several times faster than encoding it, and a list is just many of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from parley.domain.channel.channel import ChannelStatus, MemberPolicy, Options
from parley.domain.channel.post import PostDraft, status_of
from parley.domain.content.disclosure import DISCLOSURE
from parley.domain.content.invisible_characters import made_visible
from parley.domain.directory.callers import SYSTEM, address
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.exchange.exchange import summary_of
from parley.domain.message.message import Pattern
from parley.domain.times import parse_time
from parley.wire.api.events import trace_of
from parley.wire.api.records.channels import (
    Channel,
    ChannelOptions,
    Conversation,
    MessageSummary,
    RecentChannel,
    Timer,
)
from parley.wire.api.records.record import Mapping, fill_record
from parley.wire.ocip import DISCLOSURE as DISCLOSURE_FIELD
from parley.wire.ocip import wishes_of
from parley.wire.parts import FORWARDED, conversation_of, partial_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from parley.domain.channel.channel import Channel as StoredChannel
    from parley.domain.channel.channel import Tally
    from parley.domain.channel.post import Post
    from parley.domain.channel.timer import Timer as StoredTimer
    from parley.domain.store.changes import ReaderPost
    from parley.domain.store.limits import TeamLimits

# A dollar sign alone would let a line end through.
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$(?!\n)", description="An agent or channel name.")]
Text = Annotated[str, Meta(max_length=64 * 1024)]
Time = Annotated[str, Meta(description="RFC 3339 with an offset.", extra_json_schema={"format": "date-time"})]
Lease = Annotated[str, Meta(max_length=64, description="Of a response: the lease under which its request was claimed.")]
WaitForResponders = Annotated[
    bool, Meta(description="Wait also when no such agent is known, or nobody holds the role; else no_responders.")
]

_encode = msgspec.json.Encoder().encode
# What most messages have.
_NO_METADATA = b"{}"
_OURS = frozenset({DISCLOSURE_FIELD, FORWARDED})
# The bytes of `"":0,`: what is shorter than so many of them cannot hold too many keys, and is not counted.
_SHORTEST_FIELD = 5


# ---------------------------------------------------------------- what comes in


class OptionsIn(Struct, forbid_unknown_fields=True):
    """How a channel stores its messages."""

    audit: bool = False
    ttl_seconds: Annotated[int, Meta(ge=1, le=10 * 365 * 86_400)] | None = None
    max_messages: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000


class ChannelIn(Struct, forbid_unknown_fields=True):
    """A channel to create. Its creator is the agent of the key; a key for several agents may name it."""

    name: Name
    created_by: Name | None = None
    members: Annotated[list[Name], Meta(max_length=256)] = []
    member_policy: MemberPolicy = MemberPolicy.INTENT
    task_id: Annotated[str, Meta(max_length=64)] | None = None
    options: OptionsIn | None = None


class OptionsPatch(Struct, forbid_unknown_fields=True):
    """Options to change; null removes a time to live."""

    audit: bool | UnsetType = UNSET
    ttl_seconds: Annotated[int, Meta(ge=1, le=10 * 365 * 86400)] | UnsetType | None = UNSET
    max_messages: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET


class ChannelPatch(Struct, forbid_unknown_fields=True):
    """Changes to a channel; `members` replaces the list."""

    members: Annotated[list[Name], Meta(max_length=256)] | UnsetType = UNSET
    add_members: Annotated[list[Name], Meta(max_length=256)] = []
    remove_members: Annotated[list[Name], Meta(max_length=256)] = []
    member_policy: MemberPolicy | UnsetType = UNSET
    options: OptionsPatch | UnsetType = UNSET
    status: ChannelStatus | UnsetType = UNSET


class MessageIn(Struct, forbid_unknown_fields=True):
    """A message to post. The sender is the agent of the key; a key for several agents names one."""

    payload: Mapping = {}
    message_type: Pattern = Pattern.NOTIFY
    sender: Name | None = None
    to: (
        Annotated[
            str, Meta(max_length=80, description="An agent, role:ROLE, any:ROLE (one of them), or * for everyone.")
        ]
        | None
    ) = None
    correlation_id: Annotated[str, Meta(max_length=64)] | None = None
    metadata: Mapping | None = None
    expires_at: Time | None = None
    lease: Lease | None = None


class TimerIn(MessageIn, forbid_unknown_fields=True, kw_only=True):
    """A message to post later: at a time, or after some seconds by the server's clock."""

    deliver_at: Time | None = None
    after_seconds: Annotated[float, Meta(gt=0, le=10 * 365 * 86_400)] | None = None


class ReplyIn(Struct, forbid_unknown_fields=True):
    """An answer to a request."""

    payload: Mapping = {}
    sender: Name | None = None
    metadata: Mapping | None = None
    expires_at: Time | None = None
    lease: Lease | None = None


class ForwardIn(Struct, forbid_unknown_fields=True):
    """To whom a request is handed on. Without a payload it says what the request says."""

    to: Annotated[str, Meta(max_length=80, description="An agent, role:ROLE or any:ROLE.")]
    payload: Mapping | None = None
    sender: Name | None = None
    metadata: Mapping | None = None
    lease: Lease | None = None
    wait_for_responders: WaitForResponders = False


class AskIn(Struct, forbid_unknown_fields=True):
    """A request whose answer is awaited."""

    to: Annotated[str, Meta(max_length=80, description="An agent, role:ROLE or any:ROLE.")]
    payload: Mapping
    sender: Name | None = None
    timeout: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    metadata: Mapping | None = None
    wait_for_responders: WaitForResponders = False


class TicketIn(Struct, forbid_unknown_fields=True):
    """Which stream a ticket is for."""

    path: Annotated[str, Meta(max_length=500, description="The path of the stream, like /api/v1/agents/bob/subscribe.")]


class BatchIn(Struct, forbid_unknown_fields=True):
    """Several messages for one channel; all are posted, or none."""

    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=100)]


class MessagePatch(Struct, forbid_unknown_fields=True):
    """The only possible change to a message: mark it as read."""

    status: Literal["read"]


# ---------------------------------------------------------------- to domain


def draft_of(message_in: MessageIn, limits: TeamLimits, traceparent: str = "") -> PostDraft:
    """The draft of a posted message; `traceparent` is the header of its request."""
    payload = _encode(message_in.payload)
    if len(payload) > limits.payload_keys * _SHORTEST_FIELD and key_count(message_in.payload) > limits.payload_keys:
        raise Invalid.because([Problem("too_many", "payload", f"at most {limits.payload_keys} keys")])
    metadata = message_in.metadata
    encoded = b"{}"
    trace = parent = ""
    proof = b""
    wishes = None
    partial = False
    if metadata:
        if not _OURS.isdisjoint(metadata):
            # Only the server says who wrote a message, and who handed it on.
            metadata = {name: value for name, value in metadata.items() if name not in _OURS}
        encoded = _encode(metadata)
        if len(encoded) > limits.metadata_bytes:
            raise Invalid.because([Problem("too_large", "metadata", f"at most {limits.metadata_bytes} bytes")])
        trace, parent = trace_fields(metadata)
        proof = _encode(metadata["proof"]) if "proof" in metadata else b""
        wishes = wishes_of(metadata)
        partial = partial_of(message_in.message_type, metadata)
    return PostDraft(
        message_in.message_type,
        payload,
        address(message_in.to) if message_in.to else "",
        message_in.correlation_id or "",
        encoded,
        moment(message_in.expires_at),
        trace or (trace_of(traceparent) if traceparent else ""),
        parent,
        proof,
        wishes,
        body=message_in.payload,
        partial=partial,
        lease=message_in.lease or "",
    )


def key_count(value: object) -> int:
    """How many keys a document has, on all levels."""
    if isinstance(value, dict):
        return len(value) + sum(map(key_count, value.values()))
    return sum(map(key_count, value)) if isinstance(value, list) else 0


def trace_fields(metadata: Mapping) -> tuple[str, str]:
    """Trace id and parent event that the log takes over; what is no trace id is left where it is."""
    trace, parent = metadata.get("trace_id"), metadata.get("parent_event_id")
    is_trace = isinstance(trace, str) and len(trace) == 32 and not trace.strip("0123456789abcdef")
    is_parent = isinstance(parent, str) and len(parent) <= 64
    return (trace if is_trace else ""), (parent if is_parent else "")  # type: ignore[return-value]


def moment(text: str | None, field: str = "expires_at") -> datetime | None:
    """A time, or the field's problem."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except Invalid as error:
        raise Invalid.because([Problem("invalid", field, error.message)]) from None


def options_of(options: OptionsIn | None) -> Options:
    if options is None:
        return Options()
    return Options(audit=options.audit, ttl_seconds=options.ttl_seconds, max_messages=options.max_messages)


# ---------------------------------------------------------------- from domain


def message(reader_post: ReaderPost, now: str) -> bytes:
    """A message as one reader sees it."""
    return posted(reader_post.post, status_of(reader_post.post, reader_post.read_at, now), reader_post.read_at)


def posted(post: Post, status: str, read_at: str = "", conversation_id: str = "") -> bytes:
    """A message with the status that its reader sees. An answer may be part of a conversation that it does not name."""
    to = f'"{post.to}"' if post.to else "null"
    correlation = f'"{post.in_reply_to}"' if post.in_reply_to else "null"
    expires = f'"{post.expires_at}"' if post.expires_at else "null"
    read = f'"{read_at}"' if read_at else "null"
    if post.metadata != _NO_METADATA:
        conversation_id = conversation_of(post.metadata, post.exchange_id) or conversation_id
    conversation = f'"{conversation_id}"' if conversation_id else "null"
    return (
        f'{{"id":"{post.id}","channel_id":"{post.channel_id}","sender":"{post.sender}","to":{to},'
        f'"message_type":"{post.pattern._value_}","correlation_id":{correlation},"status":"{status}",'
        f'"created_at":"{post.created_at}","expires_at":{expires},"read_at":{read},"seq":{post.seq},'
        f'"conversation_id":{conversation},"disclosure":{_disclosure(post)},"payload":'
    ).encode() + b'%b,"metadata":%b}' % (post.payload, post.metadata)


_LABEL = _encode(DISCLOSURE).decode()
# The server writes this as the last field of what a person says, and removes it from what others say.
_BY_A_PERSON = (b'{"sender_kind":"human"}', b',"sender_kind":"human"}')
# The rules stamp it as the last field. What follows is one string, so no match begins before the last of these.
_STAMP = b',"disclosure":"'
_STAMPED_LABEL = re.compile(rb',"disclosure":("(?:[^"\\]|\\.)*+")}\Z')


def _disclosure(post: Post) -> str:
    """The label of a message as JSON. Under the rules it is stamped; else an agent wrote what no person did."""
    if post.sender == SYSTEM:
        return "null"
    if post.exchange_id:
        stamped = _STAMPED_LABEL.match(post.metadata, max(0, post.metadata.rfind(_STAMP)))
        return stamped[1].decode() if stamped is not None else "null"
    return "null" if post.metadata.endswith(_BY_A_PERSON) else _LABEL


def messages(seen_posts: Iterable[ReaderPost], now: str) -> bytes:
    """A bare list of messages."""
    return b"[" + b",".join([message(reader_post, now) for reader_post in seen_posts]) + b"]"


def channel_of(stored: StoredChannel, tally: Tally) -> Channel:
    return fill_record(
        Channel,
        stored,
        name=stored.label,
        members=[member.agent for member in stored.members],
        member_policy=stored.policy,
        options=fill_record(ChannelOptions, stored.options),
        message_count=tally.total,
        last_message_at=tally.last_at,
    )


def summary_of_post(post: Post) -> MessageSummary:
    """A message in a list: its payload as one line, in which what would hide is spelled out."""
    payload = msgspec.json.decode(post.payload)
    notice = _notice_line(payload) if post.sender == SYSTEM else ""
    return fill_record(
        MessageSummary,
        post,
        message_type=post.pattern.value,
        summary=made_visible(summary_of(notice or payload)),
    )


def _notice_line(payload: Mapping) -> str:
    """A notice of the server in words: `approval decided: rejected, too early`. Its ids are in the message."""
    event = str(payload.get("event", "")).replace("_", " ")
    details = [str(payload[name]) for name in ("status", "note", "reason") if payload.get(name)]
    return f"{event}: {', '.join(details)}" if event and details else event


def recent_channel_of(stored: StoredChannel, tally: Tally, last: Post | None, seat: str) -> RecentChannel:
    """A channel in the list of all channels, with its newest message, and the agent of a person that reads it."""
    return fill_record(
        RecentChannel,
        channel_of(stored, tally),
        last_message=summary_of_post(last) if last is not None else None,
        seat=seat or None,
    )


def conversation_record(conversation_id: str, last: Post) -> Conversation:
    return Conversation(id=conversation_id, last_message=summary_of_post(last))


def timer_of(stored: StoredTimer) -> Timer:
    return fill_record(
        Timer,
        stored,
        message_type=stored.pattern.value,
        payload=msgspec.Raw(stored.payload.encode()),
        metadata=msgspec.Raw(stored.metadata.encode()),
        status="refused" if stored.code else "scheduled",
        error_code=stored.code,
        error=stored.reason,
    )
