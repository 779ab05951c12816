"""Ordered writes of a transaction: each may depend on rows that an earlier one wrote.

Tenants and channels are given by their numbers, as in the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from parley.domain.channel.post import Post, Receipt
    from parley.domain.store.changes import ErasableMessage


class InsertPosts(NamedTuple):
    """Insert messages at their places, by tenant and channel number, and mark the requests that they answer."""

    posts: list[tuple[int, int, Post]]
    answered: list[tuple[int, str]]


class MovePost(NamedTuple):
    """Move a pending message that has recipients now to its new place."""

    tenant: int
    post: Post


class ExpirePost(NamedTuple):
    """Expire a message, unless it is answered."""

    tenant: int
    message_id: str


class ExpireChannel(NamedTuple):
    """Expire the pending messages and unanswered requests of a channel."""

    channel: int


class ExpireRequests(NamedTuple):
    """Expire the unanswered requests to an agent, but for those that it has handed on."""

    tenant: int
    agent: str
    handed_on: tuple[str, ...] = ()


class EvictPosts(NamedTuple):
    """Remove the messages of a channel up to a place, with their receipts.

    One that waits in a queue stays until its job has ended, unless the channel itself is purged: the next eviction
    removes it.
    """

    tenant: int
    channel: int
    floor: int
    purge: bool = False


class InsertReceipts(NamedTuple):
    """Insert receipts; the first for a message and an agent wins."""

    tenant: int
    receipts: tuple[Receipt, ...]


class EraseContent(NamedTuple):
    """Erase the content of messages."""

    tenant: int
    messages: tuple[ErasableMessage, ...]


class TrimAudit(NamedTuple):
    """Remove the documents of audit entries up to a number."""

    tenant: int
    through: int


class ForgetKeys(NamedTuple):
    """Delete idempotency keys and budgets from before a moment."""

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
