"""Caches of the rules of a server: the rulebook of each tenant, the exchanges of each conversation, and their locks.

All of it is rebuilt from the store after a restart.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from parley.domain.exchange.exchange import Exchange, conversation_of
from parley.domain.rules.rulebook import Rulebook

if TYPE_CHECKING:
    from parley.app.team.state.openings import Continuation, MessageTemplates, Opening
    from parley.domain.channel.channel import Channel
    from parley.domain.channel.post import Post
    from parley.domain.directory.access import Access
    from parley.domain.record import Expect
    from parley.domain.rules.policy import PolicySnapshot
    from parley.domain.rules.ruling import Detector
    from parley.domain.rules.suspension import Suspensions
    from parley.domain.rules.terms import Terms
    from parley.domain.store.changes import Committed, TeamChanges
    from parley.ports.outside import RuleExtension
    from parley.ports.team import TeamStore

_CONVERSATIONS_MAX = 20_000


class Rules(NamedTuple):
    """The policies and suspensions in force."""

    book: Rulebook
    stopped: Suspensions | None
    # The versions that a decision by these rules depends on.
    expects: tuple[Expect, ...]


class GovernedTerms(NamedTuple):
    """What holds for the governed messages of one sender to one agent in a channel: it follows from records alone."""

    channel: Channel
    access: Access
    rules: Rules
    terms: Terms
    # The message that was decided, as it was placed, without its content.
    post: Post
    # Whether the rules apply to a message that does not ask for them.
    concerned: bool
    openings: MessageTemplates[Opening]
    # Of messages whose sender names the conversation.
    named_openings: MessageTemplates[Opening]
    continuations: MessageTemplates[Continuation]


class RulesState:
    """Rulebooks, conversations and locks of one server."""

    def __init__(self, extension: RuleExtension | None = None, detectors: tuple[Detector, ...] = ()) -> None:
        # Detectors of commitments, beside the built-in one.
        self.detectors = detectors
        # An organisation's own rules; they can deny or hold a message, never allow one.
        self.extension = extension
        # By tenant: the rules that the last decision was made by.
        self.in_force: dict[str, Rules] = {}
        self._books: dict[str, Rulebook] = {}
        self._conversations: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        # Queries that are running: each collects the exchanges committed meanwhile, which its result may lack.
        self._loading: dict[tuple[str, str], list[list[str]]] = {}
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def rulebook(self, tenant: str, snapshot: PolicySnapshot) -> Rulebook:
        """The rulebook of a snapshot, computed once."""
        book = self._books.get(tenant)
        if book is None or book.snapshot is not snapshot:
            book = self._books[tenant] = Rulebook(snapshot)
        return book

    async def conversation(self, store: TeamStore, tenant: str, conversation_id: str) -> tuple[str, ...]:
        """The ids of a conversation's exchanges."""
        key = (tenant, conversation_id)
        exchange_ids = self._conversations.get(key)
        if exchange_ids is None:
            meanwhile: list[str] = []
            queries = self._loading.setdefault(key, [])
            queries.append(meanwhile)
            try:
                exchanges = await store.children(Exchange, tenant, conversation_id)
            finally:
                queries[:] = [query for query in queries if query is not meanwhile]
                if not queries:
                    self._loading.pop(key, None)
            ids = (*(exchange.id for exchange in exchanges), *meanwhile, *self._conversations.get(key, ()))
            exchange_ids = tuple(dict.fromkeys(ids))
            self._remember(key, exchange_ids)
        return exchange_ids

    def known_conversation(self, tenant: str, conversation_id: str) -> tuple[str, ...] | None:
        """The ids of a conversation's exchanges, if they are in memory."""
        return self._conversations.get((tenant, conversation_id))

    def lock(self, tenant: str, conversation: str) -> asyncio.Lock:
        """The lock of a conversation: its senders wait for each other instead of losing races for the commit."""
        key = (tenant, conversation)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    def publish(self, tenant: str, committed: Committed) -> None:
        """Add the exchanges of a commit to the conversations in the cache."""
        if committed.missed:
            self._conversations.clear()
        for record in committed.puts:
            if isinstance(record, Exchange):
                key = (tenant, record.conversation_id)
                for meanwhile in self._loading.get(key, ()):
                    meanwhile.append(record.id)
                # A conversation that is not cached is loaded from the store when it is needed. One has only this
                # exchange if the server made its id, or the commit found no exchange in it.
                ids = self._conversations.get(key)
                if (
                    ids is None
                    and record.version == 1
                    and record.conversation_id in (conversation_of(record.id), *committed.new_conversations)
                ):
                    ids = ()
                if ids is not None and record.id not in ids:
                    self._remember(key, (*ids, record.id))

    def drop_cached(self, refused: TeamChanges) -> None:
        """Drop the conversations of a refused commit from the cache; they may be incomplete."""
        named = [record.conversation_id for record in refused.puts if isinstance(record, Exchange)]
        for conversation_id in (*named, *refused.new_conversations):
            self._conversations.pop((refused.tenant, conversation_id), None)

    def _remember(self, key: tuple[str, str], ids: tuple[str, ...]) -> None:
        self._conversations[key] = ids
        self._conversations.move_to_end(key)
        if len(self._conversations) > _CONVERSATIONS_MAX:
            self._conversations.popitem(last=False)
