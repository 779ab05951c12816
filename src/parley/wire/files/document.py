"""Read files that people write, key by key: each flaw is noted with its line, and reading goes on."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from parley.domain.errors.errors import Invalid, ParleyError, Problem, TooLarge
from parley.domain.names import is_name
from parley.domain.times import parse_duration
from parley.wire.yaml.strict import read_located

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley.domain.limits import Limits
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

T = TypeVar("T")
E = TypeVar("E", bound=ParleyError)

FLAGS = {"true": True, "false": False}
PERSON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}", re.ASCII)
LONGEST_WORD = 200
_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})", re.ASCII)
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_LONGEST_TEXT = 64 * 1024
_LONGEST_KEY = 200
_LONGEST_SHOWN = 40
_MOST_ITEMS = 256


# The code of a flaw: a key of another tool whose feature Parley does not have.
UNAVAILABLE = "unavailable"


class Flaw(NamedTuple):
    """One thing wrong with a file."""

    file: str
    line: int
    key: str
    code: str
    detail: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"{self.file}:{self.line}", self.key, self.detail)))


def one_for_each_feature(flaws: Sequence[Flaw]) -> list[Flaw]:
    """The flaws, with one line for each feature that is not available: the first place names the others."""
    merged: dict[tuple[str, ...], list[Flaw]] = {}
    for flaw in sorted(flaws, key=lambda flaw: flaw.line):
        feature = (
            (flaw.key.rpartition(".")[2],) if flaw.code == UNAVAILABLE else (str(flaw.line), flaw.key, flaw.detail)
        )
        merged.setdefault(feature, []).append(flaw)
    return [
        first._replace(detail=f"{first.detail}; also in line{'s' if others[1:] else ''} {_numbers(others)}")
        if others
        else first
        for first, *others in merged.values()
    ]


def _numbers(flaws: Sequence[Flaw]) -> str:
    return ", ".join(str(flaw.line) for flaw in flaws)


def invalid_file(error: type[E], flaws: Sequence[Flaw]) -> E:
    """One error with all flaws, also in `facts["flaws"]`."""
    ordered = sorted(flaws, key=lambda flaw: flaw.line)
    return error(
        "; ".join(map(str, ordered)),
        problems=tuple([Problem(flaw.code, flaw.key, f"{flaw.file}:{flaw.line}: {flaw.detail}") for flaw in ordered]),
        facts={"flaws": [flaw._asdict() for flaw in ordered]},
    )


class Reading:
    """One file being read; its flaws are collected in `flaws`.

    A method notes a value that is not as it should be as a flaw, and returns None or an empty value. `instead` says
    what to write in place of an unknown key, `unavailable` what to do about a key of another tool whose feature is not
    there. `root` is a first key that flaws do not name.
    """

    def __init__(
        self,
        text: str,
        name: str,
        limits: Limits,
        instead: Mapping[str, str] | None = None,
        root: str = "",
        unavailable: Mapping[str, str] | None = None,
    ) -> None:
        self.file = name
        self._instead = instead or {}
        self._unavailable = unavailable or {}
        self._root = root
        self.flaws: list[Flaw] = []
        # The keys that have a flaw.
        self.blamed: set[Path] = set()
        too_large = len(text.encode("utf-8", "surrogatepass")) > limits.file_bytes
        located = read_located("" if too_large else text, limits)
        refusals = [TooLarge(f"larger than {limits.file_bytes} bytes")] if too_large else located.refusals
        self.document: dict[str, Value] = located.fields
        self._places = located.places
        self.lines: dict[Path, int] = {path: place.line for path, place in located.places.items()}
        self._unread = {int(str(refusal.facts.get("line", 1))) for refusal in refusals}
        for refusal in refusals:
            line = int(str(refusal.facts.get("line", 1)))
            path = next((path for path in reversed(self.lines) if self.lines[path] == line and path), ())
            detail = re.sub(r"^line [0-9]+(, column [0-9]+)?: ", "", refusal.message)
            self.flaws.append(Flaw(name, line, self._key(path), refusal.code, detail))

    def top(
        self, allowed: tuple[str, ...], needs: tuple[str, ...] = (), empty: tuple[str, ...] = ()
    ) -> dict[str, Value]:
        """The known keys of the file; nothing when it could not be read."""
        return self.fields((), self.document, allowed, needs, empty) if self.document or not self.flaws else {}

    def plain(self, path: Path) -> bool:
        """Whether a value is a scalar without quotes."""
        return self._places[path].plain

    def mapping(self, path: Path, value: Value) -> dict[str, Value]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong(path, "wrong_type", f"must hold keys and their values, not {show_value(value)}")
            return {}
        return value

    def fields(
        self,
        path: Path,
        value: Value,
        allowed: tuple[str, ...],
        needs: tuple[str, ...] = (),
        empty: tuple[str, ...] = (),
    ) -> dict[str, Value]:
        """The known keys of a mapping that have a value; the others are flaws."""
        fields = {}
        for key, field in self.mapping(path, value).items():
            if key not in allowed and key in self._unavailable:
                self.wrong((*path, key), UNAVAILABLE, f"is not available in Parley ({self._unavailable[key]})")
            elif key not in allowed:
                close = get_close_matches(key, allowed, 1)
                otherwise = f"did you mean {close[0]}?" if close else f"there is {', '.join(allowed)}"
                instead = self._instead.get(key, otherwise)
                self.wrong((*path, key), "unknown_key", f"is not known ({instead})")
            elif field is None and key not in empty:
                self.wrong((*path, key), "wrong_type", "has no value")
            else:
                fields[key] = field
        for key in needs:
            if key not in fields and (*path, key) not in self.blamed and path not in self.blamed:
                self.wrong((*path, key), "missing", "is not there")
        return fields

    def items(
        self,
        path: Path,
        value: Value,
        read_item: Callable[[Path, Value], T | None],
        *,
        distinct: bool = True,
        most: int = _MOST_ITEMS,
    ) -> tuple[T, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self.wrong(path, "wrong_type", f"must be a list, not {show_value(value)}")
            return ()
        if len(value) > most:
            self.wrong(path, "too_many", f"has more than {most} items")
            return ()
        items: list[T] = []
        for number, field in enumerate(value):
            if field is None:
                self.wrong((*path, number), "wrong_type", "has no value")
                continue
            item = read_item((*path, number), field)
            if item is None:
                continue
            if distinct and item in items:
                self.wrong((*path, number), "duplicate", f"{show_value(field)} is in the list twice")
            items.append(item)
        return tuple(items)

    def one_of(self, path: Path, value: Value, choices: Mapping[str, T], *, plain: bool = False) -> T | None:
        if value is None:
            return None
        choice = choices.get(value) if isinstance(value, str) else None
        if choice is None or (plain and not self.plain(path)):
            quotes = " without quotes" if choice is not None else f", not {show_value(value)}"
            self.wrong(path, "wrong_value", f"must be {' or '.join(choices)}{quotes}")
            return None
        return choice

    def number(self, path: Path, value: Value, least: int, most: int) -> int | None:
        if value is None:
            return None
        plain = self.plain(path)
        number = int(value) if plain and isinstance(value, str) and _WHOLE.fullmatch(value) else None
        if number is None or not least <= number <= most:
            self.wrong(path, "wrong_value", f"must be a whole number from {least} to {most}, not {show_value(value)}")
            return None
        return number

    def duration(self, path: Path, value: Value) -> float | None:
        if value is None:
            return None
        try:
            return parse_duration(value if isinstance(value, str) else "").total_seconds()
        except Invalid:
            self.wrong(path, "wrong_value", f"must be a duration such as 30s, 5m or 2h, not {show_value(value)}")
            return None

    def line(self, path: Path, value: Value, most: int) -> str:
        if value is None:
            return ""
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > most:
            self.wrong(path, "wrong_value", f"must be one line of text with at most {most} characters")
            return ""
        return value

    def text(self, path: Path, value: Value) -> str:
        if value is not None and (not isinstance(value, str) or len(value) > _LONGEST_TEXT):
            self.wrong(path, "wrong_value", f"must be text with at most {_LONGEST_TEXT} characters")
            return ""
        return value or ""

    def matching(self, path: Path, value: Value, pattern: re.Pattern[str], rule: str) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.wrong(path, "wrong_value", f"{rule}, not {show_value(value)}")
            return None
        return value

    def name(self, path: Path, value: Value) -> str | None:
        if isinstance(value, str) and is_name(value):
            return value
        self.wrong(path, "wrong_value", f"must be a name, not {show_value(value)}")
        return None

    def person(self, path: Path, value: Value) -> str | None:
        return self.matching(path, value, PERSON, "must be a person's name or address")

    def word(self, path: Path, value: Value) -> str | None:
        return self.line(path, [] if value is None else value, LONGEST_WORD) or None

    def typed(self, path: Path, value: Value) -> Any:  # noqa: ANN401  # whatever a file holds
        """A value as JSON has it: without quotes, numbers and true and false are no text."""
        if isinstance(value, dict):
            return {key: self.typed((*path, key), field) for key, field in value.items()}
        if isinstance(value, list):
            return [self.typed((*path, number), field) for number, field in enumerate(value)]
        if not isinstance(value, str) or not self.plain(path):
            return value
        if _INTEGER.fullmatch(value):
            return int(value)
        return float(value) if _FRACTION.fullmatch(value) else FLAGS.get(value, value)

    def wrong(self, path: Path, code: str, detail: str) -> None:
        """Note a flaw of a key. A line that could not be read has its flaw already."""
        self.blamed.add(path)
        line = line_of(self.lines, path)
        if line not in self._unread:
            self.flaws.append(Flaw(self.file, line, self._key(path), code, detail))

    def _key(self, path: Path) -> str:
        return dotted(path[1:] if len(path) > 1 and path[0] == self._root else path)


def dotted(path: Path) -> str:
    """A path as text: `agents.codex.on_message[0].handler`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")[:_LONGEST_KEY]


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of a key; of a missing key, the line of the nearest key above it in the path."""
    return next((lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines), 1)


def show_value(value: Value) -> str:
    """A value as an error names it."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = value if isinstance(value, str) else "nothing"
    return f'"{text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"}"'
