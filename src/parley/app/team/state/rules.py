"""The rules of a server in memory: rulebooks, the exchanges of each conversation, and who queues where.

All of it is rebuilt after a restart: the store has the truth.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from parley.domain.exchange.exchange import Exchange
from parley.domain.rules.rulebook import Rulebook

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.record import Expect, Record
    from parley.domain.rules.policy import PolicySnapshot
    from parley.domain.rules.ruling import Detector
    from parley.domain.rules.suspension import Suspensions
    from parley.domain.store.changes import Committed
    from parley.ports.outside import RuleExtension
    from parley.ports.team import TeamStore

_MOST = 20_000


class Rules(NamedTuple):
    """What is in force at this moment."""

    book: Rulebook
    stopped: Suspensions | None
    # What a decision by them depends on.
    expects: tuple[Expect, ...]


class RulesState:
    """Rulebooks, conversations and queues of one server."""

    def __init__(self, extension: RuleExtension | None = None, detectors: tuple[Detector, ...] = ()) -> None:
        # Further detectors of a commitment. They only add.
        self.detectors = detectors
        # An organisation's own rules, which only tighten.
        self.extension = extension
        # By tenant: the rules that the last decision was made by.
        self.in_force: dict[str, Rules] = {}
        self._books: dict[str, Rulebook] = {}
        self._conversations: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        # Who asks the store at this moment: what begins meanwhile may not be in its answer.
        self._asking: dict[tuple[str, str], list[list[str]]] = {}
        self._queues: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def rulebook(self, tenant: str, snapshot: PolicySnapshot) -> Rulebook:
        """The rulebook of a snapshot, worked out once."""
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
            asking = self._asking.setdefault(key, [])
            asking.append(meanwhile)
            try:
                exchanges = await store.children(Exchange, tenant, conversation_id)
            finally:
                asking[:] = [waiting for waiting in asking if waiting is not meanwhile]
                if not asking:
                    self._asking.pop(key, None)
            ids = (*(exchange.id for exchange in exchanges), *meanwhile, *self._conversations.get(key, ()))
            exchange_ids = tuple(dict.fromkeys(ids))
            self._remember(key, exchange_ids)
        return exchange_ids

    def queue(self, tenant: str, conversation: str) -> asyncio.Lock:
        """Where those who speak in one conversation wait for each other, instead of trying against each other."""
        key = (tenant, conversation)
        lock = self._queues.get(key)
        if lock is None:
            lock = self._queues[key] = asyncio.Lock()
        return lock

    def publish(self, tenant: str, committed: Committed) -> None:
        """Take a commit into account."""
        for record in committed.puts:
            if isinstance(record, Exchange):
                key = (tenant, record.conversation_id)
                for meanwhile in self._asking.get(key, ()):
                    meanwhile.append(record.id)
                # Of one that nobody has asked for yet, the store tells everything when somebody does.
                ids = self._conversations.get(key)
                if ids is not None and record.id not in ids:
                    self._remember(key, (*ids, record.id))

    def forget(self, tenant: str, puts: Iterable[Record]) -> None:
        """What is remembered of these conversations may be too little: ask the store again."""
        for record in puts:
            if isinstance(record, Exchange):
                self._conversations.pop((tenant, record.conversation_id), None)

    def _remember(self, key: tuple[str, str], ids: tuple[str, ...]) -> None:
        self._conversations[key] = ids
        self._conversations.move_to_end(key)
        if len(self._conversations) > _MOST:
            self._conversations.popitem(last=False)
