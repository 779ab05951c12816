"""docs/how-to/operate-postgresql.md: a base backup and an archive lead back to any moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.sdk.blocking.connection import Connection
from tests.postgres.cluster import Cluster, a_cluster, a_folder, until
from tests.postgres.programs import account, as_server, run
from tests.rigs.process import ADMIN_KEY, running
from tests.surface.stage import parley_script

DATABASE = "parley"


@pytest.fixture(name="folder")
def a_folder_of_the_server() -> Iterator[Path]:
    with a_folder() as folder:
        (folder / "archive").mkdir()
        for path in (folder, folder / "archive"):
            give(path)
        yield folder


def give(path: Path) -> None:
    """To the account that runs the database."""
    if (other := account()) is not None:
        os.chown(path, other.pw_uid, other.pw_gid)


def back_up(cluster: Cluster, target: Path) -> None:
    origin = f"host=127.0.0.1 port={cluster.port} user=postgres"
    options = ["--dbname", origin, "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
    run([*as_server("pg_basebackup"), "--pgdata", str(target), *options])


def restored(folder: Path, backup: Path, moment: str) -> Cluster:
    """The backup, and what the archive has until a moment."""
    settings = {
        "restore_command": f"cp {folder}/archive/%f %p",
        "recovery_target_time": moment,
        "recovery_target_action": "promote",
    }
    cluster = Cluster(folder / "restored", settings)
    cluster._own_folder()
    shutil.copytree(backup, cluster.data)
    for path in (cluster.data, *cluster.data.rglob("*")):
        give(path)
    signal = cluster.data / "recovery.signal"
    signal.touch()
    give(signal)
    return cluster


def titles(url: str) -> list[str]:
    return [one["title"] for one in Connection(url, key=ADMIN_KEY).get("intents")["intents"]]


@pytest.mark.slow
def test_a_backup_and_the_archive_lead_back_to_the_moment_before_a_mistake(folder: Path) -> None:
    archive = folder / "archive"
    place, part = f"{archive}/%f", f"{archive}/%f.part"
    command = f"test ! -f {place} && cp %p {part} && sync {part} && mv {part} {place} && sync {archive}"
    with a_cluster(fsync="on", archive_mode="on", archive_command=command) as cluster:
        dsn = cluster.create_database(DATABASE)
        with running(folder / "a", store=dsn) as server:
            connection = Connection(server.url, key=ADMIN_KEY)
            connection.post("intents", body={"title": "before the backup"})
            back_up(cluster, folder / "backup")
            connection.post("intents", body={"title": "after the backup"})
            moment = str(cluster.ask("SELECT clock_timestamp()::text")[0][0])
            connection.post("intents", body={"title": "the mistake"})
            last = cluster.ask("SELECT pg_walfile_name(pg_switch_wal())")[0][0]
            until(lambda: cluster.ask("SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver")[0][0] >= last)

    again = restored(folder, folder / "backup", moment)
    try:
        again.start()
        until(lambda: not again.ask("SELECT pg_is_in_recovery()")[0][0])
        with running(folder / "b", store=again.dsn(DATABASE)) as server:
            found = titles(server.url)
            run([parley_script(), "audit", "verify", "--url", server.url, "--key", ADMIN_KEY])
            run([parley_script(), "status", "--url", server.url, "--key", ADMIN_KEY])
    finally:
        again.end()

    assert found == ["before the backup", "after the backup"]
