"""Connections that are encrypted: to the right database or to none, and never in the clear instead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path

import asyncpg
import pytest

from parley.adapters.postgres.connect import connect
from parley.adapters.postgres.sessions import Sessions
from parley.domain.errors.errors import BadConfig, Unavailable
from tests.postgres.cluster import Cluster, free_port, shared_cluster
from tests.postgres.nodes import until
from tests.postgres.tls import CERTIFIED, Papers, an_encrypting_cluster
from tests.rigs.team import in_loop

HOW = "SELECT ssl, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
Place = tuple[Cluster, Papers]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with an_encrypting_cluster() as made:
        yield made


def until_hung_up(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """In an event loop of its own, which ends when no connection is left: over TLS a farewell takes a moment."""

    @wraps(test)
    async def whole(*args: object, **fixtures: object) -> None:
        await test(*args, **fixtures)
        watched = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        await until(lambda: len(watched.get_map()) == 1)  # the loop's own

    return in_loop(whole)


def address(place: Place, mode: str, **options: Path) -> str:
    query = "&".join([f"sslmode={mode}", *(f"{name}={value}" for name, value in options.items())])
    return f"{place[0].dsn()}?{query}"


def certified(dsn: str) -> str:
    return dsn.replace("parley@", f"{CERTIFIED}@")


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    db = await connect(dsn, "test", 30)
    try:
        yield db
    finally:
        db.terminate()


async def encrypted(dsn: str) -> bool:
    async with connected(dsn) as db:
        return bool(await db.fetchval(HOW))


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
@until_hung_up
async def test_a_database_whose_certificate_is_trusted_is_spoken_to_encrypted(place: Place, mode: str) -> None:
    assert await encrypted(address(place, mode, sslrootcert=place[1].authority))


@until_hung_up
async def test_to_require_encryption_is_not_to_ask_who_it_is(place: Place) -> None:
    assert await encrypted(address(place, "require"))


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
@until_hung_up
async def test_a_certificate_that_somebody_else_signed_is_refused(place: Place, mode: str) -> None:
    with pytest.raises(BadConfig, match="certificate of the database cannot be trusted") as refused:
        await connect(address(place, mode, sslrootcert=place[1].other_authority), "test", 30)

    assert "sslrootcert" in refused.value.hint


@until_hung_up
async def test_a_certificate_for_another_host_is_refused(place: Place) -> None:
    dsn = address(place, "verify-full", sslrootcert=place[1].authority).replace("127.0.0.1", "localhost")

    with pytest.raises(BadConfig, match="not valid for 'localhost'"):
        await connect(dsn, "test", 30)
    assert await encrypted(dsn.replace("verify-full", "verify-ca"))


@until_hung_up
async def test_a_database_that_does_not_encrypt_is_not_spoken_to_in_the_clear() -> None:
    with pytest.raises(Unavailable, match="SSL"):
        await connect(f"{shared_cluster().dsn()}?sslmode=require", "test", 30)


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert", "sslkey"])
@until_hung_up
async def test_a_file_that_is_not_there_is_named(place: Place, name: str) -> None:
    papers = place[1]
    options = {"sslrootcert": papers.authority, "sslcert": papers.client[0], "sslkey": papers.client[1]}

    with pytest.raises(BadConfig, match=f"{name} .*/nowhere.pem: No such file"):
        await connect(address(place, "verify-full", **{**options, name: Path("/nowhere.pem")}), "test", 30)


@until_hung_up
async def test_a_key_that_belongs_to_another_certificate_is_refused(place: Place) -> None:
    papers = place[1]
    options = {"sslrootcert": papers.authority, "sslcert": papers.client[0], "sslkey": papers.strange_client[1]}

    with pytest.raises(BadConfig, match="no TLS with the database"):
        await connect(address(place, "verify-full", **options), "test", 30)


# ---------------------------------------------------------------- certificates of clients


@until_hung_up
async def test_a_node_can_show_a_certificate_instead_of_a_password(place: Place) -> None:
    papers = place[1]
    options = {"sslrootcert": papers.authority, "sslcert": papers.client[0], "sslkey": papers.client[1]}
    async with connected(certified(address(place, "verify-full", **options))) as db:
        (row,) = await db.fetch(HOW)
        assert tuple(row) == (True, f"/CN={CERTIFIED}")


@until_hung_up
async def test_who_has_no_certificate_where_one_is_needed_is_told_so(place: Place) -> None:
    with pytest.raises(BadConfig, match="certificate"):
        await connect(certified(address(place, "verify-full", sslrootcert=place[1].authority)), "test", 30)


@until_hung_up
async def test_a_certificate_that_the_database_does_not_trust_opens_nothing(place: Place) -> None:
    papers = place[1]
    pair = {"sslcert": papers.strange_client[0], "sslkey": papers.strange_client[1]}

    with pytest.raises((BadConfig, Unavailable)):
        await connect(certified(address(place, "verify-full", sslrootcert=papers.authority, **pair)), "test", 30)


# ---------------------------------------------------------------- several hosts


@pytest.mark.parametrize("database", ["/postgres", ""])
@pytest.mark.parametrize("dead_first", [True, False])
@until_hung_up
async def test_each_of_several_hosts_is_held_to_the_same(place: Place, database: str, dead_first: bool) -> None:
    cluster, papers = place
    if not cluster.ask("SELECT 1 FROM pg_database WHERE datname = 'parley'"):
        cluster.create_database("parley")
    living, dead = f"127.0.0.1:{cluster.port}", f"127.0.0.1:{free_port()}"
    hosts = ",".join([dead, living] if dead_first else [living, dead])
    good, bad = (
        f"postgresql://parley@{hosts}{database}?sslmode=verify-full&sslrootcert={authority}"
        for authority in (papers.authority, papers.other_authority)
    )

    assert await encrypted(good)
    # What has to be mended is told, whichever host was asked last.
    with pytest.raises(BadConfig, match="cannot be trusted"):
        await connect(bad, "test", 30)


# ---------------------------------------------------------------- while a node runs


@until_hung_up
async def test_a_certificate_that_goes_wrong_while_a_node_runs_is_an_outage_and_ends_with_it(place: Place) -> None:
    cluster, papers = place
    pool = Sessions(address(place, "verify-full", sslrootcert=papers.authority), "pool", 1)
    try:
        assert await pool.fetch("", "SELECT 1", seconds=30)
        papers.trusted(False)
        cluster.restart()
        with pytest.raises(Unavailable, match="cannot be trusted"):
            await pool.open_connection("pool", 30)

        papers.trusted(True)
        cluster.restart()

        assert (await pool.fetch("", HOW, seconds=30))[0][0]
    finally:
        await pool.close()
        papers.trusted(True)
