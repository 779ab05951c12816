"""The contents of a store as plain tables, the same for every database; and a check of the order of their rows.

Rows are tuples with the columns that a `Table` names, their key first. `number` and `place` are tenant number * 2^40 +
position. What belongs to running nodes (journal, leases, revisions) is not copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.audit import entry as audit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = tuple[Any, ...]
Key = tuple[Any, ...]

_SHIFT = 40
_MASK = (1 << _SHIFT) - 1
_MOST_PROBLEMS = 20
# A page of rows ends at this size.
PAGE_BYTES = 2 << 20
# Columns that may have a megabyte.
_LONG = frozenset({"document", "payload", "metadata", "answer"})


class Table(NamedTuple):
    """A table of every store, read by its key."""

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    # Rows are only ever added.
    final: bool = False
    # Further unique columns.
    unique: tuple[tuple[str, ...], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key + self.rest

    @property
    def long(self) -> tuple[str, ...]:
        """The columns that may hold most of a row's bytes."""
        return tuple([column for column in self.rest if column in _LONG])

    def key_of(self, row: Row) -> Key:
        return row[: len(self.key)]

    def key_text(self, key: Key) -> str:
        """A key, for error messages."""
        return ", ".join(f"{name} {value}" for name, value in zip(self.key, key, strict=True))

    def values_in(self, columns: tuple[str, ...], rows: Iterable[Row]) -> list[Key]:
        """The values of rows in these columns, without empty names: they are not unique."""
        places = [self.columns.index(column) for column in columns]
        values = [tuple([row[place] for place in places]) for row in rows]
        return [value for value in values if value[-1] != ""] if columns[-1] == "name" else values


TENANT = Table("tenant", ("number",), ("id", "head", "entry_position", "entry_link", "audit_number"), unique=(("id",),))
RECORD = Table(
    "record",
    ("tenant", "kind", "id"),
    ("version", "parent", "name", "due", "document"),
    unique=(("tenant", "kind", "parent", "name"),),
)
TALLY = Table("tally", ("number",), ("tenant", "id", "intent", "count", "seq", "last_at", "floor"), unique=(("id",),))
POST = Table(
    "post",
    ("number",),
    (
        *("channel", "seq", "id", "sender", "addressee", "pattern", "in_reply_to", "created_at", "expires_at"),
        *("state", "recipients", "answered", "payload", "metadata", "exchange"),
    ),
    unique=(("id",), ("channel", "seq")),
)
RECEIPT = Table("receipt", ("post_id", "agent"), ("tenant", "read_at"))
EVENT = Table(
    "event",
    ("number",),
    ("intent_id", "sequence", "id", "event_type", "actor", "created_at", "trace_id", "document", "hash"),
    final=True,
)
ENTRY = Table("entry", ("tenant", "position"), ("document", "link"), final=True)
# Trimming removes a document; nothing else of an entry changes.
AUDIT = Table("audit", ("place",), audit.COLUMNS, final=True)
SAVED = Table("saved", ("scope",), ("fingerprint", "made", "at", "message_id", "status", "answer"))
BUDGET = Table("budget", ("tenant", "key", "span"), ("spent",))
# What was removed, counted; see `TrafficGroup`.
TRAFFIC = Table(
    "traffic",
    ("tenant", "hour", "kind", "scope", "sender", "digest"),
    ("receivers", "number", "low", "high", "first_at", "last_at"),
)

# In copy order: rows that belong to a tenant come after it.
TABLES = (TENANT, RECORD, TALLY, POST, RECEIPT, EVENT, ENTRY, AUDIT, SAVED, BUDGET, TRAFFIC)


class StoreMark(NamedTuple):
    """The state of a store. `total` counts messages and events; `stamp` changes with every commit."""

    total: int
    stamp: int


class Servers(NamedTuple):
    """The servers that use a store, by name. A silent one stopped sending heartbeats without signing off."""

    running: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def is_trimmed(table: Table, old: Row, new: Row) -> bool:
    """Whether the only change of an audit entry is that its document was trimmed."""
    return table is AUDIT and old[:-1] == new[:-1] and new[-1] == b""


class Order:
    """Checks the order of rows. It takes the rows of each table in key order, table by table.

    The ledgers and audit logs have no holes and end where their tenant says. Messages and events lie before their
    tenant's last position; the places of a channel's messages rise with it. There may be holes: what was evicted, or
    found its addressee later, leaves one.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._tenants: dict[int, Row] = {}
        self._channels: dict[int, Row] = {}
        self._places: dict[int, int] = {}
        self._positions: dict[int, int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._links: dict[int, bytes] = {}

    def take(self, table: Table, rows: Iterable[Row]) -> None:
        """The next rows of a table."""
        judge = {"tenant": self._tenant, "tally": self._tally, "post": self._post, "event": self._event}
        judge |= {"entry": self._entry, "audit": self._audit}
        if table.name in judge:
            for row in rows:
                judge[table.name](row)

    def end(self) -> Sequence[str]:
        """The problems, once all rows were taken."""
        for number, (_, name, head, entries, link, audits) in self._tenants.items():
            if self._positions.get(number, 0) > head:
                self._say(f"tenant {name!r} has {self._positions[number]} messages and events in {head} positions")
            for log, wanted in (("entry", entries), ("audit", audits)):
                end = self._ends.get((log, number), 0)
                if end != wanted:
                    self._say(f"the {log} log of {name!r} ends with number {end}, and its tenant says {wanted}")
            if entries and self._links.get(number) != link:
                self._say(f"the ledger of {name!r} does not end with the link that its tenant has")
        return self.problems

    def _tenant(self, row: Row) -> None:
        self._tenants[row[0]] = row

    def _tally(self, row: Row) -> None:
        self._channels[row[0]] = row

    def _post(self, row: Row) -> None:
        number, channel, seq = row[:3]
        self._position(number)
        if seq <= self._places.get(channel, 0):
            self._say(f"message {row[3]} has place {seq} of its channel, behind place {self._places[channel]}")
        self._places[channel] = seq
        counted = self._channels.get(channel)
        if counted is not None and seq > counted[5]:
            self._say(f"message {row[3]} has place {seq} of a channel that ends with place {counted[5]}")

    def _event(self, row: Row) -> None:
        self._position(row[0])

    def _position(self, number: int) -> None:
        tenant, position = number >> _SHIFT, number & _MASK
        self._positions[tenant] = self._positions.get(tenant, 0) + 1
        row = self._tenants.get(tenant)
        if row is None:
            self._say(f"what has the number {number} belongs to no tenant")
        elif position > row[2]:
            self._say(f"position {position} of {row[1]!r} has a message or event, and the last one is {row[2]}")

    def _entry(self, row: Row) -> None:
        self._next("entry", row[0], row[1])
        self._links[row[0]] = row[3]

    def _audit(self, row: Row) -> None:
        self._next("audit", row[0] >> _SHIFT, row[0] & _MASK)

    def _next(self, log: str, tenant: int, number: int) -> None:
        wanted = self._ends.get((log, tenant), 0) + 1
        if number != wanted:
            self._say(f"the {log} log of tenant {tenant} has number {number} where {wanted} should be")
        self._ends[log, tenant] = number

    def _say(self, problem: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)
