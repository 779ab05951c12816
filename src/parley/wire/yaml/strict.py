"""The strict YAML reader: hostile files are refused on the parser's events, before anything is built.

One document, one mapping; no anchors, aliases, merge keys or tags; no key twice; bounded depth and count. Every
scalar is text: what it means is for the schema to say, so `to: no` stays "no" and `12:30` stays "12:30".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import yaml

from parley.domain.errors.errors import (
    AliasForbidden,
    DuplicateKey,
    MultiDocument,
    NotAMapping,
    NotYaml,
    TagForbidden,
    TooDeep,
    TooManyNodes,
    Unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley.domain.limits import Limits
    from parley.domain.message.message import Value

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_Event = yaml.events.Event
_LOADER = getattr(yaml, "CLoader", yaml.Loader)


def read_strict(text: str, limits: Limits, *, nulls: bool = True) -> dict[str, Value]:
    """The fields of a document, or one `Unreadable` that says what is wrong with it.

    Without `nulls` an empty or null scalar is the text that stands there.
    """
    try:
        return _Reader(text, limits, nulls=nulls).document()
    except yaml.YAMLError as error:
        raise NotYaml(_where(error)) from None
    except (ValueError, RecursionError, OverflowError) as error:  # PyYAML lets these through
        raise NotYaml(str(error)) from None


class Place(NamedTuple):
    """Where a value stands, and whether it is a scalar without quotes."""

    line: int
    plain: bool


# From the root down: keys, and places in lists from 0 on.
Path = tuple[str | int, ...]


class Located(NamedTuple):
    """A document with the line of every key and item, and what is wrong with it that did not end the reading."""

    fields: dict[str, Value]
    places: dict[Path, Place]
    refusals: list[Unreadable]


def read_located(text: str, limits: Limits) -> Located:
    """As `read_strict`, for files that people write: each refusal has its line in `facts`, and most do not end it."""
    places: dict[Path, Place] = {}
    refusals: list[Unreadable] = []
    try:
        fields = _LocatingReader(text, limits, places, refusals).document()
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        refusals.append(NotYaml(_where(error), facts={"line": mark.line + 1 if mark else 1}))
        fields = {}
    except (ValueError, RecursionError, OverflowError) as error:  # PyYAML lets these through
        refusals.append(NotYaml(str(error)))
        fields = {}
    except Unreadable as error:
        refusals.append(error)
        fields = {}
    return Located(fields, places, refusals)


def _where(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"
    return str(error).split("\n", 1)[0]


def _line(event: _Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


class _Reader:
    def __init__(self, text: str, limits: Limits, *, nulls: bool) -> None:
        self._events = yaml.parse(text, Loader=_LOADER)
        self._limits = limits
        self._nulls = _NULLS if nulls else frozenset()
        self._nodes = 0

    def document(self) -> dict[str, Value]:
        next(self._events)  # stream start
        first = next(self._events)
        if isinstance(first, yaml.StreamEndEvent):
            raise NotAMapping("the file is empty")
        if isinstance(first, yaml.DocumentStartEvent) and first.tags:
            raise TagForbidden("a %TAG directive is not allowed")
        root = next(self._events)
        self._check(root, 1)
        if not isinstance(root, yaml.MappingStartEvent):
            raise NotAMapping(facts={"line": _line(root)})
        fields = self._mapping(1)
        next(self._events)  # document end
        if not isinstance(end := next(self._events), yaml.StreamEndEvent):
            raise MultiDocument(facts={"line": _line(end)})
        return fields

    def _refuse(self, kind: type[Unreadable], event: _Event, detail: str) -> None:
        raise kind(f"line {_line(event)}: {detail}", facts={"line": _line(event)})

    def _check(self, event: _Event, depth: int) -> None:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            self._refuse(AliasForbidden, event, "anchors and aliases are not allowed")
        tag = getattr(event, "tag", None)
        if tag:
            self._refuse(TagForbidden, event, f"the tag {tag} is not allowed")
        self._nodes += 1
        if self._nodes > self._limits.yaml_nodes:
            raise TooManyNodes(f"more than {self._limits.yaml_nodes} values", facts={"line": _line(event)})
        if isinstance(event, yaml.CollectionStartEvent) and depth > self._limits.yaml_depth:
            raise TooDeep(f"nested deeper than {self._limits.yaml_depth} levels", facts={"line": _line(event)})

    def _value(self, event: _Event, depth: int) -> Value:
        self._check(event, depth)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None or event.style == ""
            return None if plain and event.value in self._nulls else str(event.value)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth)
        if isinstance(event, yaml.AliasEvent):
            return None  # refused above
        items: list[Value] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Value]:
        fields: dict[str, Value] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._check(event, depth)
            if not isinstance(event, yaml.ScalarEvent):
                raise NotAMapping(f"line {_line(event)}: a key must be plain text", facts={"line": _line(event)})
            if event.value == "<<" and event.style in {None, ""}:
                self._refuse(AliasForbidden, event, "merge keys are not allowed")
            if event.value in fields:
                self._refuse(DuplicateKey, event, f"{event.value!r} is given twice")
            fields[event.value] = self._value(next(self._events), depth + 1)
        return fields


class _LocatingReader(_Reader):
    """Notes where everything stands, and goes on after what it can go on after."""

    def __init__(self, text: str, limits: Limits, places: dict[Path, Place], refusals: list[Unreadable]) -> None:
        super().__init__(text, limits, nulls=True)
        self._events = _noting(self._events, places)
        self._refusals = refusals

    def _refuse(self, kind: type[Unreadable], event: _Event, detail: str) -> None:
        key = event.value if kind is DuplicateKey and isinstance(event, yaml.ScalarEvent) else ""
        self._refusals.append(kind(detail, facts={"line": _line(event), "key": key}))


def _noting(events: Iterator[_Event], places: dict[Path, Place]) -> Iterator[_Event]:
    """The same events; on the way it is noted on which line each key and item stands."""
    # Of the collections around: whether it is a mapping, and the key or number of what is read; None: a key comes.
    around: list[tuple[bool, str | int | None]] = []
    for event in events:
        yield event
        if isinstance(event, yaml.CollectionEndEvent):
            around.pop()
        elif isinstance(event, yaml.NodeEvent):
            if around and around[-1] == (True, None):
                key = str(getattr(event, "value", ""))
                around[-1] = (True, key)
                places[_path(around)] = Place(_line(event), plain=False)
                continue
            path = _path(around)
            plain = isinstance(event, yaml.ScalarEvent) and not event.style
            places[path] = Place(places[path].line if around and around[-1][0] else _line(event), plain)
            if isinstance(event, yaml.CollectionStartEvent):
                mapping = isinstance(event, yaml.MappingStartEvent)
                around.append((mapping, None if mapping else 0))
                continue
        else:
            continue
        if around:
            mapping, at = around[-1]
            around[-1] = (mapping, at + 1 if isinstance(at, int) else None)


def _path(around: list[tuple[bool, str | int | None]]) -> Path:
    return tuple([at for _, at in around if at is not None])
