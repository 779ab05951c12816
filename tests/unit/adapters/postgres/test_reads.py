"""The questions of the store: the usual ones are answered by an index, however much there is, behind the wall."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from parley.adapters.postgres import reads as team_reads
from parley.adapters.postgres.connect import connect
from parley.adapters.postgres.reads import FEED_BYTES, is_cut_off
from parley.adapters.postgres.source import UNERASED
from parley.adapters.postgres.store import PostgresTeamStore
from parley.adapters.postgres.writes import BLANK, DEPART, EMPTY_ANSWERS
from parley.domain.audit.entry import AuditEntry
from parley.domain.channel.channel import Channel
from parley.domain.store.changes import AuditQuery, ErasableMessage, ErasureQuery, Query, TeamChanges
from tests.contract.team_store import ALL, AT, T1, a_channel, a_post, an_intent
from tests.postgres.cluster import drop
from tests.postgres.store import a_store, fresh_database
from tests.rigs.team import in_loop

# Tables that grow with what is said and done. The heads, tallies and leases are few.
_LARGE = {"post", "record", "event", "audit", "journal", "entry", "receipt", "saved", "budget"}
_SIZE = 20_000
_FILL = f"""
INSERT INTO post SELECT (tenant << 40) + 1000 + n, number, 1000 + n, 'msg_x' || n, 'alice', 'bob', 'notify', '', '{AT}',
    '', 'delivered', NULL, false, '{{}}', '{{}}', '' FROM tally, generate_series(1, {_SIZE}) AS n WHERE id = 'chan_1';
INSERT INTO record SELECT tenant, 'channel', 'zchan_' || n, 1, 'intent_x', 'c' || n, '', '{{}}'
    FROM tally, generate_series(1, {_SIZE}) AS n WHERE id = 'chan_1';
INSERT INTO event SELECT (tenant << 40) + 1000 + n, 'intent_x', n, 'evt_x' || n, 'noted', 'al', '{AT}', '', '{{}}', ''
    FROM tally, generate_series(1, {_SIZE}) AS n WHERE id = 'chan_1';
INSERT INTO audit SELECT (tenant << 40) + 1000 + n, 'alice', 1000 + n, 'aud_x' || n, '{AT}', '', '', '{{}}'
    FROM tally, generate_series(1, {_SIZE}) AS n WHERE id = 'chan_1';
INSERT INTO journal (tenant, revision, document) SELECT 99, n, '{{}}' FROM generate_series(1, {_SIZE}) AS n;
INSERT INTO receipt SELECT tenant, 'msg_x' || n, 'bob', '{AT}' FROM tally, generate_series(1, {_SIZE}) AS n;
INSERT INTO saved SELECT 'scope' || n, '', '', '{AT}', '', 200, '' FROM generate_series(1, {_SIZE}) AS n;
"""


# What each index is sorted by first.
_LEADING = "SELECT indexrelid::regclass::text, trim(both '()' from pg_get_indexdef(indexrelid, 1, true)) FROM pg_index"


@pytest.fixture(name="dsn")
def a_database() -> Iterator[str]:
    dsn = fresh_database()
    yield dsn
    drop(dsn)


Ask = Callable[[PostgresTeamStore], Awaitable[object]]
_QUESTIONS: dict[str, Ask] = {
    "a record": lambda store: store.get(Channel, T1, "chan_unknown"),
    "a record by its name": lambda store: store.find_by_name(Channel, T1, "intent_1", "chan_9"),
    "the children of one": lambda store: store.children(Channel, T1, "intent_1"),
    "how many children it has": lambda store: store.count(Channel, T1, "intent_1"),
    "all of a kind": lambda store: store.every(Channel, T1, limit=1),
    "what is due": lambda store: store.due(AT),
    "what is due of a kind": lambda store: store.due(AT, kinds=("channel",)),
    "a message": lambda store: store.post(T1, "msg_1"),
    "whether it was read": lambda store: store.with_receipt(T1, a_post(), "bob"),
    "a page of a channel": lambda store: store.page(T1, Query("chan_1", ALL, AT, after_seq=15_000, limit=10)),
    "answers": lambda store: store.answers(T1, "msg_1"),
    "what waits for an agent": lambda store: store.pending(T1, "bob"),
    "the oldest request": lambda store: store.oldest_request(T1, "bob", AT),
    "where an agent takes part": lambda store: store.taking_part(T1, "bob"),
    "what somebody said": lambda store: store.words(T1, ErasureQuery(("ex_1",), "alice"), 0),
    "messages that are overdue": lambda store: store.overdue(AT),
    "the feed": lambda store: store.feed(T1, 0, 10),
    "a log": lambda store: store.events(T1, "intent_1"),
    "the end of a log": lambda store: store.events(T1, "intent_1", newest=True, limit=1),
    "an event": lambda store: store.event(T1, "evt_1"),
    "a trace": lambda store: store.events_of_trace(T1, "trace_1"),
    "the audit log": lambda store: store.audits(T1, AuditQuery(after=5, limit=10)),
    "the end of the audit log": lambda store: store.audits(T1, AuditQuery(newest=True, limit=10)),
    "one audit entry": lambda store: store.audits(T1, AuditQuery(entry_id="aud_1", limit=1)),
    "an exchange in the audit log": lambda store: store.audits(T1, AuditQuery(exchange_id="x", limit=1)),
    "the journal": lambda store: store.catch_up(T1),
    "entries": lambda store: store.entries(T1, 0, 10),
    "a saved answer": lambda store: store.saved("scope1"),
}


# What comes in pages: no more may be read than the page has.
_PAGES = {"a page of a channel", "the feed", "the audit log", "the end of the audit log", "the end of a log", "entries"}
_BY_NUMBER = {"the feed", "the audit log", "the end of the audit log", "the journal", "what somebody said"}
# What a transaction asks and writes beside what is usual, while it holds the heads.
_UNDER_THE_LOCK = {"a departure": [DEPART], "an erasure": [UNERASED, BLANK, EMPTY_ANSWERS]}


@pytest.mark.slow
@pytest.mark.parametrize("planned_for", ["empty tables", "full tables", "tables that were analysed"])
@in_loop
async def test_the_usual_questions_are_answered_by_an_index(dsn: str, planned_for: str) -> None:
    asked = {**await questions(dsn), **_UNDER_THE_LOCK}
    async with planning(dsn) as plans:
        if planned_for == "empty tables":  # a node plans a question once, at the first call
            await plans.prepare(asked)
        await fill(dsn, analysed=planned_for == "tables that were analysed")
        await plans.prepare(asked)

        found = [(what, await plans.nodes(query)) for what, queries in asked.items() for query in queries]

    assert [(what, node) for what, nodes in found for node in nodes if node.startswith("whole")] == []
    assert [what for what, nodes in found if what in _PAGES and "Sort" in nodes] == []
    # By its number only what lies together is found: for all else that would be everything of a tenant.
    by_number = [(what, node) for what, nodes in found for node in nodes if "_pkey of" in node]
    assert [(what, node) for what, node in by_number if what not in _BY_NUMBER] == []
    assert [what for what, queries in asked.items() if not queries] == []


@pytest.mark.slow
@pytest.mark.parametrize("column", ["created_at", "sender"])
@in_loop
async def test_a_question_without_an_index_is_found_out(dsn: str, column: str) -> None:
    asked = {f"by its {column}": [f"SELECT id FROM post WHERE {column} = $1 ORDER BY length(id)"]}
    await questions(dsn)
    await fill(dsn, analysed=True)
    async with planning(dsn) as plans:
        await plans.prepare(asked)

        (nodes,) = [await plans.nodes(query) for queries in asked.values() for query in queries]

    assert nodes[0] == "Sort"
    assert any(node.startswith("whole") for node in nodes)


async def questions(dsn: str) -> dict[str, list[str]]:
    """What a node asks the database for each usual question."""
    store, other = a_store(dsn), a_store(dsn, "other")
    try:
        await store.commit(TeamChanges(T1, (a_post(),), puts=(an_intent(), a_channel())))
        heard: list[str] = []
        async with AsyncExitStack() as stack:
            for _ in range(store.sessions.max_connections):
                session = await stack.enter_async_context(store.sessions.session())
                session.connection.add_query_logger(lambda query: heard.append(query.query))
        asked = {}
        for number, (what, question) in enumerate(_QUESTIONS.items()):
            await other.commit(TeamChanges(T1, (a_post(f"msg_other_{number}"),)))  # so that there is a journal to read
            heard.clear()
            await question(store)
            await asyncio.sleep(0)  # the driver tells it in the next turn of the loop
            asked[what] = list(dict.fromkeys(query for query in heard if _LARGE & set(re.findall(r"[a-z]+", query))))
        return asked
    finally:
        await other.close()
        await store.close()


class Plans:
    """Plans as a node makes them, for whatever values, with the row security of a tenant."""

    def __init__(self, db: asyncpg.Connection[asyncpg.Record]) -> None:
        self._db = db
        self._names: dict[str, str] = {}

    async def prepare(self, asked: dict[str, list[str]]) -> None:
        for query in [query for queries in asked.values() for query in queries if query not in self._names]:
            self._names[query] = f"asked_{len(self._names)}"
            await self._db.execute(f"PREPARE {self._names[query]} AS {query}")
            await self.nodes(query)

    async def nodes(self, query: str) -> list[str]:
        """Every step of the plan; those on a large table with its name."""
        values = ", ".join(["NULL"] * max(map(int, re.findall(r"\$(\d+)", query)), default=0))
        which = f"{self._names[query]}({values})" if values else self._names[query]
        plan = await self._db.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE {which}")
        leading = {row[0]: row[1] for row in await self._db.fetch(_LEADING)}
        return list(_steps(json.loads(plan)[0]["Plan"], leading))


def _steps(plan: dict[str, Any], leading: dict[str, str]) -> Iterator[str]:
    relation = plan.get("Relation Name", "")
    if not relation or relation in _LARGE:
        # Where a Seq Scan is switched off, an index is read from end to end instead; by a column of it that is not its
        # first one, too.
        index = plan.get("Index Name", "")
        whole = relation and leading.get(index, "nothing") not in plan.get("Index Cond", "")
        whole = whole and plan["Node Type"].endswith("Scan")
        bounded = f" by {index} of" if index in ("post_pkey", "event_pkey", "audit_pkey") else ""
        yield f"{'whole ' if whole else ''}{plan['Node Type']}{bounded} {relation}".strip()
    for part in plan.get("Plans", ()):
        yield from _steps(part, leading)


@asynccontextmanager
async def planning(dsn: str) -> AsyncIterator[Plans]:
    db = await connect(dsn, "explains")
    try:
        await db.execute("SELECT set_config('parley.tenants', '1', false)")
        yield Plans(db)
    finally:
        await db.close()


async def fill(dsn: str, *, analysed: bool) -> None:
    db = await asyncpg.connect(dsn, server_settings={"parley.tenants": "*"})
    try:
        await db.execute(_FILL)
        if analysed:
            await db.execute("ANALYZE")
    finally:
        await db.close()


def test_a_page_of_the_feed_that_is_a_lot_was_cut_off() -> None:
    full = [(1, b"x" * (FEED_BYTES - 1)), (2, b"x")]

    assert is_cut_off(full, 1)
    assert not is_cut_off(full[:1], 1)


@in_loop
async def test_an_entry_that_was_let_go_of_answers_no_question_about_its_words(dsn: str) -> None:
    store = a_store(dsn)
    await store.commit(TeamChanges(T1, puts=(an_intent(),)))
    db = await asyncpg.connect(dsn, server_settings={"parley.tenants": "*"})
    row = "INSERT INTO audit SELECT (number << 40) + $1, 'alice', $1, $2, '', '', '', $3 FROM tenant WHERE id = $4"
    await db.execute(row, 1, "aud_1", b"", T1)
    await db.execute(row, 2, "aud_2", b'{"action":"post"}', T1)
    await db.close()

    everything = await store.audits(T1, AuditQuery())
    by_word = await store.audits(T1, AuditQuery(action="post"))

    assert [entry.id for entry in everything] == ["aud_1", "aud_2"]
    assert by_word == (AuditEntry(2, "alice", 2, "aud_2", "", "", "", b'{"action":"post"}'),)
    await store.close()


@in_loop
async def test_only_so_many_messages_are_looked_through_for_words_at_once(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_reads, "_WINDOW", 3)
    store = a_store(dsn)
    said = [a_post(f"msg_{n}", sender="bob" if n == 5 else "alice") for n in range(1, 8)]
    await store.commit(TeamChanges(T1, tuple(said), puts=(an_intent(), a_channel())))

    looks = [await store.words(T1, ErasureQuery(sender="bob"), after) for after in (0, 3, 6, 7)]

    assert looks == [((), 3), ((ErasableMessage("msg_5"),), 6), ((), 7), ((), 0)]
    await store.close()
