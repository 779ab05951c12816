"""Every test gets an empty store of the kind that the run is about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.domain.store.changes import TeamChanges
from tests.postgres.cluster import shared_cluster
from tests.rigs import chosen_store
from tests.rigs.behind_the_server import Guarded, change, kept, tables
from tests.rigs.chosen_store import a_database, database_of_the_test, end_of_test
from tests.rigs.team import INTENT, Rig, open_rig


@pytest.fixture(autouse=True)
def _postgres() -> Iterator[None]:
    before = chosen_store.is_postgres()
    chosen_store.choose("postgres")
    yield
    chosen_store.choose("postgres" if before else "sqlite")


def in_use(dsn: str) -> int:
    name = dsn.rpartition("/")[2]
    # The database cleans up by itself, too, whenever it likes.
    query = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'"
    found = shared_cluster().ask(query, name)
    return int(found[0][0])


async def said(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.say("alice", "the blue elephant")


def test_what_one_test_has_stored_the_next_one_does_not_find(tmp_path: Path) -> None:
    async def look() -> tuple[str, dict[str, int], bytes]:
        async with open_rig(tmp_path) as rig:
            before = {name: len(rows) for name, rows in tables(rig).items()}
            await said(rig)
            return rig.dsn, before, kept(rig)

    first, _, stored = asyncio.run(look())
    assert b"the blue elephant" in stored
    second, before, _ = asyncio.run(look())

    assert second == first
    assert {name for name, rows in before.items() if rows} == {"about"}


def test_a_folder_stands_for_one_database_while_it_is_in_use(tmp_path: Path) -> None:
    with a_database(tmp_path) as one, a_database(tmp_path) as again, a_database(tmp_path / "other") as other:
        assert one == again != other


def test_whoever_still_uses_a_database_is_cut_off_before_it_is_given_to_another(tmp_path: Path) -> None:
    async def leave_it_open() -> str:
        import asyncpg

        dsn = database_of_the_test(tmp_path)
        left = await asyncpg.connect(dsn)
        await left.execute("BEGIN; INSERT INTO node VALUES ('left', now(), '')")
        assert in_use(dsn) > 0
        end_of_test()
        left.terminate()
        return dsn

    dsn = asyncio.run(leave_it_open())

    assert in_use(dsn) == 0
    assert shared_cluster().ask("SELECT * FROM node", database=dsn.rpartition("/")[2]) == []


@pytest.mark.parametrize("store", chosen_store.CHOICES)
def test_a_store_is_changed_behind_its_guards_only_on_demand(tmp_path: Path, store: str) -> None:
    chosen_store.choose(store)

    async def change_it() -> tuple[int, bytes]:
        async with open_rig(tmp_path) as rig:
            await said(rig)
            await rig.store.commit(TeamChanges("default", events=(rig.team.event(INTENT, "comment", "a", b"{}"),)))
            with pytest.raises(Guarded):
                change(rig, "UPDATE event SET actor = ?", "nobody")
            return change(rig, "UPDATE event SET actor = ?", "mallory", guards=False), kept(rig)

    changed, stored = asyncio.run(change_it())

    assert changed == 1
    assert b"mallory" in stored
    assert b"nobody" not in stored
