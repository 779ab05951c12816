"""A database on which no server would start is refused as `parley up` refuses it, before anything is written to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.cluster import Cluster, a_cluster, shared_cluster
from tests.surface.cli.store_copy.installation import copying, in_store
from tests.surface.stage import Stage

BAD_CONFIG = 78


def refused_by_both(stage: Stage, folder: Path, dsn: str, cluster: Cluster) -> str:
    """What a copy says, which is what a server says; and nothing was written."""
    ran = stage.run(*copying(in_store(folder / "data"), dsn))
    assert (ran.code, ran.error) == (BAD_CONFIG, "bad_config")
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert cluster.ask(tables, database=dsn.rpartition("/")[2])[0][0] == 0
    up = stage.script("up", "--port", "0", "--data", str(folder / "node"), "--store", dsn)
    assert (up.code, up.err.splitlines()[-len(ran.err.splitlines()) :]) == (BAD_CONFIG, ran.err.splitlines())
    return ran.err


def test_one_that_answers_before_a_commit_is_on_disk(stage: Stage, dsn: str, tmp_path: Path) -> None:
    shared_cluster().ask(f'ALTER DATABASE "{dsn.rpartition("/")[2]}" SET synchronous_commit = off')

    assert "synchronous_commit is off" in refused_by_both(stage, tmp_path, dsn, shared_cluster())


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_one_that_does_not_outlive_a_power_cut(stage: Stage, tmp_path: Path, setting: str) -> None:
    with a_cluster(**{"fsync": "on", setting: "off"}) as cluster:
        dsn = cluster.create_database("careless")

        assert f"{setting} is off" in refused_by_both(stage, tmp_path, dsn, cluster)


@pytest.mark.slow
def test_a_replica_is_neither_filled_nor_taken_for_what_it_follows(stage: Stage, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    with a_cluster(fsync="on") as cluster:
        standby = cluster.standby()
        follows = f"127.0.0.1:{standby.port}"
        primary = cluster.create_database("store")
        replica = primary.replace(f"127.0.0.1:{cluster.port}", follows)

        filled = stage.run(*copying(data, replica))
        assert (filled.code, filled.error) == (BAD_CONFIG, "bad_config")
        # Of several hosts the one is taken that can be written.
        either = primary.replace("@", f"@{follows},")
        assert stage.run(*copying(data, either)).code == 0
        taken = stage.run(*copying(replica, tmp_path / "back"))
        assert (taken.code, taken.error) == (BAD_CONFIG, "bad_config")
        assert "may lack what was acknowledged" in taken.err
        assert stage.run(*copying(either, tmp_path / "back")).code == 0


@pytest.mark.parametrize("table", ["about", "post"])
def test_one_with_another_programs_tables(stage: Stage, dsn: str, tmp_path: Path, table: str) -> None:
    name = dsn.rpartition("/")[2]
    shared_cluster().ask(f"CREATE TABLE {table} (mine integer)", database=name, user="parley")

    ran = stage.run(*copying(in_store(tmp_path / "data"), dsn))

    assert ran.error == "conflict", ran
    found = shared_cluster().ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", database=name)
    assert [row[0] for row in found] == [table]
