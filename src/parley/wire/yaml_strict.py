"""The strict YAML reader: hostile files are refused on the parser's events, before anything is built.

One document, one mapping; no anchors, aliases, merge keys or tags; no key twice; bounded depth and count. Every
scalar is text: what it means is for the schema to say, so `to: no` stays "no" and `12:30` stays "12:30".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from parley.domain.errors import (
    AliasForbidden,
    DuplicateKey,
    MultiDocument,
    NotAMapping,
    NotYaml,
    TagForbidden,
    TooDeep,
    TooManyNodes,
)

if TYPE_CHECKING:
    from parley.domain.limits import Limits
    from parley.domain.message import Value

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
            raise NotAMapping
        fields = self._mapping(1)
        next(self._events)  # document end
        if not isinstance(next(self._events), yaml.StreamEndEvent):
            raise MultiDocument
        return fields

    def _check(self, event: _Event, depth: int) -> None:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise AliasForbidden(f"line {_line(event)}: anchors and aliases are not allowed")
        tag = getattr(event, "tag", None)
        if tag:
            raise TagForbidden(f"line {_line(event)}: the tag {tag} is not allowed")
        self._nodes += 1
        if self._nodes > self._limits.yaml_nodes:
            raise TooManyNodes(f"more than {self._limits.yaml_nodes} values")
        if isinstance(event, yaml.CollectionStartEvent) and depth > self._limits.yaml_depth:
            raise TooDeep(f"nested deeper than {self._limits.yaml_depth} levels")

    def _value(self, event: _Event, depth: int) -> Value:
        self._check(event, depth)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None or event.style == ""
            return None if plain and event.value in self._nulls else str(event.value)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth)
        items: list[Value] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Value]:
        fields: dict[str, Value] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._check(event, depth)
            if not isinstance(event, yaml.ScalarEvent):
                raise NotAMapping(f"line {_line(event)}: a key must be plain text")
            if event.value == "<<" and event.style in {None, ""}:
                raise AliasForbidden(f"line {_line(event)}: merge keys are not allowed")
            if event.value in fields:
                raise DuplicateKey(f"line {_line(event)}: {event.value!r} is given twice")
            fields[event.value] = self._value(next(self._events), depth + 1)
        return fields
