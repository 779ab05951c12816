"""Signed checkpoints of a tenant's audit log: how long it was at a moment, and the root over all its entries.

    entries:      1 ── 2 ── ... ── 1000 ── ... ── 1420 ── ...
    checkpoints:                    ●──────────────●             each is signed and names the hash of the one before it

A chain alone does not stop its owner from writing it anew. A checkpoint that lies somewhere else does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from parley.domain.audit.entry import NO_HASH
from parley.domain.audit.merkle import Peaks
from parley.domain.hashes import digest
from parley.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    # Whether the owner of this public key made this signature of this content.
    Verify = Callable[[bytes, bytes, bytes], bool]

# The actions of entries that trim documents and erase content.
LET_GO = "audit_let_go"
ERASED = "content_erased"
# Prefix of signed checkpoints; no other signature has it, so none can be taken for a checkpoint.
_STATEMENT = "parley.audit.checkpoint.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCheckpoint(Record):
    """A signed statement. `root`, `previous` and `signature` are hexadecimal, `public_key` too: the raw 32 bytes."""

    kind: ClassVar[str] = "audit_checkpoint"

    size: int
    root: str
    at: str
    previous: str = NO_HASH
    public_key: str
    signature: str = ""

    @property
    def key_id(self) -> str:
        return key_id(self.public_key)

    @property
    def statement(self) -> bytes:
        """The signed statement: canonical JSON."""
        document = {
            "at": self.at,
            "previous": self.previous,
            "root": self.root,
            "size": self.size,
            "tenant": self.tenant_id,
            "type": _STATEMENT,
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def hash(self) -> str:
        """The hash that the next checkpoint names."""
        return digest(self.statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditMark(Record):
    """The last checkpoint of a tenant, with what is needed to extend its tree."""

    kind: ClassVar[str] = "audit_mark"

    size: int = 0
    peaks: tuple[str, ...] = ()
    at: str = ""
    hash: str = NO_HASH
    # Documents are trimmed up to this entry.
    let_go: int = 0

    @property
    def tree(self) -> Peaks:
        return Peaks(self.size, tuple(bytes.fromhex(peak) for peak in self.peaks))


def checkpoint_id(size: int) -> str:
    """Ids sort as the sizes do."""
    return f"{size:015d}"


def key_id(public_key: str) -> str:
    """A short name for a key: people compare it, programs compare the key."""
    return digest(bytes.fromhex(public_key))[:16]


def is_signed(checkpoint: AuditCheckpoint, verify: Verify, trusted: frozenset[str] = frozenset()) -> bool:
    """Whether a checkpoint is signed, by one of these keys where any are given."""
    if trusted and checkpoint.public_key not in trusted:
        return False
    try:
        public_key, signature = bytes.fromhex(checkpoint.public_key), bytes.fromhex(checkpoint.signature)
    except ValueError:
        return False
    # Hexadecimal has many spellings, and one thing has one here.
    plain = (public_key.hex(), signature.hex()) == (checkpoint.public_key, checkpoint.signature)
    return plain and verify(public_key, signature, checkpoint.statement)
