"""What the team's store keeps by id: a record says under which tenant, parent and name it is found.

A record's `version` is the one that it replaces; the commit refuses it as stale when another was faster, and counts on.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

# Placeholder for the position of the commit that writes the record, which is not known before.
UNSETTLED = -1
# Behind every position of a tenant.
NEVER = (1 << 40) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored record with an id. `parent` and `name` find it; `due` says when the sweep has to process it."""

    kind: ClassVar[str] = ""

    id: str
    tenant_id: str
    version: int = 0

    @property
    def parent(self) -> str:
        """What it belongs to; records of one parent are listed together."""
        return ""

    @property
    def name(self) -> str:
        """Unique among the records of its kind and parent, when it is not empty."""
        return ""

    @property
    def due(self) -> str:
        """The moment at which something has to happen to it, as a stamp; empty for never."""
        return ""

    def with_position(self, position: int) -> Self:
        """The record as it is kept: what was `UNSETTLED` is now the position of its commit."""
        del position
        return self


@dataclass(frozen=True, slots=True)
class Expect:
    """That a record a decision depended on is still of this version; 0: that there is none."""

    kind: str
    id: str
    version: int


R = TypeVar("R", bound=Record)
# The fields of a kind of record, and how to read all of them.
_FIELDS: dict[type[Record], tuple[tuple[str, ...], Callable[[Record], tuple[Any, ...]]]] = {}


def changed(record: R, **changes: Any) -> R:  # noqa: ANN401  # whatever its fields hold
    """The record with some fields changed: `dataclasses.replace` for those that change with every message."""
    kind = type(record)
    if kind not in _FIELDS:
        names = tuple([field.name for field in fields(kind)])
        _FIELDS[kind] = (names, attrgetter(*names))
    names, values = _FIELDS[kind]
    return kind(**{**dict(zip(names, values(record), strict=True)), **changes})


def expecting(record: Record) -> Expect:
    return Expect(record.kind, record.id, record.version)
