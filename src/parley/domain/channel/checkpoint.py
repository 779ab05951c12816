"""Checkpoints of an intent's log: a Merkle root over the hashes of its events, so that one event can be proved alone.

    root
  ┌──┴──┐           leaves are the raw SHA-256 digests of the events, in their order;
 ab     cc          the last one is repeated up to a power of two;
┌─┴─┐  ┌─┴─┐        a node is SHA-256(left || right)
a   b  c   c
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from parley.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Record):
    """The root over a range of an intent's events."""

    kind: ClassVar[str] = "checkpoint"

    intent_id: str
    merkle_root: str
    first_sequence: int
    last_sequence: int
    created_at: str
    signed_by: str = ""
    signature: str = ""

    @property
    def parent(self) -> str:
        return self.intent_id

    @property
    def name(self) -> str:
        """At most one checkpoint begins at an event."""
        return str(self.first_sequence)

    @property
    def event_count(self) -> int:
        return self.last_sequence - self.first_sequence + 1

    def covers(self, sequence: int) -> bool:
        return self.first_sequence <= sequence <= self.last_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMark(Record):
    """Up to which position of a tenant every log has its checkpoints, and since when."""

    kind: ClassVar[str] = "log_mark"

    position: int
    made_at: str


def encode_digest(digest: bytes) -> str:
    return _PREFIX + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def raw_digest(text: str) -> bytes:
    """The 32 bytes of an encoded hash."""
    return base64.urlsafe_b64decode(text.removeprefix(_PREFIX) + "=")


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root over raw digests; the last leaf is repeated up to a power of two."""
    level = _padded(leaves)
    while len(level) > 1:
        level = _above(level)
    return level[0]


def merkle_path(leaves: Sequence[bytes], index: int) -> list[tuple[str, bytes]]:
    """The neighbours from a leaf up to the root, each with its side."""
    level, path = _padded(leaves), []
    while len(level) > 1:
        neighbour = index ^ 1
        path.append(("left" if neighbour < index else "right", level[neighbour]))
        level = _above(level)
        index //= 2
    return path


def _padded(leaves: Sequence[bytes]) -> list[bytes]:
    if not leaves:
        raise ValueError("a tree has leaves")
    size = 1
    while size < len(leaves):
        size *= 2
    return [*leaves, *[leaves[-1]] * (size - len(leaves))]


def _above(level: Sequence[bytes]) -> list[bytes]:
    return [hashlib.sha256(level[at] + level[at + 1]).digest() for at in range(0, len(level), 2)]
