"""The PostgreSQL that tests run on is a real one, breaks when it is told to, and goes when its users go."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.postgres import cluster as postgres_cluster
from tests.postgres import programs as postgres_programs
from tests.postgres.cluster import ELSEWHERE, Cluster, a_cluster, a_folder, drop, new_database, shared_cluster, until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def database() -> Iterator[str]:
    dsn = new_database()
    yield dsn
    drop(dsn)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster(fsync="off") as cluster:  # the machine itself does not crash
        cluster.create_database("shop")
        cluster.ask("CREATE TABLE sold (what text)", database="shop", user="parley")
        yield cluster


def sell(cluster: Cluster, what: str) -> None:
    cluster.ask("INSERT INTO sold VALUES ($1)", what, database="shop", user="parley")


def sold(cluster: Cluster) -> list[str]:
    return [row["what"] for row in cluster.ask("SELECT what FROM sold ORDER BY what", database="shop", user="parley")]


def test_a_new_database_answers_and_belongs_to_a_role_that_row_level_security_binds(database: str) -> None:
    async def look() -> asyncpg.Record | None:
        connection = await asyncpg.connect(database)
        try:
            return await connection.fetchrow(
                "SELECT 1 AS one, current_user AS me, rolsuper OR rolbypassrls AS above, "
                "pg_get_userbyid(datdba) AS owner FROM pg_roles, pg_database "
                "WHERE rolname = current_user AND datname = current_database()"
            )
        finally:
            await connection.close()

    found = asyncio.run(look())

    assert found is not None
    assert dict(found) == {"one": 1, "me": "parley", "above": False, "owner": "parley"}


def test_databases_know_nothing_of_each_other(database: str) -> None:
    cluster, other = shared_cluster(), new_database()
    cluster.ask("CREATE TABLE mine ()", database=database.rpartition("/")[2], user="parley")

    names = cluster.ask("SELECT to_regclass('mine') AS it", database=other.rpartition("/")[2], user="parley")

    assert names[0]["it"] is None
    drop(other)


def test_a_database_can_be_asked_for_inside_an_event_loop(database: str) -> None:
    async def inside() -> None:
        drop(new_database())

    asyncio.run(inside())


def test_a_template_is_prepared_once_for_all_copies() -> None:
    prepared: list[str] = []

    def prepare(dsn: str) -> None:
        prepared.append(dsn)
        shared_cluster().ask("CREATE TABLE goods ()", database=dsn.rpartition("/")[2], user="parley")

    copies = [new_database(prepare), new_database(prepare)]

    for dsn in copies:
        found = shared_cluster().ask("SELECT to_regclass('goods')::text AS it", database=dsn.rpartition("/")[2])
        assert found[0]["it"] == "goods"
        drop(dsn)
    assert len(prepared) == 1


@pytest.mark.slow
@pytest.mark.parametrize("end", [Cluster.kill, Cluster.sigkill])
def test_what_was_committed_is_there_after_a_crash(cluster: Cluster, end: Callable[[Cluster], None]) -> None:
    sell(cluster, "bread")
    address = cluster.dsn()

    end(cluster)
    assert not cluster.running()
    cluster.start()

    assert sold(cluster) == ["bread"]
    assert cluster.dsn() == address
    assert "was not properly shut down" in (cluster.folder / "log").read_text()


@pytest.mark.slow
def test_a_standby_has_every_commit_and_takes_writes_once_promoted(cluster: Cluster) -> None:
    standby = cluster.standby()
    sell(cluster, "bread")
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        sell(standby, "cake")

    cluster.sigkill()
    standby.promote()
    sell(standby, "salt")

    assert sold(standby) == ["bread", "salt"]


@pytest.mark.slow
def test_a_commit_waits_for_the_standby(cluster: Cluster) -> None:
    standby = cluster.standby()
    standby.stop()

    async def sell_in_vain() -> None:
        connection = await asyncpg.connect(cluster.dsn("shop"))
        try:
            await connection.execute("INSERT INTO sold VALUES ('bread')", timeout=0.2)
        finally:
            connection.terminate()

    with pytest.raises(TimeoutError):
        asyncio.run(sell_in_vain())


@pytest.mark.slow
def test_settings_count_after_a_reload_or_a_restart(cluster: Cluster) -> None:
    cluster.settings["lock_timeout"] = "1234ms"
    cluster.reload()
    until(lambda: cluster.ask("SHOW lock_timeout")[0][0] == "1234ms")

    cluster.settings["max_connections"] = "33"
    cluster.restart()

    assert cluster.ask("SHOW max_connections")[0][0] == "33"


@pytest.mark.slow
def test_a_server_goes_when_its_only_user_is_killed() -> None:
    script = (
        "import sys\nfrom tests.postgres.cluster import shared_cluster\n"
        "print(shared_cluster().folder, flush=True)\nsys.stdin.read()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_TESTRUNUID"}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        folder = Path(user.stdout.readline().strip())
        server = int((folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        user.send_signal(signal.SIGKILL)

    until(lambda: not folder.exists())

    assert postgres_cluster._processes().get(server, (0, "Z"))[1].startswith("Z")


@pytest.mark.parametrize(("where", "outcome"), [({"CI": "true"}, pytest.fail.Exception), ({}, pytest.skip.Exception)])
def test_without_a_server_tests_are_skipped_at_home_and_fail_in_ci(
    monkeypatch: pytest.MonkeyPatch, where: dict[str, str], outcome: type[BaseException]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for name, value in where.items():
        monkeypatch.setenv(name, value)
    with a_folder() as empty:
        monkeypatch.setenv("PARLEY_POSTGRES_BIN", str(empty))

        with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="no PostgreSQL") as raised:
            postgres_programs.programs.__wrapped__()

    assert raised.type is outcome


def test_programs_that_are_not_all_there_are_no_server() -> None:
    with a_folder() as folder:
        for name in ("initdb", "pg_ctl", "postgres"):
            (folder / name).symlink_to(postgres_programs.programs() / name)

        assert not postgres_programs.usable(folder)
        (folder / "pg_basebackup").symlink_to(postgres_programs.programs() / "pg_basebackup")
        assert postgres_programs.usable(folder)


def test_the_databases_of_tests_can_be_made_in_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = shared_cluster()
    monkeypatch.setenv(ELSEWHERE, shared.dsn(user="postgres"))

    def prepare(dsn: str) -> None:
        shared.ask("CREATE TABLE made ()", database=dsn.rpartition("/")[2])

    dsn = new_database(prepare)
    made = shared.ask("SELECT count(*) FROM pg_tables WHERE tablename = 'made'", database=dsn.rpartition("/")[2])
    drop(dsn)

    assert dsn.startswith(f"postgresql://postgres@127.0.0.1:{shared.port}/db_")
    assert made[0][0] == 1
    assert shared.ask("SELECT 1 FROM pg_database WHERE datname = $1", dsn.rpartition("/")[2]) == []
