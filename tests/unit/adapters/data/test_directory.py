"""A data directory is private and has one server."""

import os
from pathlib import Path

import pytest

from parley.adapters.data.directory import (
    DataDirectory,
    DirectoryUse,
    check_not_copying,
    check_not_moved,
    is_in_use,
    store_path_in,
)
from parley.domain.errors.errors import Conflict, NotFound, Unavailable
from parley.domain.errors.team import UnsafeMode
from parley.domain.store.tables import Servers
from tests.rigs.team import in_loop


def test_a_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with DataDirectory(str(tmp_path / "new" / "data")):
        made = tmp_path / "new" / "data"

        assert made.stat().st_mode & 0o777 == 0o700
        assert (made / "lock").stat().st_mode & 0o777 == 0o600


def test_a_directory_that_others_may_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o750)

    with pytest.raises(UnsafeMode, match="chmod 700"), DataDirectory(str(data)):
        pass


@pytest.mark.parametrize("name", ["parley.db", "parley.db-wal", "parley.db-shm"])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / name).touch(mode=0o644)

    with pytest.raises(UnsafeMode, match=f"{name} is open to other users"), DataDirectory(str(data)):
        pass


def test_a_second_server_is_refused_and_the_next_one_is_not(tmp_path: Path) -> None:
    data = str(tmp_path / "data")

    with DataDirectory(data), pytest.raises(Conflict, match="a server is running"), DataDirectory(data):
        pass

    with DataDirectory(data) as free:
        assert free.store_path == str(tmp_path / "data" / "parley.db")


def test_a_file_in_the_place_of_the_directory_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "data").touch(mode=0o600)

    with pytest.raises(Unavailable), DataDirectory(str(tmp_path / "data")):
        pass


def test_the_store_of_a_directory_without_one_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store"):
        store_path_in(str(tmp_path))


def test_a_directory_is_held_as_long_as_somebody_has_it(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert not is_in_use(data)

    with DataDirectory(data):
        assert is_in_use(data)

    assert not is_in_use(data)


def test_no_empty_store_begins_beside_one_that_is_being_filled(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    check_not_copying(str(path))

    (tmp_path / "parley.db.copying").touch()
    with pytest.raises(Conflict, match="has not ended"):
        check_not_copying(str(path))

    path.touch()
    check_not_copying(str(path))


@in_loop
async def test_a_store_that_was_moved_is_refused_until_it_is_reopened(tmp_path: Path) -> None:
    use, path = DirectoryUse(str(tmp_path)), str(tmp_path / "parley.db")
    assert await use.moved_to() == ""
    check_not_moved(path)

    await use.mark_moved("postgresql://db1/parley")
    assert await use.moved_to() == "postgresql://db1/parley"
    assert (tmp_path / "parley.db.moved").stat().st_mode & 0o777 == 0o600
    with pytest.raises(Conflict, match="was moved to postgresql://db1/parley") as refused:
        check_not_moved(path)
    assert f"parley store reopen {tmp_path}" in refused.value.hint

    for _ in range(2):
        await use.mark_moved("")
        check_not_moved(path)
    assert os.listdir(tmp_path) == []


@in_loop
async def test_no_server_starts_on_a_directory_that_is_held_and_one_that_runs_is_named(tmp_path: Path) -> None:
    data, use = str(tmp_path / "data"), DirectoryUse(str(tmp_path / "data"))
    with DataDirectory(data):
        use = DirectoryUse(data)
        async with use.hold():
            assert await use.servers() == Servers((f"the one of {data}",))
    async with use.hold():
        assert await use.servers() == Servers()
        with pytest.raises(Conflict, match="a server is running"), DataDirectory(data):
            pass
    with DataDirectory(data):
        pass


@in_loop
async def test_a_file_without_a_directory_is_neither_held_nor_marked(tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    file.touch()
    use = DirectoryUse(str(file))

    async with use.hold():
        await use.mark_moved("elsewhere")

    assert (await use.moved_to(), await use.servers()) == ("", Servers())
    assert os.listdir(tmp_path) == ["backup.db"]
