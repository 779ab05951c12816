"""What the team's store knows of its file without asking it: records, counters of channels, heads of tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from parley.domain.channel import Tally
    from parley.domain.record import Record

RecordKey = tuple[str, str, str]
# Nothing is known of it; None would say that there is no such record.
UNKNOWN = object()


class Head(NamedTuple):
    """Where a tenant's positions and its ledger stand."""

    number: int
    position: int
    entry_position: int
    entry_link: bytes
    audit_number: int = 0


class Place(NamedTuple):
    """A channel's number inside, its intent and its counters; `seq` is the last place taken."""

    number: int
    intent_id: str
    seq: int
    tally: Tally


class Known:
    """What the file is known to hold, as of the last commit. Only this process writes it, so what is known is true."""

    def __init__(self, kinds: dict[str, type[Record]]) -> None:
        self.kinds = kinds
        self.records: dict[RecordKey, Record | None] = {}
        self.places: dict[str, Place] = {}
        self.heads: dict[str, Head] = {}
        self.most = 50_000
        # Counts how often it was all forgotten: what was read before that may be older than what was forgotten.
        self.generation = 0

    def trim(self) -> None:
        """Forget everything rather than grow for ever: it is read again when it is needed."""
        if len(self.records) > self.most:
            self.generation += 1
            self.records.clear()
        if len(self.places) > self.most:
            self.places.clear()
