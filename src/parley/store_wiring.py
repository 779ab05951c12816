"""The stores of a server, as one table: how an address names each, and how it is opened.

A new store is an adapter, a `StoreKind` here and a line in `STORES`. Its address is a URL with one of its schemes; the
store that has none is named by a path.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import BadConfig, Invalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from parley.app.team.state.nodes import NodeState
    from parley.ports.team import StoreTables, StoreTarget, StoreUse, TeamStore
    from parley.settings import Settings

    Tables = tuple[StoreTables, StoreUse]


class StoreKind(NamedTuple):
    """One kind of store. `place` is its address or path."""

    schemes: tuple[str, ...]
    # The module that it needs, the extra that installs it, and what its address looks like.
    driver: str
    extra: str
    example: str
    # For a server: the store, and which other servers share it. The path is that of a file in the data directory.
    open_for_server: Callable[[Settings, str, bool], Awaitable[tuple[TeamStore, NodeState]]]
    # As plain tables as of now, and its use by servers.
    open_tables: Callable[[str], AbstractAsyncContextManager[Tables]]
    # To be filled from another store, and the place that it has until it is finished. No server starts on it.
    open_target: Callable[[str], AbstractAsyncContextManager[tuple[StoreTarget, str]]]
    # Only to read from it, whether it is finished or not.
    open_reader: Callable[[str], TeamStore]

    @property
    def is_database(self) -> bool:
        """Whether it is named by an address, and not by a path."""
        return bool(self.schemes)


def find_store(place: str) -> StoreKind:
    """The kind of store at an address or a path. `Invalid` for an address of none, `BadConfig` without its driver."""
    scheme, colon, _ = place.partition("://")
    for kind in STORES:
        if scheme in kind.schemes if colon else not kind.schemes:
            if kind.driver and find_spec(kind.driver) is None:
                hint = f"pip install 'agent-parley[{kind.extra}]'"
                raise BadConfig(f"{scheme}:// needs a driver that is not installed", hint=hint)
            return kind
    examples = " or ".join(kind.example for kind in STORES)
    raise Invalid(f"{scheme}:// is not the address of a store", hint=f"use {examples}")


async def open_for_server(settings: Settings, path: str, *, durable: bool) -> tuple[TeamStore, NodeState]:
    """The store that the settings name, else the file at the path."""
    try:
        kind = find_store(settings.store or path)
    except Invalid as error:
        raise BadConfig(f"{settings.source_of('store')}: {error.message}", hint=error.hint) from None
    return await kind.open_for_server(settings, path, durable)


@asynccontextmanager
async def open_reader(place: str) -> AsyncIterator[TeamStore]:
    """A store only to read from it, whether it is finished or not."""
    store = find_store(place).open_reader(place)
    try:
        yield store
    finally:
        await store.close()


def node_name(settings: Settings) -> str:
    """What a server is called among those that share a store: as given, else by its machine and port."""
    return settings.node or f"{os.uname().nodename}:{settings.port}"


# ---------------------------------------------------------------- a file


def is_directory(place: str) -> bool:
    """Whether a path that need not exist yet is meant as a data directory."""
    return not find_store(place).is_database and (os.path.isdir(place) or not place.endswith(".db"))


def _store_path(place: str) -> str:
    """The file that a path names: itself, or the store in a data directory."""
    from parley.adapters.data.directory import store_path_in

    return store_path_in(place) if os.path.isdir(place) else place


async def _open_file(settings: Settings, path: str, durable: bool) -> tuple[TeamStore, NodeState]:
    from parley.adapters.data.directory import check_not_copying, check_not_moved
    from parley.adapters.sqlite.team.nodes import SqliteNodes
    from parley.adapters.sqlite.team.store import SqliteTeamStore
    from parley.app.team.state.nodes import NodeState
    from parley.domain.store.kinds import KINDS
    from parley.domain.version import VERSION

    check_not_copying(path)
    check_not_moved(path)
    store = SqliteTeamStore(path, KINDS, durable=durable)
    return store, NodeState(name=node_name(settings), version=VERSION, condition=SqliteNodes(store))


@asynccontextmanager
async def _open_file_tables(place: str) -> AsyncIterator[Tables]:
    from parley.adapters.data.directory import DirectoryUse
    from parley.adapters.sqlite.team.tables import SqliteTables

    file = SqliteTables(_store_path(place))
    try:
        yield file, DirectoryUse(place)
    finally:
        file.close()


@asynccontextmanager
async def _open_file_target(place: str) -> AsyncIterator[tuple[StoreTarget, str]]:
    from parley.adapters.data.directory import DataDirectory, check_not_moved
    from parley.adapters.sqlite.team.tables import SqliteTarget

    with ExitStack() as stack:
        path = place
        if is_directory(place):
            path = stack.enter_context(DataDirectory(place)).store_path
            check_not_moved(path)
        file = SqliteTarget(path)
        stack.callback(file.close)
        yield file, file.unfinished_path


def _open_file_reader(place: str) -> TeamStore:
    from parley.adapters.sqlite.team.store import SqliteTeamStore
    from parley.domain.store.kinds import KINDS

    return SqliteTeamStore(_store_path(place), KINDS, reads_only=True)


# ---------------------------------------------------------------- PostgreSQL


async def _open_postgres(settings: Settings, _path: str, durable: bool) -> tuple[TeamStore, NodeState]:
    from parley.adapters.postgres.nodes import PostgresNodes
    from parley.adapters.postgres.store import open_store
    from parley.adapters.process import SystemIds
    from parley.app.team.state.nodes import NodeState
    from parley.domain.store.kinds import KINDS
    from parley.domain.version import VERSION

    name, connections = node_name(settings), int(settings.store_connections)
    store = await open_store(settings.store, KINDS, name=name, connections=connections, durable=durable)
    return store, NodeState(PostgresNodes(store, f"{name} {SystemIds().token()}"), name, version=VERSION)


@asynccontextmanager
async def _open_postgres_tables(place: str) -> AsyncIterator[Tables]:
    from parley.adapters.postgres.tables import open_tables

    database = await open_tables(place)
    try:
        yield database, database
    finally:
        await database.close()


@asynccontextmanager
async def _open_postgres_target(place: str) -> AsyncIterator[tuple[StoreTarget, str]]:
    from parley.adapters.postgres.tables import open_target

    database = await open_target(place)
    try:
        yield database, place
    finally:
        await database.close()


def _open_postgres_reader(place: str) -> TeamStore:
    from parley.adapters.postgres.store import PostgresTeamStore
    from parley.domain.store.kinds import KINDS

    return PostgresTeamStore(place, KINDS, name="store copy", connections=4)


STORES = (
    StoreKind(
        schemes=("postgresql", "postgres"),
        driver="asyncpg",
        extra="postgres",
        example="postgresql://USER@HOST/DATABASE",
        open_for_server=_open_postgres,
        open_tables=_open_postgres_tables,
        open_target=_open_postgres_target,
        open_reader=_open_postgres_reader,
    ),
    StoreKind(
        schemes=(),
        driver="",
        extra="",
        example="a path",
        open_for_server=_open_file,
        open_tables=_open_file_tables,
        open_target=_open_file_target,
        open_reader=_open_file_reader,
    ),
)
