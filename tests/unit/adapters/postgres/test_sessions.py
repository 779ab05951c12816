"""A few connections for many: everyone in turn, nobody for ever, and none that is broken."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from parley.adapters.postgres import sessions
from parley.adapters.postgres.connect import connect
from parley.adapters.postgres.sessions import ALL_TENANTS, Sessions
from parley.domain.errors.errors import BadConfig, DiskFull, ParleyError, Unavailable
from tests.postgres.cluster import a_cluster, drop, free_port, shared_cluster
from tests.postgres.front import Front
from tests.postgres.nodes import a_hand, until
from tests.postgres.store import fresh_database
from tests.rigs.team import in_loop

PID = "SELECT pg_backend_pid()"


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


@asynccontextmanager
async def a_pool(dsn: str, most: int = 1) -> AsyncIterator[Sessions]:
    pool = Sessions(dsn, "pool", most)
    try:
        yield pool
    finally:
        await pool.close()


async def pid(pool: Sessions) -> int:
    return int((await pool.fetch("", PID))[0][0])


# ---------------------------------------------------------------- turns


@in_loop
async def test_never_more_are_open_than_may_be_however_many_ask(dsn: str) -> None:
    async with a_hand(dsn) as hand, a_pool(dsn, 3) as pool:
        found = await asyncio.gather(*(pid(pool) for _ in range(40)))

        assert len(set(found)) == pool.open == len(await hand.pids("pool")) == 3
        assert pool.busy() == 0


@in_loop
async def test_who_waits_is_served_before_who_comes_again(dsn: str) -> None:
    async with a_pool(dsn) as pool:
        served: list[str] = []

        async def often(name: str) -> None:
            for _ in range(3):
                async with pool.session():
                    served.append(name)
                    await asyncio.sleep(0)

        await asyncio.gather(often("a"), often("b"), often("c"))

        assert served == ["a", "b", "c"] * 3


@in_loop
async def test_waiting_too_long_is_unavailable_and_spoils_nothing(dsn: str) -> None:
    async with a_pool(dsn) as pool:
        async with pool.session():
            assert pool.busy() == 1
            with pytest.raises(Unavailable, match="busy"):
                await pool.fetch("", PID, seconds=0.05)

        assert await pid(pool)


@in_loop
async def test_a_cancelled_waiter_loses_nobodys_turn(dsn: str) -> None:
    async with a_pool(dsn) as pool:
        async with pool.session():
            first, second = asyncio.create_task(pid(pool)), asyncio.create_task(pid(pool))
            await until(lambda: len(pool._waiters) == 2)
        first.cancel()  # it has been its turn for a moment

        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second


@in_loop
async def test_who_is_out_of_time_when_its_turn_comes_passes_it_on(dsn: str) -> None:
    async with a_pool(dsn) as pool:
        async with pool.session():
            late = asyncio.create_task(pool.fetch("", PID, seconds=0))
            second = asyncio.create_task(pid(pool))
            await asyncio.sleep(0)
            assert len(pool._waiters) == 2

        with pytest.raises(Unavailable, match="busy"):
            await late
        assert await second


@in_loop
async def test_a_waiter_may_open_a_connection_when_one_is_given_up(dsn: str) -> None:
    async with a_pool(dsn) as pool:
        with suppress(LookupError):
            async with pool.session() as session:
                used = session.connection.get_server_pid()
                waiter = asyncio.create_task(pid(pool))
                await until(lambda: len(pool._waiters) == 1)
                raise LookupError

        assert await waiter != used
        assert pool.open == 1


# ---------------------------------------------------------------- connections that break


@in_loop
async def test_a_connection_that_was_cut_while_idle_is_replaced(dsn: str) -> None:
    async with a_hand(dsn) as hand, a_pool(dsn) as pool:
        before = await pid(pool)
        assert await hand.cut("pool") == 1

        assert await pid(pool) != before
        assert pool.open == 1


@in_loop
async def test_a_read_whose_connection_is_cut_is_asked_again(dsn: str) -> None:
    async with a_hand(dsn) as hand, a_pool(dsn) as pool:
        await hand.ask("SELECT pg_advisory_lock(1)")
        read = asyncio.create_task(pool.fetch("", "SELECT pg_backend_pid(), pg_advisory_lock(1)"))
        await until(lambda: hand.waits("pool", "advisory"))
        (before,) = await hand.pids("pool")

        await hand.cut("pool")
        await hand.ask("SELECT pg_advisory_unlock(1)")

        assert (await read)[0][0] != before
        assert pool.open == 1


@in_loop
async def test_a_question_that_takes_too_long_is_cut_off_and_its_connection_not_used_again(dsn: str) -> None:
    async with a_pool(dsn) as pool:
        before = await pid(pool)

        with pytest.raises(Unavailable):
            await pool.fetch("", "SELECT pg_sleep(5)", seconds=0.2)

        assert await pid(pool) != before
        assert pool.open == 1


@in_loop
async def test_a_refused_question_is_not_asked_twice(dsn: str) -> None:
    async with a_hand(dsn) as hand, a_pool(dsn) as pool:
        await hand.ask("CREATE SEQUENCE asked")
        await hand.ask("GRANT ALL ON SEQUENCE asked TO parley")

        with pytest.raises(Unavailable, match="division by zero"):
            await pool.fetch("", "SELECT 1 / (nextval('asked') - nextval('asked') + 1)")

        assert await hand.one("SELECT last_value FROM asked") == 2


@in_loop
async def test_a_full_disk_is_said_as_such(dsn: str) -> None:
    async with a_pool(dsn) as pool:
        with pytest.raises(DiskFull):
            await pool.fetch("", "DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$")


# ---------------------------------------------------------------- whose rows


@in_loop
async def test_a_connection_that_saw_one_tenant_is_told_anew_before_it_sees_another(dsn: str) -> None:
    async with a_hand(dsn) as hand, a_pool(dsn) as pool:
        await hand.ask("INSERT INTO entry SELECT n, 1, '{}', '' FROM generate_series(1, 3) AS n")

        seen = {}
        for scope in ("1", "2", "", "1,3", ALL_TENANTS, "2"):
            seen[scope] = [row[0] for row in await pool.fetch(scope, "SELECT tenant FROM entry ORDER BY tenant")]

        assert seen == {"1": [1], "2": [2], "": [], "1,3": [1, 3], ALL_TENANTS: [1, 2, 3]}
        assert pool.open == 1


# ---------------------------------------------------------------- no database


@in_loop
async def test_a_database_that_is_starting_up_is_waited_for(dsn: str) -> None:
    front = Front(refusals=3)
    await front.open()
    async with a_pool(front.dsn(dsn)) as pool:
        assert await pool.fetch("", PID, seconds=30)
    assert front.refusals < 0
    await front.close()


@in_loop
async def test_a_database_that_falls_silent_right_after_its_greeting_is_left_when_the_time_is_over(dsn: str) -> None:
    front = Front(deaf_to=b"pg_walfile_name", times=1)
    await front.open()
    async with a_pool(front.dsn(dsn)) as pool:
        while front.deaf:  # a slow machine may not come as far
            with pytest.raises(Unavailable):
                await pool.open_connection("pool", 1.0)

        assert await pid(pool)
    await front.close()


@in_loop
async def test_a_database_that_is_not_there_is_unavailable_and_nobody_else_waits_for_it_longer() -> None:
    async with a_pool(f"postgresql://parley@127.0.0.1:{free_port()}/none") as pool:
        found = await asyncio.gather(*(pool.fetch("", PID, seconds=0.3) for _ in range(5)), return_exceptions=True)

        assert {type(one) for one in found} == {Unavailable}
        assert (pool.open, pool.busy()) == (0, 0)


@in_loop
async def test_a_door_at_which_nobody_answers_is_left_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with a_pool(f"postgresql://parley@127.0.0.1:{silent.getsockname()[1]}/none") as pool:
            with pytest.raises(Unavailable):
                await pool.fetch("", PID, seconds=0.2)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://parley:s3cret@HERE/none",
        "postgresql://nobody:s3cret@HERE/postgres",
        "postgresql://parley:s3cret@HERE/postgres?sslmode=require",
        "postgresql://parley:s3cret@HERE/postgres?sslmode=never",
        "postgresql://parley:s3cret@HERE/postgres?passwd=s3cret",
        "postgresql://parley:s3cret@127.0.0.1:1/postgres",
        "postgresql://parley:s3cret/2@HERE/postgres",
        "postgresql://parley:s3cret#2@HERE/postgres",
        "postgresql://parley:s3cret@[::1/postgres",
        "parley:s3cret@HERE/postgres",
    ],
)
@in_loop
async def test_no_error_says_the_password(address: str) -> None:
    here = f"127.0.0.1:{shared_cluster().port}"

    with pytest.raises((Unavailable, BadConfig)) as refused:
        await connect(address.replace("HERE", here), "test")

    error: ParleyError = refused.value
    assert "s3cret" not in f"{error} {error.hint} {error.facts} {error.__cause__}"
    assert error.__suppress_context__


# ---------------------------------------------------------------- the end


@in_loop
async def test_after_the_end_nobody_waits_and_nothing_stays_open(dsn: str) -> None:
    async with a_hand(dsn) as hand:
        pool = Sessions(dsn, "pool", 1)
        async with pool.session():
            waiter = asyncio.create_task(pid(pool))
            await until(lambda: len(pool._waiters) == 1)
            await pool.close()
            with pytest.raises(Unavailable, match="closed"):
                await waiter

        with pytest.raises(Unavailable, match="closed"):
            await pid(pool)
        assert pool.open == 0
        await hand.without("pool")


# ---------------------------------------------------------------- room for others


@in_loop
async def test_who_cannot_open_another_takes_the_one_that_is_free_again(dsn: str) -> None:
    async with a_pool(dsn, 3) as pool:
        async with pool.session(30) as held:
            shared_cluster().ask(f'ALTER DATABASE "{dsn.rpartition("/")[2]}" ALLOW_CONNECTIONS false')
            with pytest.raises(Unavailable, match="not currently accepting"):
                await pool.open_connection("one more", 30)
            waits = asyncio.create_task(pool.fetch("", PID, seconds=30))
            await until(lambda: pool.open == 2)

        assert (await waits)[0][0] == held.connection.get_server_pid()
        with pytest.raises(Unavailable, match="not currently accepting"):
            await pool.open_connection("one more", 30)
        assert (await pool.fetch("", PID, seconds=30))[0][0] == held.connection.get_server_pid()
        assert (pool.open, pool.busy()) == (1, 0)


@in_loop
async def test_what_nobody_needs_any_more_is_closed_but_for_one(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_IDLE_SECONDS", 0.05)
    async with a_hand(dsn) as hand, a_pool(dsn, 4) as pool:
        await asyncio.gather(*(pid(pool) for _ in range(20)))

        async def one_is_left() -> bool:
            return pool.open == len(await hand.pids("pool")) == 1

        await until(one_is_left)
        monkeypatch.setattr(sessions, "_IDLE_SECONDS", 60.0)  # else one may go while another is still opened
        assert len(set(await asyncio.gather(*(pid(pool) for _ in range(20))))) == pool.open
        assert pool.open > 1


@in_loop
async def test_what_is_in_use_is_not_closed(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_IDLE_SECONDS", 0.05)
    async with a_pool(dsn, 3) as pool, pool.session(30) as held:
        await asyncio.gather(*(pid(pool) for _ in range(20)))

        await until(lambda: pool.open == 2)

        assert await held.connection.fetchval(PID)


@in_loop
async def test_who_finds_no_room_gives_back_what_it_does_not_use(dsn: str) -> None:
    role = "crowded"
    cluster = shared_cluster()
    cluster.ask(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 3")
    try:
        address = dsn.replace("parley@", f"{role}@")
        async with a_hand(dsn) as hand, a_pool(address, 3) as crowd:
            await asyncio.gather(*(pid(crowd) for _ in range(20)))
            assert crowd.open == 3

            with pytest.raises(Unavailable):
                await crowd.open_connection("one more", 30)

            async def one_is_left() -> bool:  # a farewell takes a moment
                return len(await hand.pids("pool")) == 1

            assert crowd.open == 1
            await until(one_is_left)
            (await crowd.open_connection("one more", 30)).terminate()
    finally:
        cluster.ask(f"DROP ROLE {role}")


# ---------------------------------------------------------------- what is acknowledged is kept


@in_loop
async def test_a_commit_waits_for_the_disk_whatever_the_database_has_been_told_meanwhile(dsn: str) -> None:
    query = "SELECT current_setting('synchronous_commit')"
    database = dsn.rpartition("/")[2].partition("?")[0]
    for told, kept in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
        shared_cluster().ask(f"ALTER DATABASE {database} SET synchronous_commit = {told}")
        strict, lax = Sessions(dsn, "pool", 1, durable=True), Sessions(dsn, "pool", 1)
        try:
            assert (await strict.fetch("", query))[0][0] == kept
            assert (await lax.fetch("", query))[0][0] == told
        finally:
            await strict.close()
            await lax.close()


@in_loop
async def test_a_database_that_would_lose_what_it_acknowledged_is_not_asked() -> None:
    with a_cluster(fsync="off") as lossy:
        pool = Sessions(lossy.dsn("postgres", "postgres"), "pool", 1, durable=True)
        try:
            with pytest.raises(Unavailable, match="fsync"):
                await pool.open_connection("pool")
            with pytest.raises(Unavailable, match="fsync"):
                await pool.fetch("", PID, seconds=1.0)
        finally:
            await pool.close()


@in_loop
async def test_what_cannot_be_found_out_about_durability_is_refused(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_DURABLE", "SELECT current_setting('no_such_setting')")
    pool = Sessions(dsn, "pool", 1, durable=True)

    with pytest.raises(Unavailable, match="no_such_setting"):
        await pool.open_connection("pool")

    await pool.close()
