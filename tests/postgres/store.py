"""Databases with Parley's tables in them, of the cluster that all tests of a run share."""

from __future__ import annotations

import asyncio

from parley.adapters.postgres import schema
from parley.adapters.postgres.connect import connect
from parley.adapters.postgres.store import PostgresTeamStore
from tests.postgres.cluster import new_database, shared_cluster
from tests.rigs.team import kinds

CONNECTIONS = 6


def with_tables(dsn: str) -> None:
    """Make the tables, once for all databases that are copied from this one."""

    async def made() -> None:
        db = await connect(dsn, "tests")
        try:
            await schema.migrate(db)
        finally:
            db.terminate()

    asyncio.run(made())


def fresh_database() -> str:
    """The address of a database with empty tables."""
    return new_database(with_tables)


def a_store(dsn: str, name: str = "test") -> PostgresTeamStore:
    """A node's store; make it in the event loop that uses it."""
    return PostgresTeamStore(dsn, kinds(), name=name, connections=CONNECTIONS)


_EMPTY = """
DO $$
DECLARE
    one record;
BEGIN
    PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
    SET LOCAL session_replication_role = replica;  -- not even the logs stay
    FOR one IN SELECT relname FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'about'
    LOOP
        EXECUTE format('DELETE FROM %I', one.relname);
    END LOOP;
    PERFORM setval(oid, 1, false) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'S';
END $$
"""


def empty(dsn: str) -> None:
    """End whoever still uses this database, and take out what is in it."""
    shared_cluster().ask(_EMPTY, database=dsn.rpartition("/")[2])
