"""The nodes of one database: leases by its clock, how each node and the database are, what nodes tell each other."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from parley.adapters.postgres.sessions import ALL_TENANTS
from parley.domain.errors.errors import Unavailable
from parley.domain.store.node import LEASE_SECONDS, SILENT_SECONDS, Node, NodeSample, Replica, StoreReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.adapters.postgres.store import PostgresTeamStore

_log = logging.getLogger("parley.postgres")
# A node that has been silent for longer is not listed.
_GONE_SECONDS = 3_600
# Least time between two notifications, while commits follow one another: each of them wakes every node.
_ANNOUNCE_SECONDS = 0.02
# A notification holds 8,000 bytes.
_ANNOUNCED_TENANTS = 80
_LEASE = (
    "INSERT INTO lease VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second')"
    " ON CONFLICT (work) DO UPDATE SET holder = excluded.holder, until = excluded.until"
    " WHERE lease.holder = excluded.holder OR lease.until < clock_timestamp() RETURNING holder"
)
# It waits for no standby: an operator who looks for the reason of a blocked write must see which nodes are alive.
# What stood there is locked before it is read, and before the clock is: so it is what this beat takes the place of.
_HEARTBEAT = (
    "WITH lax AS (SELECT set_config('synchronous_commit', 'off', true)),"
    " earlier AS (SELECT seen, document FROM node WHERE name = $1::text FOR UPDATE)"
    " INSERT INTO node SELECT $1::text, clock_timestamp(), $2::bytea FROM lax LEFT JOIN earlier ON true"
    " ON CONFLICT (name) DO UPDATE SET seen = excluded.seen, document = excluded.document"
    " RETURNING extract(epoch FROM clock_timestamp())::float8,"
    " (SELECT extract(epoch FROM seen)::float8 FROM earlier), (SELECT document FROM earlier)"
)
_LEAVE = "DELETE FROM node WHERE name = $1 AND convert_from(document, 'UTF8')::json ->> 'instance' = $2"
_NODES = (
    "SELECT document, extract(epoch FROM clock_timestamp() - seen)::float8 FROM node"
    " WHERE seen > clock_timestamp() - $1 * interval '1 second' ORDER BY name"
)
_ROOM = (
    "SELECT (SELECT sum(numbackends)::int FROM pg_stat_database),"
    " (SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'parley %'),"
    # Connections reserved for superusers are not available.
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
    """See `ports.team.Nodes`. `holder` is another one after each start: what a dead one held is not ours."""

    def __init__(self, store: PostgresTeamStore, holder: str) -> None:
        self._store = store
        self._holder = holder
        # When the last beat went through: by the database's clock, and by ours. Both are None before the first.
        self._last_heartbeat: float | None = None
        self._last_reached: float | None = None
        # Others that beat under our name, and when we last met them; where the last of them is.
        self._namesakes: dict[str, float] = {}
        self._namesake = ""

    async def leads(self, work: str) -> bool:
        return bool(await self._store.sessions.fetch("", _LEASE, work, self._holder, LEASE_SECONDS))

    def measured(self, node: Node) -> Node:
        store = self._store
        busy = store.sessions.busy() + store.own_connections
        pool = store.sessions.max_connections + store.own_connections
        measurement = node._replace(queue=store.writer.queued, lag=store.follower.lag, connections=busy, pool=pool)
        return measurement._replace(namesake=self._namesake)

    async def heartbeat(self, node: Node) -> float:
        # By name: the node that reads it may be of another version.
        document = msgspec.json.encode({**self.measured(node)._asdict(), "instance": self._holder})
        now, seen_at, earlier = (await self._store.sessions.fetch("", _HEARTBEAT, node.name, document))[0]
        first = self._last_heartbeat is None
        # What is older than our own last beat was left by one that is dead, or came back with a backup.
        since = self._last_heartbeat is not None and seen_at is not None and seen_at > self._last_heartbeat
        self._note_namesake(node.name, msgspec.json.decode(earlier) if since else {}, now)
        self._last_heartbeat = now
        self._last_reached = asyncio.get_running_loop().time()
        if first:
            await self._log_concerns()
        return float(now)

    def _note_namesake(self, name: str, heartbeat: dict[str, Any], now: float) -> None:
        """Notice who has beaten under our name since we did. A version that does not say which one it is may be us."""
        # Two that beat every other second do not always take turns.
        self._namesakes = {instance: at for instance, at in self._namesakes.items() if now - at <= SILENT_SECONDS}
        other = str(heartbeat.get("instance") or self._holder)
        if other != self._holder:
            self._namesake = str(heartbeat.get("url") or "one that does not say where it is")
            if other not in self._namesakes:
                hint = "give each server a --node of its own; see: parley status"
                extra = {"action": "name_shared", "node": name, "detail": self._namesake, "hint": hint}
                _log.warning("another server has the name of this one", extra=extra)
            self._namesakes[other] = now
        elif self._namesake and not self._namesakes:
            self._namesake = ""
            _log.info("no other server has the name of this one any more", extra={"action": "name_shared"})

    async def report(self) -> StoreReport:
        try:
            return await self._build_report()
        except Unavailable as error:
            problem = error.message
            if self._last_reached is not None:
                problem += f"; it was last reached {asyncio.get_running_loop().time() - self._last_reached:.0f} s ago"
            return StoreReport("postgresql", unreachable=problem)

    async def _build_report(self) -> StoreReport:
        fetch = self._store.sessions.fetch
        version, tenants, size, standbys, row_security, journal = (await fetch(ALL_TENANTS, _STORE))[0]
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
            row_security=bool(row_security),
            nodes=await self.list_nodes(),
        )

    async def list_nodes(self) -> tuple[Node, ...]:
        return tuple([_to_node(*row) for row in await self._store.sessions.fetch("", _NODES, _GONE_SECONDS)])

    async def _log_concerns(self) -> None:
        """Say in the log, at the start, what a person should know before there is trouble."""
        for concern in (await self.report()).concerns():
            about = {"action": concern.code, "detail": concern.detail, "hint": "see: parley status"}
            _log.warning("something about the nodes or their database needs a person", extra=about)

    async def leave(self, name: str) -> None:
        """Release every lease, so that another node can take it at once, and remove the node from the list.

        Another one of our name is not gone with us.
        """
        await self._store.sessions.fetch("", "DELETE FROM lease WHERE holder = $1", self._holder)
        await self._store.sessions.fetch("", _LEAVE, name, self._holder)


def _to_node(document: bytes, seconds_silent: float) -> Node:
    fields: dict[str, Any] = msgspec.json.decode(document)
    node_fields = {name: fields[name] for name in Node._fields if name in fields}
    # A newer version may say more of each step.
    field_count = len(NodeSample._fields)
    lists = {
        "leads": tuple(fields.get("leads", ())),
        "history": tuple([NodeSample(*sample[:field_count]) for sample in fields.get("history", ())]),
    }
    node = Node(**{**node_fields, **lists, "seen": max(0.0, seconds_silent)})
    return node._replace(leads=()) if node.silent else node  # what it led, another leads by now


class Announcements:
    """Revisions of tenants that have to be announced; `send` is called when that is due."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._revisions: dict[str, int] = {}
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._revisions)

    def add(self, tenant: str, revision: int, *, more_follows: bool = False) -> None:
        """Announce a revision: at once, or with the next ones when more follows and others were announced just now."""
        self._revisions[tenant] = revision
        loop = asyncio.get_running_loop()
        if not more_follows or loop.time() >= self._sent_at + _ANNOUNCE_SECONDS:
            self._sent_at = loop.time()
            self._send()
        elif self._timer is None:
            self._timer = loop.call_at(self._sent_at + _ANNOUNCE_SECONDS, self._send_late)

    def take(self) -> str:
        """The next notification, or "": its tenants count as announced."""
        announced = list(self._revisions.items())[:_ANNOUNCED_TENANTS]
        for tenant, _ in announced:
            del self._revisions[tenant]
        return ",".join([f"{tenant}:{revision}" for tenant, revision in announced])

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _send_late(self) -> None:
        self._timer = None
        self._sent_at = asyncio.get_running_loop().time()
        self._send()
