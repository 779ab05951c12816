"""The audit log as JSON lines that stand for themselves, and the check of all of it; pure.

    {"parley_audit": 1, "tenant": "acme", "public_key": "8f3a...", "size": 1420, "sides": null, ...}
    {"number": 1, "side": "alice", "seq": 1, "entry_hash": "5dc9...", "document": {...}}
    {"number": 2, "side": "bob", "seq": 1, "entry_hash": "d37e..."}            its document was let go of
    {"number": 3, "side": "", "seq": 0, "entry_hash": "ca85..."}               of a side that is not shown here
    {"checkpoint": {"tenant": "acme", "size": 1420, "root": "4e3b...", "signature": "9a0c...", ...}}
    {"end": 1420}

It is read byte for byte: a line that is spelled in another way than here is not what the server wrote.
"""

from __future__ import annotations

from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from parley.domain.audit.chain import (
    GONE_FAULT,
    HASH_FAULT,
    LOOKUP_FAULT,
    PLACE_FAULT,
    ChainEnd,
    EntryPlace,
    order_fault,
)
from parley.domain.audit.checkpoint import LET_GO, AuditCheckpoint, checkpoint_id, is_signed, key_id
from parley.domain.audit.entry import NO_HASH, AuditEntry
from parley.domain.audit.merkle import Peaks, grown
from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from parley.domain.audit.checkpoint import Verify

VERSION = 1
# What is raised by a line that is no JSON, or not of its form; a name that is no UTF-8 raises the second.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
_EXPORT_HINT = "make one with: parley audit export; it is in JSON lines (CSV cannot be verified)"
CUT_OFF = "the export is cut off: {} of {} entries, and no end"


# ---------------------------------------------------------------- lines


class Header(Struct, forbid_unknown_fields=True, kw_only=True):
    """What the lines that follow are."""

    parley_audit: int
    tenant: str
    public_key: str
    # How many entries there are, and which sides are shown; null stands for all.
    size: int
    sides: list[str] | None = None
    # Only entries of this period are shown.
    since: str | UnsetType = UNSET
    until: str | UnsetType = UNSET


class EntryLine(Struct, forbid_unknown_fields=True):
    """One entry. Without a document only its hash is known."""

    number: int
    side: str
    seq: int
    entry_hash: str
    document: msgspec.Raw = msgspec.Raw()


class CheckpointLine(Struct, forbid_unknown_fields=True):
    """A checkpoint, as it is exported and served."""

    tenant: str
    size: int
    root: str
    at: str
    previous: str
    public_key: str
    signature: str
    key_id: str = ""


class _Wrapped(Struct, forbid_unknown_fields=True):
    checkpoint: CheckpointLine


class _End(Struct, forbid_unknown_fields=True):
    end: int


_encode = msgspec.json.Encoder().encode
_header = msgspec.json.Decoder(Header)
_entry = msgspec.json.Decoder(EntryLine)
_checkpoint = msgspec.json.Decoder(CheckpointLine)
_wrapped = msgspec.json.Decoder(_Wrapped)
_end = msgspec.json.Decoder(_End)
_facts = msgspec.json.Decoder(EntryPlace)


def header_line(header: Header) -> bytes:
    return _encode(header) + b"\n"


def entry_line(entry: AuditEntry, *, shown: bool = True) -> bytes:
    """An entry as a line; one that the reader may not see shows its hash, without which nothing could be computed."""
    if not shown:
        return _spelled(entry.number, "", 0, entry.entry_hash, b"")
    return _spelled(entry.number, entry.side, entry.seq, entry.entry_hash, entry.document)


def _spelled(number: int, side: str, seq: int, hashed: str, document: bytes) -> bytes:
    head = b'{"number":%d,"side":%b,"seq":%d,"entry_hash":%b' % (number, _encode(side), seq, _encode(hashed))
    return head + (b',"document":%b}\n' % document if document else b"}\n")


def checkpoint_document(checkpoint: AuditCheckpoint) -> dict[str, Any]:
    return {
        "tenant": checkpoint.tenant_id,
        "size": checkpoint.size,
        "root": checkpoint.root,
        "at": checkpoint.at,
        "previous": checkpoint.previous,
        "public_key": checkpoint.public_key,
        "signature": checkpoint.signature,
        "key_id": checkpoint.key_id,
    }


def checkpoint_line(checkpoint: AuditCheckpoint, *, wrapped: bool = False) -> bytes:
    document = checkpoint_document(checkpoint)
    return _encode({"checkpoint": document} if wrapped else document) + b"\n"


def end_line(size: int) -> bytes:
    return b'{"end":%d}\n' % size


def read_checkpoint(line: CheckpointLine) -> AuditCheckpoint:
    return AuditCheckpoint(
        id=checkpoint_id(line.size),
        tenant_id=line.tenant,
        size=line.size,
        root=line.root,
        at=line.at,
        previous=line.previous,
        public_key=line.public_key,
        signature=line.signature,
    )


def read_checkpoints(lines: Iterable[bytes]) -> Iterator[AuditCheckpoint]:
    """The checkpoints of a file that the server wrote. Half a line at its end is one that was never finished."""
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        try:
            yield read_checkpoint(_checkpoint.decode(line))
        except UNREADABLE as error:
            raise Invalid(f"line {number} is no checkpoint: {error}") from None


# ---------------------------------------------------------------- the check


class LogFinding(NamedTuple):
    """The first thing that is wrong: at which entry, and why. Number 0 is the file as a whole."""

    number: int
    side: str
    seq: int
    why: str

    def __str__(self) -> str:
        where = f"entry {self.number}" if self.number else "the file"
        place = f" ({self.side}, {self.seq})" if self.side else ""
        return f"{where}{place}: {self.why}"


class Report(NamedTuple):
    """What came out of a check."""

    tenant: str
    entries: int
    sides: int
    checkpoints: int
    # Up to which entry a good signature reaches, when it was made, and by which keys.
    covered: int
    covered_at: str
    keys: tuple[str, ...]
    # Entries without a document: let go of, or of sides that are not shown.
    let_go: int
    # The size of the first checkpoint that covers all that was let go of.
    let_go_covered: int
    hidden: int
    bad: LogFinding | None

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "keys": list(self.keys), "bad": self.bad._asdict() if self.bad else None}


class LogCheck:
    """Takes a tenant's entries in their order and its checkpoints, and says what is the first thing wrong with them.

    `trusted` are the keys, in hexadecimal, that may sign; none: whichever signed, and the report names it.
    """

    def __init__(self, verify: Verify, *, trusted: frozenset[str] = frozenset()) -> None:
        self._verify = verify
        self._trusted = trusted
        self._tenant = ""
        self._sides: frozenset[str] | None = None
        self._period = False
        self._leaves: list[bytes] = []
        self._heads: dict[str, ChainEnd] = {}
        self._ids: set[str] = set()
        self._inside: list[AuditCheckpoint] = []
        self._outside: list[AuditCheckpoint] = []
        self._missing: list[LogFinding] = []
        self._through = 0
        self._hidden = 0
        self._bad: LogFinding | None = None

    def header(self, tenant: str, sides: Iterable[str] | None = None, *, period: bool = False) -> None:
        """Whose log it is, and which sides are there as a whole; of the others there may be only hashes.

        Of a period, each side is there from some entry on.
        """
        self._tenant = tenant
        self._sides = None if sides is None else frozenset(sides)
        self._period = period

    @property
    def size(self) -> int:
        return len(self._leaves)

    def refuse(self, number: int, why: str, side: str = "", seq: int = 0) -> None:
        """Something is wrong with an entry; the lowest one counts."""
        if self._bad is None or number < self._bad.number:
            self._bad = LogFinding(number, side, seq, why)

    def stored(self, entry: AuditEntry, document: bytes) -> None:
        """The next entry as a store has it: what it is looked up by must be what it says."""
        self.entry(entry.number, entry.side, entry.seq, entry.entry_hash, document)
        try:
            facts = _facts.decode(document) if document else None
        except UNREADABLE:
            return  # which was found out already
        if facts is not None and (facts.id, facts.at, facts.exchange_id) != (entry.id, entry.at, entry.exchange_id):
            self.refuse(entry.number, LOOKUP_FAULT, entry.side, entry.seq)

    def entry(self, number: int, side: str, seq: int, stated: str, document: bytes) -> None:
        """The next entry."""
        wanted = len(self._leaves) + 1
        if number != wanted:
            self.refuse(wanted, f"missing; entry {number} is in its place")
            number = wanted
        try:
            leaf = bytes.fromhex(stated)
        except (ValueError, TypeError):  # a file that was changed by hand may hold anything
            leaf = b""
        if len(leaf) != 32 or leaf.hex() != stated:
            self.refuse(number, "its hash is none", side, seq)
        self._leaves.append(leaf)
        if document:
            if sha256(b"\x00" + document).digest() != leaf:
                self.refuse(number, HASH_FAULT, side, seq)
            self._content(number, side, seq, document)
        elif side:
            self._missing.append(LogFinding(number, side, seq, GONE_FAULT))
            self._follow(number, side, seq, None)
        elif self._sides is not None or self._period:
            self._hidden += 1
        else:
            self.refuse(number, "it does not say whose it is")
        if side:
            self._heads[side] = ChainEnd(seq, stated, number)

    def _content(self, number: int, side: str, seq: int, document: bytes) -> None:
        try:
            facts = _facts.decode(document)
        except UNREADABLE:
            self.refuse(number, "its content is no entry of an audit log", side, seq)
            return
        if (facts.side, facts.seq, facts.tenant) != (side, seq, self._tenant):
            self.refuse(number, PLACE_FAULT, side, seq)
        if facts.id in self._ids:
            self.refuse(number, f"{facts.id} was there before", side, seq)
        self._ids.add(facts.id)
        self._follow(number, side, seq, facts.prev_hash)
        if facts.action == LET_GO and facts.through < number:
            self._through = max(self._through, facts.through)

    def _follow(self, number: int, side: str, seq: int, previous: str | None) -> None:
        """That an entry goes on where its side's chain ended; one without a document does not say on what."""
        if self._sides is not None and side not in self._sides:
            return  # an actor's own entry on the side of another
        if self._period and side not in self._heads:
            return  # the one before it is not in the period
        fault = order_fault(seq, previous, self._heads.get(side, ChainEnd()))
        if fault:
            self.refuse(number, fault, side, seq)

    def checkpoint(self, checkpoint: AuditCheckpoint, *, outside: bool = False) -> None:
        """A checkpoint of the log's own, or one that was kept outside of it; in their order."""
        (self._outside if outside else self._inside).append(checkpoint)

    def report(self) -> Report:
        """What came out; call it at the end."""
        good, good_at, keys = self._signed()
        for gone in self._missing:
            if gone.number > self._through:
                self.refuse(gone.number, gone.why, gone.side, gone.seq)
            elif gone.number > good:
                self.refuse(gone.number, "its document is gone, and no checkpoint covers it", gone.side, gone.seq)
        return Report(
            tenant=self._tenant,
            entries=len(self._leaves),
            sides=len(self._heads),
            checkpoints=len({checkpoint.size for checkpoint in (*self._inside, *self._outside)}),
            covered=good,
            covered_at=good_at,
            keys=keys,
            let_go=len(self._missing),
            let_go_covered=self._covering(self._missing[-1].number) if self._missing else 0,
            hidden=self._hidden,
            bad=self._bad,
        )

    def _covering(self, number: int) -> int:
        sizes = [checkpoint.size for checkpoint in (*self._inside, *self._outside)]
        return min([size for size in sizes if size >= number], default=0)

    def _signed(self) -> tuple[int, str, tuple[str, ...]]:
        """Compare the tree with every checkpoint; up to where all is signed, since when, and by whom."""
        self._linked(self._inside, whole=True)
        self._linked(self._outside, whole=False)
        tree, good, good_at, keys = Peaks(), 0, "", dict[str, None]()
        statements: dict[int, str] = {}
        for checkpoint in sorted((*self._inside, *self._outside), key=attrgetter("size")):
            first, size = good + 1, checkpoint.size
            if statements.setdefault(size, checkpoint.hash) != checkpoint.hash:
                self.refuse(size, f"there are two different checkpoints over {size} entries")
                continue
            if not is_signed(checkpoint, self._verify, self._trusted):
                self.refuse(first, f"the checkpoint over {size} entries is not signed by a known key")
                continue
            if checkpoint.tenant_id != self._tenant:
                self.refuse(first, f"the checkpoint over {size} entries is of another tenant")
                continue
            if size > len(self._leaves):
                missing = len(self._leaves) + 1
                self.refuse(missing, f"missing, but the checkpoint of {checkpoint.at} covers {size} entries")
                break
            tree = grown(tree, self._leaves[tree.size : size])
            if tree.root().hex() != checkpoint.root:
                # What was found wrong with an entry of these says more than that something is.
                if self._bad is None or self._bad.number > size:
                    self.refuse(first, f"from here to {size} is not what the checkpoint of {checkpoint.at} signs")
                continue
            keys[key_id(checkpoint.public_key)] = None
            good, good_at = size, checkpoint.at
        return good, good_at, tuple(keys)

    def _linked(self, checkpoints: Sequence[AuditCheckpoint], *, whole: bool) -> None:
        """That each checkpoint names the one before it; the log's own begin with the first one."""
        before: AuditCheckpoint | None = None
        for checkpoint in checkpoints:
            if checkpoint == before and not whole:
                continue  # written twice into its folder, as releases before 0.7 could: it says the same
            if before is None:
                linked = not whole or checkpoint.previous == NO_HASH
            else:
                linked = checkpoint.previous == before.hash and checkpoint.size > before.size
            if not linked:
                first = before.size + 1 if before else 1
                self.refuse(first, f"the checkpoint over {checkpoint.size} entries does not follow the one before it")
            before = checkpoint


def check_lines(lines: Iterable[bytes], check: LogCheck) -> Header:
    """Check an export: its header, then every line. What follows from its end is in the check's report."""
    reading = iter(lines)
    first = next(reading, b"")
    try:
        header = _header.decode(first)
    except UNREADABLE:
        raise Invalid("this is no export of an audit log", hint=_EXPORT_HINT) from None
    if header.parley_audit != VERSION:
        raise Invalid(f"this export is of version {header.parley_audit}, this Parley knows {VERSION}")
    period = header.since is not UNSET or header.until is not UNSET
    check.header(header.tenant, header.sides, period=period)
    ended, reached, last = -1, 0, ""
    for number, line in enumerate(reading, 2):
        same = b""
        try:
            if ended >= 0:
                check.refuse(0, f"line {number} comes after the end")
            elif line.startswith(b'{"number":'):
                entry = _entry.decode(line)
                document = bytes(entry.document)
                check.entry(entry.number, entry.side, entry.seq, entry.entry_hash, document)
                same = _spelled(entry.number, entry.side, entry.seq, entry.entry_hash, document)
            elif line.startswith(b'{"checkpoint":'):
                mark = read_checkpoint(_wrapped.decode(line).checkpoint)
                check.checkpoint(mark)
                reached, last, same = mark.size, mark.public_key, checkpoint_line(mark, wrapped=True)
            else:
                ended = _end.decode(line).end
                same = end_line(ended)
        except (msgspec.MsgspecError, ValueError):
            if line.endswith(b"\n") or ended >= 0:  # else it is cut off here, which is said below
                check.refuse(check.size + 1, f"line {number} cannot be read")
        if same and same != line:
            check.refuse(max(1, check.size), f"line {number} is not spelled as the server spells it")
    if ended != check.size or header.size != check.size:
        check.refuse(check.size + 1, CUT_OFF.format(check.size, header.size))
    if reached < check.size and ended >= 0:
        check.refuse(reached + 1, "no checkpoint of the export covers it")
    if first != header_line(header) or header.public_key not in ("", last or header.public_key):
        check.refuse(0, "the first line is not what the server wrote")
    return header


def check_export(
    lines: Iterable[bytes],
    verify: Verify,
    *,
    trusted: frozenset[str] = frozenset(),
    outside: Iterable[AuditCheckpoint] = (),
) -> Report:
    """Check a whole export, with the checkpoints that were kept outside of it. All of it has to be signed."""
    check = LogCheck(verify, trusted=trusted)
    check_lines(lines, check)
    for checkpoint in outside:
        check.checkpoint(checkpoint, outside=True)
    return check.report()


def read_export(lines: Iterable[bytes]) -> tuple[Header, list[tuple[int, bytes]]]:
    """The header and the documents of an export that was checked before, each with its number."""
    reading = iter(lines)
    header = _header.decode(next(reading, b""))
    entries = (_entry.decode(line) for line in reading if line.startswith(b'{"number":'))
    return header, [(entry.number, bytes(entry.document)) for entry in entries if bytes(entry.document)]
