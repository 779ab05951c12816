"""One transaction on a head row that all nodes share: what it knows, what it refuses, and what may be in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from parley.adapters.postgres import connect as connecting
from parley.adapters.postgres.cache import Note, encode_note
from parley.adapters.postgres.connect import connect
from parley.adapters.postgres.evictor import Evictor
from parley.adapters.postgres.transaction import TransactionRunner, tenants_of
from parley.domain.directory.callers import NO_TENANT, Tenant
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import NotFound, Stale, Unavailable
from parley.domain.record import Expect
from parley.domain.store.changes import Committed, TeamChanges
from tests.contract.team_store import AT, T1, T2, a_channel, a_post, an_intent
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

REVISION = "SELECT revision FROM tenant WHERE id = 'acme'"
SAID = "SELECT id FROM post ORDER BY number"


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


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
async def test_a_commit_in_doubt_is_unavailable_and_was_not_made_when_its_server_process_died(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        watch = Watch(a)
        commit = await waiting_at_the_end(hand, a)

        await hand.cut("a writes")

        with pytest.raises(Unavailable, match="in the middle of a commit") as refused:
            await commit
        assert "idempotency key" in refused.value.hint
        await hand.ask("SELECT pg_advisory_unlock(4242, 1)")
        assert await hand.ask(SAID) == []
        assert (await a.commit(TeamChanges(T1, (a_post("slow"),)))).position == 1
        assert watch.posts == ["slow"]


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
