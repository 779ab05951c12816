"""The tenant caches of one node, each valid for one revision, which the journal advances.

All nodes write, so what is known of a tenant is true only for the revision that goes with it. A commit that finds a
higher one in the head row reads the journal first; so does a request that is told of one.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import msgspec

from parley.domain.channel.channel import Tally
from parley.domain.store.source import ChannelCounters, Head

if TYPE_CHECKING:
    import asyncpg

    from parley.domain.audit.entry import SideHead
    from parley.domain.record import Record
    from parley.domain.store.source import BudgetKey, LogEnd, RecordKey

# Not cached; None means that there is no such record.
UNKNOWN = object()
_RECORDS_LIMIT = 20_000
_OTHERS_LIMIT = 10_000
HEAD = "number, id, head, revision, entry_position, entry_link, audit_number"


class Note(msgspec.Struct, array_like=True):
    """What the journal says of one transaction: the head after it, and what it changed."""

    head: tuple[int, int, bytes, int]
    records: list[tuple[str, str]] = []
    channels: list[str] = []
    ended: list[str] = []
    departed: list[str] = []
    # Whether it moved anything that is kept beside records and channels: chains, budgets, logs.
    others: bool = False
    # Row number, intent, last seq, count, last time and floor of those channels that are still there.
    channel_counters: dict[str, tuple[int, str, int, int, str, int]] = {}
    # Whether its records move the generation of the tenant; a node of before 0.7 does not say.
    moves_generation: bool = True
    # Tells the group from others: who lost the connection finds out by it whether the group was committed.
    mark: str = ""


# Each node counts its own generations, and gives no number twice: a tenant may be forgotten and read again.
_GENERATIONS = itertools.count(1)
encode_note = msgspec.json.Encoder().encode
decode_note = msgspec.json.Decoder(Note).decode


class TenantCache:
    """Cached rows of one tenant."""

    __slots__ = (
        "budgets",
        "channel_counters",
        "generation",
        "head",
        "id",
        "lock",
        "logs",
        "missed",
        "notified_position",
        "number",
        "readers",
        "records",
        "revision",
        "scope",
        "sides",
        "unnotified",
        "used",
    )

    def __init__(self, row: asyncpg.Record) -> None:
        self.number: int = row[0]
        self.id: str = row[1]
        self.revision: int = row[3]
        self.head = Head(self.number, row[2], row[4], row[5], row[6])
        # As the session setting of the row security has it.
        self.scope = str(self.number)
        # Held by the one that advances the revision: a transaction of this node, or a journal read.
        self.lock = asyncio.Lock()
        self.records: dict[RecordKey, Record | None] = {}
        # See `domain.store.ground`.
        self.generation = next(_GENERATIONS)
        self.channel_counters: dict[str, ChannelCounters] = {}
        self.sides: dict[str, SideHead] = {}
        self.budgets: dict[BudgetKey, int] = {}
        self.logs: dict[str, LogEnd] = {}
        # Who reads a record at this moment: if it changes meanwhile, what they find may be old.
        self.readers: dict[RecordKey, object] = {}
        # Up to which position the watchers were notified, and the notes they have not received yet.
        self.notified_position = self.head.position
        self.unnotified: list[Note] = []
        # Whether the watchers must learn that the journal was incomplete.
        self.missed = False
        self.used = True

    def put(self, key: RecordKey, record: Record | None) -> None:
        """Cache a record."""
        self.readers.pop(key, None)
        self.records[key] = record

    def drop(self, key: RecordKey) -> None:
        """Drop a record that has changed."""
        self.readers.pop(key, None)
        self.records.pop(key, None)

    def clear(self) -> None:
        """Drop everything."""
        self.generation = next(_GENERATIONS)
        self.readers.clear()
        self.records.clear()
        self.channel_counters.clear()
        self.clear_others()

    def clear_others(self) -> None:
        """Drop chains, budgets and logs, which another node may have changed."""
        self.sides.clear()
        self.budgets.clear()
        self.logs.clear()

    def apply_own(self, note: Note) -> None:
        """Advance after a commit of this node, which notifies the watchers itself."""
        self._advance(note)
        self.revision += 1
        self.notified_position = self.head.position

    def apply_other(self, revision: int, note: Note) -> None:
        """Advance after a commit of another node; what it changed is read again when needed."""
        self._advance(note)
        self.revision = revision
        self.unnotified.append(note)
        for kind, record_id in note.records:
            self.drop((self.id, kind, record_id))
        for channel_id in note.channels:
            self.channel_counters.pop(channel_id, None)
        for channel_id, (number, intent, seq, count, last_at, floor) in note.channel_counters.items():
            self.channel_counters[channel_id] = ChannelCounters(number, intent, seq, Tally(count, last_at, floor))
        if note.others:
            self.clear_others()

    def _advance(self, note: Note) -> None:
        self.head = Head(self.number, *note.head)
        if note.moves_generation and note.records:
            self.generation = next(_GENERATIONS)

    def trim(self) -> None:
        """Clear a table of the cache that is over its limit; it is read again when needed."""
        if len(self.records) > _RECORDS_LIMIT:
            self.readers.clear()
            self.records.clear()
        for cached in (self.channel_counters, self.sides, self.budgets, self.logs):
            if len(cached) > _OTHERS_LIMIT:
                cached.clear()
