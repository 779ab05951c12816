"""One transaction on a head row that all nodes share: what it knows, what it refuses, and what may be in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from parley.adapters.postgres import connect as connecting
from parley.adapters.postgres.cache import Note, encode_note
from parley.adapters.postgres.connect import connect
from parley.adapters.postgres.evictor import Evictor
from parley.adapters.postgres.store import PostgresTeamStore
from parley.adapters.postgres.transaction import TransactionRunner, tenants_of
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import Post, Receipt
from parley.domain.directory.callers import NO_TENANT, Tenant
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import NotFound, Stale, Unavailable
from parley.domain.record import Expect, Record, expecting
from parley.domain.store.changes import Committed, TeamChanges
from tests.contract.team_store import AT, LATER, T1, T2, a_channel, a_post, a_use, an_intent
from tests.postgres.cluster import drop
from tests.postgres.nodes import (
    AT_COMMIT,
    Watch,
    a_hand,
    held_up,
    nodes,
    quiet,
    said,
    together,
    until,
    waiting_at_the_end,
)
from tests.postgres.store import a_store, fresh_database
from tests.rigs.log_records import logged_by
from tests.rigs.team import in_loop
from tests.samples.governed import an_exchange

REVISION = "SELECT revision FROM tenant WHERE id = 'acme'"
SAID = "SELECT id FROM post ORDER BY number"


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


def asked_by_the_writer(store: PostgresTeamStore) -> list[str]:
    """Grows with each round trip of the node's writer."""
    asked: list[str] = []
    for lane in store.writer._lanes:
        if lane._session is not None:
            lane._session.connection.add_query_logger(lambda record: asked.append(record.query))
    return asked


@in_loop
async def test_a_commit_over_two_tenants_moves_both_revisions_and_both_journals(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await a.commit(TeamChanges(T2, puts=(an_intent("intent_2", tenant=T2),)))
        await b.catch_up(T2)
        await quiet(b)
        assert await b.get(Intent, T2, "intent_2") is not None

        other = an_intent("intent_2", tenant=T2, version=1, title="new")
        await a.commit(TeamChanges(T1, (a_post(),), puts=(other,)))

        assert await hand.ask("SELECT id, revision FROM tenant ORDER BY id") == [(T1, 2), (T2, 2)]
        assert await hand.ask("SELECT tenant, revision FROM journal WHERE revision = 2 ORDER BY 1") == [(1, 2), (2, 2)]
        await b.catch_up(T1, T2)
        found = await b.get(Intent, T2, "intent_2")
        assert found is not None
        assert (found.title, await b.head(T1)) == ("new", 1)


@in_loop
async def test_a_node_that_meets_a_tenant_uses_up_no_number(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a"):
        for n in range(3):
            other = a_store(dsn, f"other {n}")
            await other.commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))
            await other.close()

        assert await hand.one("SELECT last_value FROM tenant_number_seq") == 1


@in_loop
async def test_a_commit_on_stale_knowledge_is_refused_and_the_next_try_succeeds(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        known = await b.get(Intent, T1, "intent_1")
        assert known is not None
        await a.commit(TeamChanges(T1, puts=(replace(known, title="of a"),)))

        with pytest.raises(Stale):
            await b.commit(TeamChanges(T1, puts=(replace(known, title="of b"),)))

        newer = await b.get(Intent, T1, "intent_1")
        assert newer is not None
        assert (newer.title, newer.version) == ("of a", 2)
        await b.commit(TeamChanges(T1, puts=(replace(newer, title="of b"),)))


@in_loop
async def test_a_commit_may_know_less_than_others_have_written(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        watch = Watch(b)
        for n in range(3):
            await a.commit(TeamChanges(T1, (a_post(f"of_a_{n}"),)))

        done = await b.commit(TeamChanges(T1, (a_post("of_b"),)))

        assert (done.position, done.posts[0].seq) == (4, 4)
        assert watch.posts == ["of_a_0", "of_a_1", "of_a_2", "of_b"]


@in_loop
async def test_a_refused_commit_leaves_no_row_and_no_revision_behind(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        before = await hand.ask("SELECT * FROM tenant")
        refused = TeamChanges(T1, (a_post(),), (Expect("channel", "chan_1", 9),), puts=(an_intent("intent_2"),))

        with pytest.raises(Stale):
            await a.commit(refused)

        assert await hand.ask("SELECT * FROM tenant") == before
        assert await hand.ask(SAID) == []
        assert await hand.one("SELECT count(*) FROM journal") == 1
        assert await a.get(Intent, T1, "intent_2") is None


@in_loop
async def test_a_refusal_among_others_is_its_own(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        first, refused, last = await together(
            a, *said("msg_1"), TeamChanges(T1, (a_post("lost", "none"),)), *said("msg_2")
        )

        assert isinstance(refused, NotFound)
        assert isinstance(first, Committed)
        assert isinstance(last, Committed)
        assert (first.position, last.position) == (1, 2)
        assert await hand.ask(SAID) == [("msg_1",), ("msg_2",)]
        assert await hand.one(REVISION) == 2


@in_loop
async def test_a_group_takes_one_round_trip(dsn: str) -> None:
    async with nodes(dsn, "a") as (a,):
        await a.commit(TeamChanges(T1, (a_post("msg_0"),)))
        asked = asked_by_the_writer(a)

        batch = [*said("msg_1", "msg_2"), TeamChanges(T1, (a_post("msg_3"),), saved=a_use("use_1"))]
        outcomes = await together(a, *batch, TeamChanges(T1, puts=(an_intent(version=1, title="new"),)))

        assert [type(outcome) for outcome in outcomes] == [Committed] * 4
        assert [query.partition("(")[0] for query in asked] == ["SELECT * FROM parley_commit"]


@in_loop
async def test_messages_behind_those_of_others_take_one_round_trip_and_the_next_places(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await b.commit(TeamChanges(T1, (a_post("of_b_0"),)))
        await a.catch_up(T1)
        await quiet(b)
        watch = Watch(b)
        asked = asked_by_the_writer(b)
        for n in range(3):
            await a.commit(TeamChanges(T1, (a_post(f"of_a_{n}", created_at=LATER),)))

        outcomes = await together(
            b, *said("of_b_1", "of_b_2"), TeamChanges(T1, receipts=(Receipt("of_a_0", "bob", AT),))
        )

        posts = [outcome.posts[0] for outcome in outcomes if isinstance(outcome, Committed) and outcome.posts]
        # Setting the clock back does not change the order: they are not older than what was said before them.
        assert [(post.position, post.seq, post.created_at) for post in posts] == [(5, 5, LATER), (6, 6, LATER)]
        assert [query.partition("(")[0] for query in asked] == ["SELECT * FROM parley_commit"]
        stored = await hand.ask("SELECT id, number & 1099511627775, seq, created_at FROM post ORDER BY number OFFSET 4")
        assert stored == [(post.id, post.position, post.seq, post.created_at) for post in posts]
        assert await hand.ask("SELECT count, seq, last_at, floor FROM tally") == [(6, 6, LATER, 0)]
        assert watch.posts == ["of_a_0", "of_a_1", "of_a_2", "of_b_1", "of_b_2"]
        # Neither node has to look again: what they know is what is there.
        for store in (a, b):
            await store.catch_up(T1)
            known = store.follower.find_cache(T1)
            assert known is not None
            assert (known.head.position, known.channel_counters["chan_1"].seq) == (6, 6)
            (row,) = await hand.ask("SELECT count, last_at, floor FROM tally")
            assert known.channel_counters["chan_1"].tally == row
        done = await a.commit(TeamChanges(T1, (a_post("last"),)))
        assert (done.position, done.posts[0].seq) == (7, 7)


@in_loop
async def test_what_a_channel_may_keep_counts_for_messages_that_are_moved(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        known = await a.get(Channel, T1, "chan_1")
        assert known is not None
        few = replace(known, options=replace(known.options, max_messages=3))
        await a.commit(TeamChanges(T1, puts=(few,)))
        await b.catch_up(T1)
        await b.commit(TeamChanges(T1, (a_post("of_b_0"),)))
        await quiet(b)
        await together(a, *said("of_a_0", "of_a_1"))

        await together(b, *said("of_b_1", "of_b_2"))

        assert await hand.ask("SELECT seq, floor FROM tally") == [(5, 2)]
        counters = b.follower.find_cache(T1).channel_counters["chan_1"]  # type: ignore[union-attr]
        assert (counters.seq, counters.tally.floor) == (5, 2)


@in_loop
async def test_a_message_that_rests_on_a_record_that_others_changed_is_decided_again(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        known = await b.get(Intent, T1, "intent_1")
        assert known is not None
        await b.commit(TeamChanges(T1, (a_post("of_b"),)))
        await quiet(b)
        await a.commit(TeamChanges(T1, puts=(replace(known, title="of a"),)))

        with pytest.raises(Stale):
            await b.commit(TeamChanges(T1, (a_post("stale"),), (expecting(known),)))

        assert await hand.ask(SAID) == [("of_b",)]


@in_loop
async def test_an_idempotency_key_that_another_node_used_is_refused_in_the_commit(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await b.commit(TeamChanges(T1, (a_post("of_b"),)))
        await quiet(b)
        await a.commit(TeamChanges(T1, (a_post("first"),), saved=a_use("use_1")))

        refused, other = await together(
            b, TeamChanges(T1, (a_post("second"),), saved=a_use("use_1")), *said("beside_it")
        )

        assert isinstance(refused, Stale)
        assert isinstance(other, Committed)
        assert await hand.ask(SAID) == [("of_b",), ("first",), ("beside_it",)]


@in_loop
async def test_an_answer_that_names_a_place_is_not_stored_with_a_message_that_was_moved(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await b.commit(TeamChanges(T1, (a_post("of_b"),)))
        await quiet(b)

        def place_of(posts: tuple[Post, ...], _: tuple[Record, ...]) -> tuple[int, bytes]:
            return 201, b"%d" % posts[0].seq

        await a.catch_up(T1)
        await a.commit(TeamChanges(T1, (a_post("first"),), saved=a_use("use_1"), answer=place_of))
        await b.commit(TeamChanges(T1, (a_post("second"),), saved=a_use("use_2"), answer=place_of))
        await b.commit(TeamChanges(T1, (a_post("third"),), saved=a_use("use_3"), answer=place_of))

        stored = await hand.ask("SELECT scope, status, answer FROM saved ORDER BY scope")
        assert stored == [("use_1", 201, b"2"), ("use_2", 0, b""), ("use_3", 201, b"4")]


@pytest.mark.parametrize("is_written", [False, True])
@in_loop
async def test_a_group_is_not_asked_for_again_of_a_database_with_another_past(
    dsn: str, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await quiet(a)
        await a.commit(TeamChanges(T1, (a_post("first"),)))
        fetch = asyncpg.Connection.fetch
        lost: list[str] = []

        async def losing(self: asyncpg.Connection[asyncpg.Record], query: str, *values: object) -> object:
            if "parley_commit" not in query or lost:
                return await fetch(self, query, *values)
            lost.append(query)
            if is_written:
                await fetch(self, query, *values)
            await b.commit(TeamChanges(T1, (a_post("other"),)))
            a.sessions._history = "another"  # so the next connection finds that it is not the same
            raise ConnectionResetError

        monkeypatch.setattr(asyncpg.Connection, "fetch", losing)
        with pytest.raises(Unavailable, match="in the middle of a commit"):
            await a.commit(TeamChanges(T1, (a_post("ours"),)))
        done = await a.commit(TeamChanges(T1, (a_post("last"),)))

        said_then = ["first", *["ours"] * is_written, "other", "last"]
        assert await hand.ask(SAID) == [(one,) for one in said_then]
        assert (done.position, done.posts[0].seq) == (len(said_then), len(said_then))


@in_loop
async def test_where_a_part_of_a_group_fails_the_other_part_is_committed_once(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await a.commit(TeamChanges(T2, puts=(a_channel("chan_2", tenant=T2),)))
        await b.catch_up(T1, T2)
        await quiet(b)
        await a.commit(TeamChanges(T1, puts=(an_intent(version=1, title="new"),)))  # so that b decides again there
        work = TransactionRunner(b.follower, Evictor(b.sessions))
        fails = [OSError("gone")]
        locked = TransactionRunner._commit_locked

        async def failing(self: TransactionRunner, *given: Any) -> Any:  # noqa: ANN401  # handed on
            if fails:
                raise fails.pop()
            return await locked(self, *given)

        monkeypatch.setattr(TransactionRunner, "_commit_locked", failing)
        batch = [*said("msg_1"), TeamChanges(T2, (a_post("msg_2", "chan_2"),))]
        db = await connect(dsn, "works")
        left, done = await work.run(db, batch, 0)

        assert left is None
        assert isinstance(done, Committed)
        assert db.is_closed()
        assert await hand.ask(SAID) == [("msg_2",)]


@in_loop
async def test_a_commit_whose_server_process_died_at_its_end_is_asked_for_again_and_made_once(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        watch = Watch(a)
        commit = await waiting_at_the_end(hand, a)

        await hand.cut("a writes")
        await hand.ask("SELECT pg_advisory_unlock(4242, 1)")

        assert (await commit).position == 1
        assert await hand.ask(SAID) == [("slow",)]
        assert watch.posts == ["slow"]


@pytest.mark.parametrize("title", ["", "changed"])
@in_loop
async def test_a_commit_whose_answer_was_lost_is_found_by_its_mark_whatever_others_did_after_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await quiet(a)
        watch = Watch(a)
        await b.commit(TeamChanges(T1, (a_post("before"),)))
        fetch = asyncpg.Connection.fetch
        lost: list[str] = []

        async def losing(self: asyncpg.Connection[asyncpg.Record], query: str, *values: object) -> object:
            answer = await fetch(self, query, *values)
            if "parley_commit" in query and not lost:
                lost.append(query)
                intent = await b.get(Intent, T1, "intent_1")
                assert intent is not None
                puts = (replace(intent, title=title),) if title else ()
                await b.commit(TeamChanges(T1, (a_post("after"),), puts=puts))
                raise ConnectionResetError
            return answer

        monkeypatch.setattr(asyncpg.Connection, "fetch", losing)
        done = await a.commit(TeamChanges(T1, (a_post("ours"),)))

        assert (done.position, len(lost)) == (2, 1)
        assert await hand.ask(SAID) == [("before",), ("ours",), ("after",)]
        await a.catch_up(T1)
        assert watch.posts == ["before", "ours", "after"]
        assert (await a.commit(TeamChanges(T1, (a_post("last"),)))).position == 4


@in_loop
async def test_a_commit_that_opens_a_conversation_is_never_looked_for_after_a_lost_answer(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Decided once more after it, it would find its own exchange in the conversation.
    async with nodes(dsn, "a") as (a,):
        await quiet(a)
        fetch, queries = asyncpg.Connection.fetch, list[str]()

        async def noting(self: asyncpg.Connection[asyncpg.Record], query: str, *values: object) -> object:
            queries.append(query)
            return await fetch(self, query, *values)

        monkeypatch.setattr(asyncpg.Connection, "fetch", noting)
        first, second = [an_exchange(id=f"exch_{name}", tenant_id=T1, conversation_id=name) for name in ("one", "two")]
        await a.commit(TeamChanges(T1, (a_post("first"),), puts=(first,)))
        locked_first = [query for query in queries if "parley_enter" in query]
        await a.commit(TeamChanges(T1, (a_post("second"),), puts=(second,), new_conversations=("two",)))

        assert not locked_first
        assert [query for query in queries if "parley_enter" in query]


@in_loop
async def test_a_commit_in_doubt_that_was_made_all_the_same_is_told_by_the_journal(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A database that looks after its clients gives up what none waits for: here it must not, however long this takes.
    monkeypatch.setattr(connecting, "_SET_CHECKED", connecting._SET)
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        watches = [Watch(a), Watch(b)]
        commit = await waiting_at_the_end(hand, a)
        (lane,) = [one for one in a.writer._lanes if one._session is not None and one._task is not None]
        assert lane._session is not None

        lane._session.terminate()  # as when nothing is heard of it for too long
        with pytest.raises(Unavailable, match="in the middle of a commit"):
            await commit
        await hand.ask("SELECT pg_advisory_unlock(4242, 1)")

        for watch in watches:
            await until(lambda watch=watch: watch.posts == ["slow"])  # type: ignore[misc]
        await a.commit(TeamChanges(T1, (a_post("msg_2"),)))
        await b.catch_up(T1)
        assert [watch.posts for watch in watches] == [["slow", "msg_2"]] * 2


@in_loop
async def test_a_warning_at_the_end_leaves_a_commit_in_doubt(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        await hand.db.execute(AT_COMMIT)
        watch = Watch(a)

        with pytest.raises(Unavailable, match="lost in a failover"):
            await a.commit(TeamChanges(T1, (a_post("loud"),)))

        await until(lambda: watch.posts == ["loud"])
        assert (await a.commit(TeamChanges(T1, (a_post("msg_2"),)))).position == 2


@in_loop
async def test_a_newer_node_may_write_kinds_of_records_that_this_one_does_not_know(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        await quiet(a)
        watch = Watch(a)
        await hand.ask("INSERT INTO record VALUES (1, 'novelty', 'n_1', 1, '', '', '', '{}')")
        note = encode_note(Note((0, 0, bytes(32), 0), [("novelty", "n_1")]))
        await hand.ask("INSERT INTO journal (tenant, revision, document) VALUES (1, 2, $1)", note)
        await hand.ask("UPDATE tenant SET revision = 2")

        assert (await a.commit(TeamChanges(T1, (a_post(),)))).position == 1
        await a.catch_up(T1)

        assert watch.posts == ["msg_1"]


@in_loop
async def test_a_new_tenant_begins_with_its_first_commit_whoever_makes_it(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        made = [a_channel(one, tenant=T2) for one in ("chan_a", "chan_b")]

        await asyncio.gather(a.commit(TeamChanges(T2, puts=(made[0],))), b.commit(TeamChanges(T2, puts=(made[1],))))

        for store in (a, b):
            await store.catch_up(T2)
            known = store.follower.find_cache(T2)
            assert known is not None
            assert known.revision == 2


def test_a_commit_writes_in_its_tenant_in_those_of_its_records_and_in_one_that_begins() -> None:
    begun = Tenant(id="begun", tenant_id=NO_TENANT, title="begun", created_at=AT)

    found = tenants_of(TeamChanges(T1, puts=(begun,), drops=(an_intent(tenant=T2),)))

    assert found == {T1, T2, NO_TENANT, "begun"}


@in_loop
async def test_what_others_hold_is_left_and_the_rest_is_done_however_long_one_waits(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        await a.commit(TeamChanges(T2, puts=(a_channel("chan_2", tenant=T2),)))
        work = TransactionRunner(a.follower, Evictor(a.sessions))
        over_both = TeamChanges(T2, puts=(an_intent("intent_2"),))
        batch = [*said("msg_1"), TeamChanges(T2, (a_post("msg_2", "chan_2"),)), over_both]
        db = await connect(dsn, "works")
        try:
            async with held_up(hand):
                held, done, both = await work.run(db, batch, 0)
                assert (held, both) == (None, None)
                assert isinstance(done, Committed)
                assert await work.run(db, said("msg_1"), 50) == [None]
                assert await work.run(db, said("msg_1"), 0) == [None]
            (late,) = await work.run(db, said("msg_1"), 0)
        finally:
            db.terminate()

        assert isinstance(late, Committed)
        assert await hand.ask(SAID) == [("msg_1",), ("msg_2",)]
        assert await hand.ask("SELECT id, revision FROM tenant ORDER BY id") == [(T1, 2), (T2, 2)]


@in_loop
async def test_what_is_committed_is_committed_though_a_watcher_fails(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):

        def fail(*_: object) -> None:
            raise ValueError

        end = a.watch(fail)
        assert (await a.commit(TeamChanges(T1, (a_post("msg_1"),)))).position == 1
        end()
        assert (await a.commit(TeamChanges(T1, (a_post("msg_2"),)))).position == 2

        assert await hand.ask(SAID) == [("msg_1",), ("msg_2",)]
        assert [one.message for one in logged_by("parley.postgres", caplog)] == [
            "watchers were not notified of a commit"
        ]


@in_loop
async def test_what_others_did_and_could_not_be_read_is_told_later_before_ones_own(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        watch = Watch(b)
        await a.commit(TeamChanges(T1, (a_post("of_a"),)))

        async def fail(*_: object) -> None:
            raise Unavailable("not now")

        with monkeypatch.context() as patched:
            patched.setattr(b.sessions, "fetch", fail)
            assert (await b.commit(TeamChanges(T1, (a_post("of_b"),)))).position == 2
            assert watch.posts == []

        await b.catch_up(T1)
        assert watch.posts == ["of_a", "of_b"]
        await b.commit(TeamChanges(T1, (a_post("last"),)))
        assert watch.posts == ["of_a", "of_b", "last"]
