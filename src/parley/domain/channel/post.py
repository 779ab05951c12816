"""A message at its place in a channel: who gets it, what a reply must be, and how it ends.

pending ──> delivered ──> read          `read` is per recipient: a receipt beside the post
   │            │
   └────────────┴──> expired            at its `expires_at` unless answered, or when its channel or recipient goes

A post is to a channel what `StoredMessage` is to a mailbox: the message with the exact bytes that were sent.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.channel.channel import MemberPolicy, reaches
from parley.domain.channel.participation import takes_part
from parley.domain.channel.request import check_accepts_part, check_not_forwarded, check_not_withdrawn
from parley.domain.directory.callers import EVERYONE, ROLE_PREFIXES
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.team import (
    CLOSED_ADVICE,
    BadCorrelation,
    ChannelClosed,
    MessageExpired,
    NotAddressee,
    NotARequest,
    NotMember,
)
from parley.domain.message.message import Pattern
from parley.domain.times import stamp

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from datetime import datetime

    from parley.domain.channel.channel import Channel, View
    from parley.domain.channel.request import RequestState
    from parley.domain.content.envelope import Wishes
    from parley.domain.directory.access import Access
    from parley.domain.directory.callers import Role


class PostState(StrEnum):
    """The state of a message in its channel."""

    PENDING = "pending"
    DELIVERED = "delivered"
    EXPIRED = "expired"


READ = "read"
# The field of the metadata that says that a person wrote the message.
SENDER_KIND = b'"sender_kind"'
NO_UNITS: Mapping[str, str] = MappingProxyType({})
# The payload of an erased message.
NO_PAYLOAD = b"{}"
ERASED = b'{"erased":true}'


class PostDraft(NamedTuple):
    """A message that an agent proposes to post; payload and metadata as the JSON that was sent."""

    pattern: Pattern
    payload: bytes
    to: str = ""
    in_reply_to: str = ""
    metadata: bytes = b"{}"
    expires_at: datetime | None = None
    # Metadata that the log of an audited channel copies.
    trace_id: str = ""
    parent_event_id: str = ""
    proof: bytes = b""
    # What the sender asks for in a governed exchange.
    wishes: Wishes | None = None
    # Of a request: it accepts partial answers. Of a response: it is one.
    partial: bool = False
    # Of a request: the one that its sender hands on with it, and who sent that first.
    forwards: str = ""
    asker: str = ""
    # The payload as it was read, where somebody has read it.
    body: dict[str, Any] | None = None
    # Of a response: the lease under which its request was claimed.
    lease: str = ""
    # Whether it may wait for somebody who could get it: False refuses it at once when there is nobody. None: what is
    # for an agent or a role may, as RFC-0021 has it; what is for one of a role only if the role was granted before.
    wait_for_responders: bool | None = None


class Post(NamedTuple):
    """A message in a channel. `position` is its place in the tenant, `seq` its place in the channel; 0: not yet."""

    id: str
    channel_id: str
    sender: str
    to: str
    pattern: Pattern
    in_reply_to: str
    payload: bytes
    metadata: bytes
    created_at: str
    expires_at: str
    state: PostState
    # None: everyone who takes part at that moment. Otherwise exactly these.
    recipients: tuple[str, ...] | None
    intent_id: str
    position: int = 0
    seq: int = 0
    answered: bool = False
    # The exchange that it is part of, when it is governed.
    exchange_id: str = ""
    # Of a request: it accepts partial answers. Of a response: it is one. The metadata say so.
    partial: bool = False

    def at_place(self, position: int, seq: int, created_at: str) -> Post:
        """The message at its place. Every message gets one, and `_replace` takes three times as long."""
        return tuple.__new__(Post, (*self[:8], created_at, *self[9:13], position, seq, *self[15:]))

    def with_content(
        self,
        message_id: str,
        in_reply_to: str,
        payload: bytes,
        metadata: bytes,
        at: str,
        expires_at: str,
        exchange_id: str,
        *,
        partial: bool,
    ) -> Post:
        """This message with another id, content, time and exchange. The fields are cut by their order."""
        content = (in_reply_to, payload, metadata, at, expires_at)
        return Post._make((message_id, *self[1:5], *content, *self[10:16], exchange_id, partial))

    @property
    def erased(self) -> bool:
        """Whether its content was erased."""
        return self.metadata == ERASED

    def over(self, now: str) -> bool:
        """Whether its time has passed: it is neither delivered nor answered any more."""
        return self.state is PostState.EXPIRED or (self.expires_at != "" and self.expires_at <= now)

    def expired(self, now: str) -> bool:
        """Whether it has ended unanswered: it is no longer listed. An answered request stays in the history."""
        if self.state is PostState.EXPIRED:
            return True
        return self.expires_at != "" and self.expires_at <= now and not self.answered

    def visible_to(self, view: View) -> bool:
        """Whether the reader with this view is its sender, a recipient, or may see everything."""
        agent = view.agent
        if not agent or agent == self.sender:
            return True
        if self.recipients is None:
            return self.position > view.since
        return agent in self.recipients


class Receipt(NamedTuple):
    """A recipient has acknowledged a message.

    Beside it there may be one of the same message for `agent/done`, from when the agent finished it under its lease;
    and for `agent/handed`, where the server said "read" for the agent when it handed out an answer. No name has a `/`.
    """

    message_id: str
    agent: str
    read_at: str


DONE_MARK = "/done"
HANDED_MARK = "/handed"


def status_of(post: Post, read_at: str, now: str) -> str:
    """The status that one reader sees: its own receipt, else how the message stands."""
    if read_at:
        return READ
    # `value` is looked up by a function, in Python, and a list does this for every message.
    return PostState.EXPIRED._value_ if post.expired(now) else post.state._value_


def place(  # noqa: PLR0913  # everything that the rule depends on, in one place
    draft: PostDraft,
    message_id: str,
    now: datetime,
    sender: str,
    view: View,
    channel: Channel,
    access: Access,
    *,
    role: Role | None = None,
    request: Post | None = None,
    request_state: RequestState | None = None,
    units: Mapping[str, str] = NO_UNITS,
    joined: Container[str] = (),
    longest: timedelta = timedelta(days=30),
) -> Post:
    """Make the post of a draft, with its recipients; an error if it may not be posted.

    `role` is the role it is addressed to, `request` the request it answers, with its state. `units` are the org units
    of the addressed agents, where the access list names units; `joined` has those holders of the role that joined the
    intent.
    """
    at = stamp(now)
    if not channel.is_open:
        advice = f": {CLOSED_ADVICE}" if channel.options.ttl_seconds is not None else ""
        raise ChannelClosed(f"the channel {channel.label} is closed{advice}")
    if not view.takes_part or not view.may_write:
        raise NotMember(
            "you may not write in this channel", hint=f"ask {channel.created_by}, who created it, to let you in"
        )
    answers = draft.pattern is Pattern.RESPONSE
    if answers:
        to = _recipient_of_answer(draft, request, request_state, channel, sender, at)
    else:
        to = _recipient_of_message(draft)
    recipients = _recipients(to, channel, access, role, at, units, joined)
    return Post(
        id=message_id,
        channel_id=channel.id,
        sender=sender,
        to=to,
        pattern=draft.pattern,
        # An answer to a request that was handed on answers the first one.
        in_reply_to=request.id if answers and request is not None else draft.in_reply_to,
        payload=draft.payload,
        metadata=draft.metadata,
        created_at=at,
        expires_at=expiry(draft.expires_at, now, longest),
        state=PostState.PENDING if recipients == () else PostState.DELIVERED,
        recipients=recipients,
        intent_id=channel.intent_id,
        partial=draft.partial,
    )


def expiry(requested: datetime | None, now: datetime, longest: timedelta) -> str:
    """The stamp of `expires_at`, or why it cannot be."""
    if requested is None:
        return ""
    if requested <= now:
        raise _invalid("expires_at", "is in the past")
    if requested - now > longest:
        raise _invalid("expires_at", f"is more than {longest.days} days away")
    return stamp(requested)


def _recipient_of_message(draft: PostDraft) -> str:
    if draft.in_reply_to:
        raise _invalid("correlation_id", f"a {draft.pattern.value} answers nothing")
    if draft.pattern is Pattern.REQUEST and draft.to in ("", EVERYONE):
        raise _invalid("to", "a request needs an agent or a role to answer it")
    if draft.pattern is Pattern.BROADCAST and draft.to not in ("", EVERYONE):
        raise _invalid("to", "a broadcast goes to everyone; leave it out or write *")
    return EVERYONE if draft.pattern is Pattern.BROADCAST else draft.to


def _recipient_of_answer(  # what the rule depends on
    draft: PostDraft, request: Post | None, state: RequestState | None, channel: Channel, sender: str, now: str
) -> str:
    """The recipient of a response: the sender of the request."""
    if not draft.in_reply_to:
        raise _invalid("correlation_id", "a response names the request that it answers")
    if request is None or request.channel_id != channel.id or request.pattern is not Pattern.REQUEST:
        raise BadCorrelation("correlation_id: no such request in this channel")
    check_answerable(request, sender, now, state)
    if draft.partial:
        check_accepts_part(request, state)
    if draft.to not in ("", request.sender):
        raise _invalid("to", "a response goes to the one who asked")
    return request.sender


def check_answerable(request: Post, sender: str, now: str, state: RequestState | None = None) -> None:
    """Refuse a response unless the request is open and was sent to its sender."""
    if request.pattern is not Pattern.REQUEST:
        raise NotARequest(f"{request.id} is a {request.pattern.value}; only a request is answered")
    if request.recipients is not None and sender not in request.recipients:
        raise NotAddressee(f"{request.id} was not addressed to {sender}")
    check_not_withdrawn(request, state)
    check_not_forwarded(request, state, sender)
    if request.over(now):
        raise MessageExpired(f"{request.id} expired before it was answered")


def _recipients(
    to: str,
    channel: Channel,
    access: Access,
    role: Role | None,
    now: str,
    units: Mapping[str, str],
    joined: Container[str],
) -> tuple[str, ...] | None:
    if to in ("", EVERYONE):
        return None
    if to.startswith(ROLE_PREFIXES):
        return holders(role, channel, access, now, units, joined)
    if not reaches(channel, access, to, now, units.get(to, "")):
        facts = {"to": to}
        if channel.direct:
            hint = f'ask it yourself: parley ask {to}, or in Python client.direct("{to}").ask(...)'
            hint += "; then answer with what it says"
            raise NotMember(f"{to} gets nothing from the direct channel of two other agents", hint=hint, facts=facts)
        if channel.policy is MemberPolicy.EXPLICIT:
            hint = f'add it: PATCH /channels/{channel.id} {{"add_members": ["{to}"]}}, or in Python '
            hint += f'client.update_channel("{channel.id}", add_members=["{to}"])'
            raise NotMember(f"{to} is not a member of this channel", hint=hint, facts=facts)
        hint = (
            f'let it in: parley intent assign {access.id} {to}, or in Python client.assign_agent("{access.id}", "{to}")'
        )
        raise NotMember(f"{to} is not on this intent", hint=hint, facts=facts)
    return (to,)


def holders(
    role: Role | None,
    channel: Channel,
    access: Access,
    now: str,
    units: Mapping[str, str] = NO_UNITS,
    joined: Container[str] = (),
) -> tuple[str, ...]:
    """Who holds the role and takes part in the channel, at this moment. `joined` has those that joined the intent."""
    if role is None:
        return ()
    return tuple(
        holder.agent
        for holder in role.holders
        if takes_part(channel, access, holder.agent, now, units.get(holder.agent, ""), joined=holder.agent in joined)
    )


def _invalid(field: str, detail: str) -> Invalid:
    return Invalid.because([Problem("invalid", field, detail)])
