"""The nodes of one database: leases by its clock, how each node is, and how the database is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from parley.adapters.postgres.sessions import EVERYBODY
from parley.domain.node import LEASE_SECONDS, Node, Replica, StoreReport

if TYPE_CHECKING:
    from parley.adapters.postgres.team_store import PostgresTeamStore

_log = logging.getLogger("parley.postgres")
# One that has been silent for so long is not shown any more.
_GONE_SECONDS = 3_600
_LEASE = (
    "INSERT INTO lease VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second')"
    " ON CONFLICT (work) DO UPDATE SET holder = excluded.holder, until = excluded.until"
    " WHERE lease.holder = excluded.holder OR lease.until < clock_timestamp() RETURNING holder"
)
# It waits for no standby: whoever looks for the reason why nothing can be written must see who is alive.
_BEAT = (
    "WITH lax AS (SELECT set_config('synchronous_commit', 'off', true))"
    " INSERT INTO node SELECT $1::text, clock_timestamp(), $2::bytea FROM lax"
    " ON CONFLICT (name) DO UPDATE SET seen = excluded.seen, document = excluded.document"
    " RETURNING extract(epoch FROM clock_timestamp())::float8"
)
_NODES = (
    "SELECT document, extract(epoch FROM clock_timestamp() - seen)::float8 FROM node"
    " WHERE seen > clock_timestamp() - $1 * interval '1 second' ORDER BY name"
)
_ROOM = (
    "SELECT (SELECT sum(numbackends)::int FROM pg_stat_database),"
    " (SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'parley %'),"
    # What the database keeps for its superusers is nobody else's.
    " (SELECT sum(CASE name WHEN 'max_connections' THEN setting::int ELSE -setting::int END)::int FROM pg_settings"
    " WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections'))"
)
_STORE = (
    "SELECT current_setting('server_version'), (SELECT count(*)::int FROM tenant WHERE id <> ''),"
    " pg_database_size(current_database()), current_setting('synchronous_standby_names'),"
    " (SELECT NOT (rolsuper OR rolbypassrls) FROM pg_roles WHERE rolname = current_user),"
    # As the database's own statistics have it: to count them all would be a look at each.
    " (SELECT n_live_tup::int FROM pg_stat_all_tables WHERE relid = 'journal'::regclass)"
)
_LOCKS = (
    "SELECT count(DISTINCT pid)::int,"
    " coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8"
    " FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()"
)
_OLDEST = (
    "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
_REPLICAS = (
    "SELECT coalesce(application_name, ''), coalesce(sync_state, ''),"
    " coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::int8 FROM pg_stat_replication ORDER BY 1"
)


class PostgresNodes:
    """See `team_ports.Nodes`. `holder` is another one after each start: what a dead one held is not ours."""

    def __init__(self, store: PostgresTeamStore, holder: str) -> None:
        self._store = store
        self._holder = holder
        self._looked = False

    async def leads(self, work: str) -> bool:
        return bool(await self._store.sessions.fetch("", _LEASE, work, self._holder, LEASE_SECONDS))

    def measured(self, node: Node) -> Node:
        store = self._store
        busy = store.sessions.busy() + store.own_connections
        pool = store.sessions.most + store.own_connections
        return node._replace(queue=store.writer.queued, lag=store.follower.lag, connections=busy, pool=pool)

    async def beat(self, node: Node) -> float:
        # By name: the node that reads it may be of another version.
        document = msgspec.json.encode(self.measured(node)._asdict())
        now = (await self._store.sessions.fetch("", _BEAT, node.name, document))[0][0]
        if not self._looked:
            self._looked = True
            await self._look_around()
        return float(now)

    async def report(self) -> StoreReport:
        fetch = self._store.sessions.fetch
        version, tenants, size, standbys, walled, journal = (await fetch(EVERYBODY, _STORE))[0]
        connections, ours, most = (await fetch("", _ROOM))[0]
        waiting, longest = (await fetch("", _LOCKS))[0]
        return StoreReport(
            "postgresql",
            version,
            tenants,
            size,
            journal=journal or 0,
            waiting=waiting,
            longest_wait=max(0.0, longest),
            oldest_transaction=max(0.0, (await fetch("", _OLDEST))[0][0]),
            connections=connections,
            ours=ours,
            most_connections=most,
            standbys=standbys,
            replicas=tuple([Replica(*row) for row in await fetch("", _REPLICAS)]),
            row_security=bool(walled),
            nodes=tuple([_node(*row) for row in await fetch("", _NODES, _GONE_SECONDS)]),
        )

    async def _look_around(self) -> None:
        """Say in the log, at the start, what a person should know before there is trouble."""
        for concern in (await self.report()).concerns():
            about = {"action": concern.code, "detail": concern.detail, "hint": "see: parley status"}
            _log.warning("something about the nodes or their database needs a person", extra=about)

    async def leave(self, name: str) -> None:
        """Let go of every work, so that another node has it at once. Who has left is not one that is missing."""
        await self._store.sessions.fetch("", "DELETE FROM lease WHERE holder = $1", self._holder)
        await self._store.sessions.fetch("", "DELETE FROM node WHERE name = $1", name)


def _node(document: bytes, seen: float) -> Node:
    told: dict[str, Any] = msgspec.json.decode(document)
    known = {name: told[name] for name in Node._fields if name in told}
    node = Node(**{**known, "leads": tuple(told.get("leads", ())), "seen": max(0.0, seen)})
    return node._replace(leads=()) if node.silent else node  # what it led, another leads by now
