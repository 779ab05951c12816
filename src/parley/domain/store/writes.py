"""What a transaction of the team's store writes in a certain order, because one depends on the rows of another.

Tenants and channels are named by their numbers, as the rows have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from parley.domain.channel.post import Post, Receipt
    from parley.domain.store.changes import ErasableMessage


class InsertPosts(NamedTuple):
    """Messages in their places, by tenant and channel number; and the requests that they answer."""

    posts: list[tuple[int, int, Post]]
    answered: list[tuple[int, str]]


class MovePost(NamedTuple):
    """A pending message has found its recipients, and takes its new place."""

    tenant: int
    post: Post


class ExpirePost(NamedTuple):
    """A message ends, unless it is answered."""

    tenant: int
    message_id: str


class ExpireChannel(NamedTuple):
    """What waits in a channel ends: pending messages, and requests without an answer."""

    channel: int


class ExpireRequests(NamedTuple):
    """The unanswered requests to an agent end."""

    tenant: int
    agent: str


class EvictPosts(NamedTuple):
    """Messages of a channel up to a place are removed, with their receipts."""

    tenant: int
    channel: int
    floor: int


class InsertReceipts(NamedTuple):
    """Receipts; the first one for a message and an agent counts."""

    tenant: int
    receipts: tuple[Receipt, ...]


class EraseContent(NamedTuple):
    """Messages lose what they say."""

    tenant: int
    messages: tuple[ErasableMessage, ...]


class TrimAudit(NamedTuple):
    """Audit entries up to a number lose their documents."""

    tenant: int
    through: int


class ForgetKeys(NamedTuple):
    """Idempotency keys and budgets from before a moment are no longer needed."""

    before: str


Write = (
    InsertPosts
    | MovePost
    | ExpirePost
    | ExpireChannel
    | ExpireRequests
    | EvictPosts
    | InsertReceipts
    | EraseContent
    | TrimAudit
    | ForgetKeys
)
