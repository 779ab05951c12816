"""What every part of the contract of a server's store begins with: samples, and a fresh store for each test."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from parley.domain.channel.channel import Channel, Member, Options, View
from parley.domain.channel.event import EventDraft
from parley.domain.channel.post import Post, PostState, Receipt
from parley.domain.directory.access import Access
from parley.domain.directory.callers import Saved
from parley.domain.directory.intent import Intent
from parley.domain.mailbox.ledger import Entry
from parley.domain.message.message import Pattern
from parley.domain.record import Record
from parley.domain.store.changes import Query, TeamChanges
from parley.ports.team import TeamStore

T1, T2 = "acme", "globex"
AT = "2026-03-13T14:30:00.000000+00:00"
LATER = "2026-03-13T15:30:00.000000+00:00"
ALL = View("", 0, takes_part=True, may_write=False)
PATIENCE = 60.0

R = TypeVar("R", bound=Record)


def an_intent(intent_id: str = "intent_1", tenant: str = T1, **changes: Any) -> Intent:
    made = Intent(id=intent_id, tenant_id=tenant, title="t", created_by="alice", created_at=AT, updated_at=AT)
    return replace(made, **changes)


def a_channel(channel_id: str = "chan_1", tenant: str = T1, *, most: int = 1000, **changes: Any) -> Channel:
    made = Channel(
        id=channel_id,
        tenant_id=tenant,
        intent_id="intent_1",
        label=channel_id,
        created_by="alice",
        created_at=AT,
        members=(Member(agent="alice"), Member(agent="bob")),
        options=Options(max_messages=most),
    )
    return replace(made, **changes)


def a_post(message_id: str = "msg_1", channel_id: str = "chan_1", **changes: Any) -> Post:
    made = Post(
        id=message_id,
        channel_id=channel_id,
        sender="alice",
        to="",
        pattern=Pattern.NOTIFY,
        in_reply_to="",
        payload=b'{"text":"hello"}',
        metadata=b"{}",
        created_at=AT,
        expires_at="",
        state=PostState.DELIVERED,
        recipients=None,
        intent_id="intent_1",
    )
    return made._replace(**changes)


def a_request(message_id: str = "msg_1", to: str = "bob", **changes: Any) -> Post:
    return a_post(message_id, pattern=Pattern.REQUEST, to=to, recipients=(to,))._replace(**changes)


def an_answer(message_id: str, request_id: str, **changes: Any) -> Post:
    return a_post(
        message_id,
        pattern=Pattern.RESPONSE,
        sender="bob",
        to="alice",
        recipients=("alice",),
        in_reply_to=request_id,
        **changes,
    )


def an_event(event_id: str = "evt_1", intent_id: str = "intent_1", **changes: Any) -> EventDraft:
    return EventDraft(event_id, intent_id, "comment", "alice", b'{"title":"t"}', AT)._replace(**changes)


def an_entry(action: str = "channel_created") -> Entry:
    return Entry(action, AT, "alice", "chan_1", "", {"key": "key_1"})


def a_use(scope: str = "s1", **changes: Any) -> Saved:
    return Saved(scope, "f" * 64, "once_1", AT)._replace(**changes)


def seen_by(agent: str, since: int = 0) -> View:
    return View(agent, since, takes_part=True, may_write=True)


def stored(test: Callable[[Any, TeamStore], Coroutine[Any, Any, None]]) -> Callable[[TeamStoreContract], None]:
    """Run a test in an event loop of its own, on a fresh store with a channel `chan_1` of `alice` and `bob`."""

    @wraps(test)
    def run(self: TeamStoreContract) -> None:
        async def bounded() -> None:
            self.opened = []
            try:
                async with asyncio.timeout(PATIENCE):
                    store = self.open()
                    await store.commit(TeamChanges(T1, puts=(a_channel(),)))
                    await test(self, store)
            finally:
                for one in self.opened:
                    await one.close()

        asyncio.run(bounded())

    del run.__wrapped__  # else pytest would look for a fixture called store
    return run


class TeamStoreContract(ABC):
    """Every test begins with an empty store; `make_store` opens the same one each time."""

    opened: list[TeamStore]

    @abstractmethod
    def make_store(self) -> TeamStore: ...

    def open(self) -> TeamStore:
        store = self.make_store()
        self.opened.append(store)
        return store

    async def restarted(self, store: TeamStore) -> TeamStore:
        await store.close()
        return self.open()

    @staticmethod
    async def kept(store: TeamStore, kind: type[R], record_id: str) -> R:
        found = await store.get(kind, T1, record_id)
        assert found is not None
        return found

    @staticmethod
    def much(**changes: Any) -> TeamChanges:
        """A change of every sort, to see that nothing of it is left behind."""
        everything = TeamChanges(
            T1,
            posts=(a_post("msg_much"),),
            events=(an_event("evt_much"),),
            receipts=(Receipt("msg_much", "bob", AT),),
            ended=("chan_1",),
            departed=("bob",),
            entries=(an_entry("much"),),
            saved=a_use("much"),
        )
        puts = (*changes.pop("puts", ()), an_intent("intent_much"))
        return everything._replace(puts=puts, **changes)

    @staticmethod
    async def everything(store: TeamStore) -> object:
        return (
            await store.head(T1),
            await store.tally(T1, "chan_1"),
            await store.children(Intent, T1, ""),
            await store.children(Channel, T1, "intent_1"),
            await store.get(Access, T1, "intent_1"),
            await store.page(T1, Query("chan_1", ALL, AT)),
            await store.feed(T1, 0),
            await store.entries(T1, 0, 100),
            await store.saved("much"),
            await store.with_receipt(T1, a_post("msg_much"), "bob"),
        )
