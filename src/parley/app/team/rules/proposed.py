"""A message on its way through the rules, and what they make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from parley.domain.agents.agent import AgentRecord
    from parley.domain.audit.entry import AuditDraft
    from parley.domain.channel.channel import Channel
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.directory.access import Access
    from parley.domain.directory.callers import Caller
    from parley.domain.errors.errors import ParleyError
    from parley.domain.exchange.approval import Approval
    from parley.domain.record import Record
    from parley.domain.store.changes import Spend


class Message(NamedTuple):
    """A message at its place, before anybody has judged it."""

    caller: Caller
    channel: Channel
    access: Access
    draft: PostDraft
    placed: Post
    request: Post | None
    # The sender's record, if it has one.
    record: AgentRecord | None
    approval: Approval | None = None
    # What waits, and this is said by a person instead.
    instead_of: Approval | None = None
    # The record of the one agent that it is for, if it has one; the decision depends on it already.
    addressee: AgentRecord | None = None


class Governed(NamedTuple):
    """What the rules add to a commit: the message as it may be sent, or what stands in its place."""

    post: Post | None
    puts: tuple[Record, ...] = ()
    audits: tuple[AuditDraft, ...] = ()
    spends: tuple[Spend, ...] = ()
    held: Approval | None = None
    refusal: ParleyError | None = None
