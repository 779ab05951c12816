"""What makes an audit log intact: the rules for each entry, and a check that goes on where it stopped.

    entry ──hash of its content?──its own place?──follows the one before on its side?──> the next leaf of the tree

`parley audit verify` and the server check by the same rules. `AuditChainCheck` keeps only where each chain ends and the
peaks of the tree, so a log of any length is checked piece by piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.audit.checkpoint import LET_GO
from parley.domain.audit.entry import NO_HASH, entry_hash
from parley.domain.audit.merkle import Peaks, grown

if TYPE_CHECKING:
    from parley.domain.audit.checkpoint import AuditCheckpoint
    from parley.domain.audit.entry import AuditEntry

HASH_FAULT = "hash does not match content"
PLACE_FAULT = "it was written for another place"
LOOKUP_FAULT = "it is not found by what it says"
GONE_FAULT = "its document is gone, and no entry says that it was let go of"


class ChainEnd(NamedTuple):
    """Where the chain of a side ends: the place on its side, the hash and the number of its last entry."""

    seq: int = 0
    entry_hash: str = NO_HASH
    number: int = 0


@dataclass(frozen=True, slots=True)
class EntryPlace:
    """What the document of an entry says about where it belongs; the hash covers the rest."""

    id: str
    tenant: str
    side: str
    seq: int
    prev_hash: str
    action: str
    at: str = ""
    exchange_id: str = ""
    # Up to which entry documents were trimmed, in the entry about that.
    through: int = 0


def order_fault(seq: int, previous: str | None, end: ChainEnd) -> str:
    """Why an entry does not go on where its side's chain ended; empty if it does.

    `previous` is the hash that it names; None for an entry without a document, which names none.
    """
    if seq != end.seq + 1:
        return f"number {end.seq + 1} of its side is missing"
    if previous is not None and previous != end.entry_hash:
        return f"it does not follow the one before it on its side, entry {end.number}"
    return ""


class AuditChainCheck:
    """How far the log of a tenant was checked: entries so far are intact, or `broken_at` is the first that is not."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._ends: dict[str, ChainEnd] = {}
        self._tree = Peaks()
        # Entries up to here had been trimmed, as entries say.
        self._trimmed = 0
        # The highest entry without a document.
        self._gone = 0
        # The largest checkpoint whose root is that of the entries.
        self.signed_to = 0
        self.broken_at = 0
        self.why = ""

    @property
    def verified_to(self) -> int:
        """How many entries, from the first on, are intact."""
        return self.broken_at - 1 if self.broken_at else self._tree.size

    def add(self, entry: AuditEntry, place: EntryPlace | None) -> None:
        """Check the next entry; `place` is what its document says, None when it was trimmed or cannot be read."""
        if self.broken_at:
            return
        fault = self._fault(entry, place)
        if fault:
            self._refuse(self._tree.size + 1, fault)
            return
        if place is not None and place.action == LET_GO and place.through < entry.number:
            self._trimmed = max(self._trimmed, place.through)
        if not entry.document:
            self._gone = entry.number
        self._ends[entry.side] = ChainEnd(entry.seq, entry.entry_hash, entry.number)
        self._tree = grown(self._tree, (bytes.fromhex(entry.entry_hash),))

    def add_checkpoint(self, checkpoint: AuditCheckpoint, *, is_signed: bool) -> None:
        """Compare the entries with a checkpoint over exactly these."""
        if self.broken_at or checkpoint.size != self._tree.size or checkpoint.size == self.signed_to:
            return
        if not is_signed:
            self._refuse(self.signed_to + 1, f"the checkpoint over {checkpoint.size} entries is not signed")
        elif self._tree.root().hex() != checkpoint.root:
            self._refuse(self.signed_to + 1, f"from here to {checkpoint.size} is not what the checkpoint signs")
        else:
            self.signed_to = checkpoint.size

    def end(self, size: int) -> None:
        """The log has no more entries, and should have this many."""
        if self._tree.size < size:
            self._refuse(self._tree.size + 1, "missing")
        elif self._gone > self._trimmed:
            self._refuse(self._trimmed + 1, GONE_FAULT)

    def _fault(self, entry: AuditEntry, place: EntryPlace | None) -> str:
        if entry.number != self._tree.size + 1:
            return f"missing; entry {entry.number} is in its place"
        if entry.document and entry_hash(entry.document) != entry.entry_hash:
            return HASH_FAULT
        if entry.document and place is None:
            return "its content is no entry of an audit log"
        if place is not None:
            if (place.side, place.seq, place.tenant) != (entry.side, entry.seq, self._tenant):
                return PLACE_FAULT
            if (place.id, place.at, place.exchange_id) != (entry.id, entry.at, entry.exchange_id):
                return LOOKUP_FAULT
        previous = place.prev_hash if place is not None else None
        return order_fault(entry.seq, previous, self._ends.get(entry.side, ChainEnd()))

    def _refuse(self, number: int, why: str) -> None:
        if not self.broken_at:
            self.broken_at, self.why = number, why
