"""What the team's store keeps by id: a record says under which tenant, parent and name it is found.

A record's `version` is the one that it replaces; the commit refuses it as stale when another was faster, and counts on.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import repeat
from operator import attrgetter, call
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

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

    @property
    def decisive_version(self) -> int:
        """The version since which nothing has changed that decisions about other things depend on."""
        return self.version

    def with_position(self, position: int) -> Self:
        """The record as it is kept: what was `UNSETTLED` is now the position of its commit."""
        del position
        return self

    def after(self, before: Record | None) -> Self:
        """The record as it is kept, with the version that follows the one that it replaces."""
        del before
        return changed(self, version=self.version + 1)


@dataclass(frozen=True, slots=True)
class Expect:
    """That what a decision depended on in a record is as in this version; 0: that there is no such record."""

    kind: str
    id: str
    version: int

    def holds_for(self, record: Record | None) -> bool:
        """Whether the record, as it is now, still bears out the decision."""
        if record is None:
            return self.version == 0
        return record.decisive_version <= self.version <= record.version


R = TypeVar("R", bound=Record)
# Of a kind of record: how to read all fields, and how to set each.
_FIELDS: dict[type[Record], tuple[Callable[[Record], tuple[Any, ...]], dict[str, Callable[[Record, Any], Any]]]] = {}


def changed(record: R, **changes: Any) -> R:  # noqa: ANN401  # whatever its fields hold
    """The record with some fields changed: `dataclasses.replace` for those that change with every message.

    It copies slot by slot without a step of the interpreter: a third of what it takes to make a record anew.
    """
    kind = type(record)
    if kind not in _FIELDS:
        names = [field.name for field in fields(kind)]
        _FIELDS[kind] = (attrgetter(*names), {name: getattr(kind, name).__set__ for name in names})
    values, setters = _FIELDS[kind]
    copy = object.__new__(kind)
    # A setter returns None, so `any` calls all of them.
    any(map(call, setters.values(), repeat(copy), values(record)))
    try:
        any(map(call, map(setters.__getitem__, changes), repeat(copy), changes.values()))
    except KeyError as unknown:
        raise TypeError(f"{kind.__name__} has no field {unknown.args[0]}") from None
    return copy


class RecordTemplate(Generic[R]):
    """Records that differ in a few fields only: the others are read once, from the first of them."""

    __slots__ = ("_constant", "_kind", "_values", "_varying")

    def __init__(self, record: R, varying: tuple[str, ...]) -> None:
        self._kind = type(record)
        names = [field.name for field in fields(record) if field.name not in varying]
        self._constant = [getattr(self._kind, name).__set__ for name in names]
        self._values = [getattr(record, name) for name in names]
        self._varying = [getattr(self._kind, name).__set__ for name in varying]

    def fill(self, *values: Any) -> R:  # noqa: ANN401  # whatever its fields hold
        """A record with these values, in the order of the names that differ."""
        record = object.__new__(self._kind)
        # As in `changed`.
        any(map(call, self._constant, repeat(record), self._values))
        any(map(call, self._varying, repeat(record), values))
        return record


def expecting(record: Record) -> Expect:
    return Expect(record.kind, record.id, record.version)
