"""Classification: four levels in one order, and what happens to data above a ceiling."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Classification(StrEnum):
    """From the least to the most secret."""

    # Compare with `rank`: as texts they sort differently.

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"

    @property
    def rank(self) -> int:
        return _RANK[self]


LEVELS = tuple(Classification)
_RANK = {level: rank for rank, level in enumerate(LEVELS)}
_BY_NAME = {level.value: level for level in LEVELS}
DEFAULT_LEVEL = Classification.INTERNAL


def level_of(text: object) -> Classification:
    """The level of that name; an unknown name counts as the most secret level."""
    return _BY_NAME.get(text, Classification.RESTRICTED) if isinstance(text, str) else Classification.RESTRICTED


def lowest(first: Classification, *others: Classification) -> Classification:
    return min((first, *others), key=_RANK.__getitem__) if others else first


def highest(first: Classification, *others: Classification) -> Classification:
    return max((first, *others), key=_RANK.__getitem__) if others else first


def can_share(most: Classification) -> tuple[Classification, ...]:
    """All levels from public up to and including this one."""
    return LEVELS[: most.rank + 1]


class OnOver(StrEnum):
    """What happens to data above the ceiling; the strictest first."""

    BLOCK = "block"
    WITHHOLD = "withhold"
    REDACT = "redact"


class DataItem(NamedTuple):
    """A piece of data that a message says it holds. `fields` are dotted paths into the body."""

    source: str
    fields: tuple[str, ...]
    classification: Classification
    description: str = ""


class Withheld(NamedTuple):
    """Data that was withheld, and why."""

    reason: str
    description: str


class Sorted(NamedTuple):
    """Data items on both sides of a ceiling."""

    shared: tuple[DataItem, ...]
    over: tuple[DataItem, ...]


def sort_data(items: tuple[DataItem, ...], ceiling: Classification) -> Sorted:
    """Which items may pass under this ceiling."""
    if not items:
        return _NOTHING
    shared = tuple([item for item in items if item.classification.rank <= ceiling.rank])
    return Sorted(shared, tuple([item for item in items if item.classification.rank > ceiling.rank]))


_NOTHING = Sorted((), ())


def withheld_reasons(items: tuple[DataItem, ...], ceiling: Classification) -> tuple[Withheld, ...]:
    """The withheld items as they may be named in records: why each was withheld, and nothing of its content."""
    return tuple(
        [
            Withheld(
                f"{item.classification.value} is above {ceiling.value}",
                item.description or f"{item.source}: {', '.join(item.fields)}",
            )
            for item in items
        ]
    )


@dataclass(frozen=True, slots=True, order=True)
class ContentPattern:
    """A text that raises a message's level: # stands for a digit, ? for a letter, everything else for itself."""

    name: str
    pattern: str
    classification: Classification
