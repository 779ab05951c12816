"""A store that is a few dictionaries, and transactions on it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from parley.domain.audit.entry import AuditDraft, SideHead
from parley.domain.channel.channel import Channel
from parley.domain.channel.event import Event, EventDraft
from parley.domain.channel.post import Post, Receipt
from parley.domain.exchange.exchange import Exchange
from parley.domain.mailbox.ledger import GENESIS
from parley.domain.record import Record
from parley.domain.store.changes import ErasableMessage, Spend, TeamChanges
from parley.domain.store.source import (
    FREE,
    BudgetKey,
    ChannelCounters,
    Head,
    LogEnd,
    NameKey,
    RecordKey,
    SideKey,
    name_key,
)
from parley.domain.store.transaction import Encoders, Transaction
from parley.domain.store.writes import InsertPosts, Write
from tests.contract.team_store import (
    AT,
    T1,
    T2,
    a_channel,
    a_post,
    a_use,
    an_entry,
    an_event,
    an_intent,
)

NUMBERS = {T1: 1, T2: 2}


class Shelf:
    """A store in memory: what was there before the transaction."""

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {tenant: Head(number, 0, 0, GENESIS) for tenant, number in NUMBERS.items()}
        self.records: dict[RecordKey, Record] = {}
        self.channel_counters: dict[tuple[str, str], ChannelCounters] = {}
        self.sides: dict[SideKey, SideHead] = {}
        self.budgets: dict[BudgetKey, int] = {}
        self.scopes: set[tuple[str, str]] = set()
        self.logs: dict[tuple[str, str], LogEnd] = {}
        self.waiting: dict[tuple[str, str], Post] = {}
        self.open: set[tuple[str, str]] = set()
        self.unblanked: dict[str, int] = {}
        self.channels = 0
        self.generations: Counter[str] = Counter(NUMBERS.keys())

    def keep(self, done: Transaction) -> None:
        """What a store does with a transaction, as far as another one sees it."""
        self.records = {key: record for key, record in (self.records | done.records).items() if record is not None}
        self.channel_counters.update(done.channel_counters)
        self.generations.update(done.moved_generations)
        self.heads.update(done.heads)
        self.sides.update(done.sides)
        self.budgets.update(done.budgets)
        self.scopes.update(done.saved)
        for tenant, event in done.events:
            name = next(one for one, number in NUMBERS.items() if number == tenant)
            self.logs[name, event.intent_id] = (event.sequence, event.event_hash)

    def head(self, tenant: str) -> Head:
        return self.heads[tenant]

    def record(self, key: RecordKey) -> Record | None:
        return self.records.get(key)

    def generation(self, tenant: str) -> int:
        return self.generations[tenant]

    def holder(self, name: NameKey) -> str:
        return next((one.id for one in self.records.values() if name_key(one) == name), FREE)

    def has_exchange(self, tenant: str, conversation_id: str) -> bool:
        kind = Exchange.kind
        return any(key[:2] == (tenant, kind) and one.parent == conversation_id for key, one in self.records.items())

    def counters(self, tenant: str, channel_id: str) -> ChannelCounters | None:
        return self.channel_counters.get((tenant, channel_id))

    def new_channel(self) -> int:
        self.channels += 1
        return self.channels

    def side(self, key: SideKey) -> SideHead:
        return self.sides.get(key, SideHead())

    def spent(self, key: BudgetKey) -> int:
        return self.budgets.get(key, 0)

    def is_saved(self, tenant: str, scope: str) -> bool:
        return (tenant, scope) in self.scopes

    def log_end(self, tenant: str, intent_id: str) -> LogEnd:
        return self.logs.get((tenant, intent_id), (0, ""))

    def pending(self, tenant: str, message_id: str) -> Post | None:
        return self.waiting.get((tenant, message_id))

    def is_open(self, tenant: str, request_id: str) -> bool:
        return (tenant, request_id) in self.open

    def unerased(self, tenant: str, messages: tuple[ErasableMessage, ...]) -> int:
        del messages
        return self.unblanked.get(tenant, 0)


def _event(draft: EventDraft, position: int, sequence: int, previous: str) -> Event:
    spelled = f"{previous}>{draft.id}"
    return Event(position, draft.intent_id, sequence, draft.id, "comment", draft.actor, AT, "", b"{}", spelled)


def _entry(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode()


SPELLING = Encoders(_event, _entry)


def a_shelf() -> Shelf:
    """One with a channel, `chan_1`."""
    made = Shelf()
    done = begun(made)
    done.take(TeamChanges(T1, puts=(a_channel(),)))
    made.keep(done)
    return made


def begun(shelf: Shelf) -> Transaction:
    return Transaction(shelf, SPELLING)


def after(shelf: Shelf, *batch: TeamChanges) -> Transaction:
    """Commits that are all taken, and kept."""
    done = begun(shelf)
    for changes in batch:
        done.take(changes)
    done.writes += done.evicted()
    shelf.keep(done)
    return done


def kept(shelf: Shelf, channel_id: str = "chan_1") -> Channel:
    found = shelf.records[T1, "channel", channel_id]
    assert isinstance(found, Channel)
    return found


def of_kind(done: Transaction, kind: type[Write]) -> list[Any]:
    return [act for act in done.writes if isinstance(act, kind)]


def noted(done: Transaction) -> object:
    """All that an adapter would write."""
    return (
        [(list(act.posts), list(act.answered)) if isinstance(act, InsertPosts) else act for act in done.writes],
        dict(done.records),
        dict(done.heads),
        dict(done.channel_counters),
        set(done.new_channels),
        set(done.gone_channels),
        list(done.events),
        list(done.entries),
        list(done.audits),
        dict(done.budgets),
        dict(done.saved),
        dict(done.sides),
    )


def a_fact(number: int, side: str = "alice") -> AuditDraft:
    return AuditDraft(f"aud_{number}", side, AT, "agent_exchange", side, {"n": number})


def much(**changes: Any) -> TeamChanges:  # noqa: ANN401
    """A commit of every sort that can stand beside others."""
    everything = TeamChanges(
        T1,
        (a_post("msg_much"),),
        events=(an_event("evt_much"),),
        receipts=(Receipt("msg_much", "bob", AT),),
        entries=(an_entry("much"),),
        saved=a_use("much"),
        audits=(a_fact(9),),
        spends=(Spend("key", 5),),
    )
    puts = (an_intent("intent_much"), a_channel("chan_much"), *changes.pop("puts", ()))
    return everything._replace(puts=puts, **changes)
