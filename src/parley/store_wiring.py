"""Where the parts of a copy from store to store come together. A place is a database's address, or a path."""

from __future__ import annotations

import os
from contextlib import ExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from parley.domain.errors.errors import BadConfig
from parley.domain.store.tables import Servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from parley.ports.team import StoreTables, StoreTarget, TeamStore


def is_database(place: str) -> bool:
    """Whether a store is named by the address of a database, and not by a path."""
    return place.startswith(("postgresql://", "postgres://"))


def store_path(place: str) -> str:
    """The file that a path names: itself, or the store in a data directory."""
    from parley.adapters.data.directory import store_path_in

    return store_path_in(place) if os.path.isdir(place) else place


@asynccontextmanager
async def open_tables(place: str) -> AsyncIterator[tuple[StoreTables, Callable[[], Awaitable[Servers]]]]:
    """A store as plain tables, as of now, and who says which servers use it."""
    if is_database(place):
        _check_driver()
        from parley.adapters.postgres.tables import open_tables

        database = await open_tables(place)
        try:
            yield database, database.servers
        finally:
            await database.close()
        return
    from parley.adapters.sqlite.team.tables import SqliteTables

    async def servers() -> Servers:
        return _servers_of(place)

    file = SqliteTables(store_path(place))
    try:
        yield file, servers
    finally:
        file.close()


def _servers_of(place: str) -> Servers:
    """A server holds its data directory for as long as it lives."""
    from parley.adapters.data.directory import is_in_use

    return Servers((f"the one of {place}",)) if os.path.isdir(place) and is_in_use(place) else Servers()


@asynccontextmanager
async def open_target(place: str) -> AsyncIterator[tuple[StoreTarget, str]]:
    """A store to be filled from another, and the place that it has until it is finished. No server starts on it."""
    if is_database(place):
        _check_driver()
        from parley.adapters.postgres.tables import open_target

        database = await open_target(place)
        try:
            yield database, place
        finally:
            await database.close()
        return
    from parley.adapters.data.directory import DataDirectory
    from parley.adapters.sqlite.team.tables import SqliteTarget

    with ExitStack() as stack:
        path = place
        if is_directory(place):
            path = stack.enter_context(DataDirectory(place)).store_path
        file = SqliteTarget(path)
        stack.callback(file.close)
        yield file, file.unfinished_path


def is_directory(place: str) -> bool:
    """Whether a path that need not exist yet is meant as a data directory."""
    return not is_database(place) and (os.path.isdir(place) or not place.endswith(".db"))


@asynccontextmanager
async def open_copy(place: str) -> AsyncIterator[TeamStore]:
    """A store only to read from it, whether it is finished or not."""
    from parley.domain.store.kinds import KINDS

    store: TeamStore
    if is_database(place):
        from parley.adapters.postgres.store import PostgresTeamStore

        store = PostgresTeamStore(place, KINDS, name="store copy", connections=4)
    else:
        from parley.adapters.sqlite.team.store import SqliteTeamStore

        store = SqliteTeamStore(store_path(place), KINDS, reads_only=True)
    try:
        yield store
    finally:
        await store.close()


def _check_driver() -> None:
    if find_spec("asyncpg") is None:
        hint = "pip install 'agent-parley[postgres]'"
        raise BadConfig("PostgreSQL needs a driver that is not installed", hint=hint)
