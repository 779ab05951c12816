"""Files that people write, read key by key: what is wrong is noted with its line, and the reading goes on."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from parley.domain.errors.errors import Invalid, TooLarge
from parley.domain.names import is_name
from parley.domain.times import parse_duration
from parley.wire.files.policy import Flaw
from parley.wire.yaml.strict import read_located

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley.domain.limits import Limits
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

T = TypeVar("T")

FLAGS = {"true": True, "false": False}
LONGEST_WORD = 200
_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})", re.ASCII)
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_LONGEST_TEXT = 64 * 1024
_LONGEST_KEY = 200
_LONGEST_SHOWN = 40
_MOST_ITEMS = 256


class Reading:
    """One file on its way; what is wrong with it goes into `flaws`.

    Whatever is asked for and is not as it should be is noted, and is None or empty. `instead` says what to write in
    place of a key that is not known.
    """

    def __init__(self, text: str, name: str, limits: Limits, instead: Mapping[str, str]) -> None:
        self._name = name
        self._instead = instead
        self.flaws: list[Flaw] = []
        # The keys that something is wrong with.
        self.blamed: set[Path] = set()
        too_large = len(text.encode("utf-8", "surrogatepass")) > limits.file_bytes
        self._found = read_located("" if too_large else text, limits)
        if too_large:
            self._found.refusals[:] = [TooLarge(f"larger than {limits.file_bytes} bytes")]
        self.lines: dict[Path, int] = {path: place.line for path, place in self._found.places.items()}
        self._unread = {int(str(refusal.facts.get("line", 1))) for refusal in self._found.refusals}
        for refusal in self._found.refusals:
            line = int(str(refusal.facts.get("line", 1)))
            at = [path for path, there in self.lines.items() if there == line and path]
            detail = re.sub(r"^line [0-9]+(, column [0-9]+)?: ", "", refusal.message)
            self.flaws.append(Flaw(name, line, dotted(at[-1]) if at else "", refusal.code, detail))

    @property
    def document(self) -> dict[str, Value]:
        """The whole file; empty when it could not be read."""
        return self._found.fields

    def plain(self, path: Path) -> bool:
        """Whether a value is a scalar without quotes."""
        return self._found.places[path].plain

    def mapping(self, path: Path, given: Value) -> dict[str, Value]:
        if given is None:
            return {}
        if not isinstance(given, dict):
            self.wrong(path, "wrong_type", f"must hold keys and their values, not {shown(given)}")
            return {}
        return given

    def fields(
        self, path: Path, given: Value, known: tuple[str, ...], needs: tuple[str, ...] = (), empty: tuple[str, ...] = ()
    ) -> dict[str, Value]:
        """The known fields of a mapping that have a value; what else is there is said to be wrong."""
        found = {}
        for key, value in self.mapping(path, given).items():
            if key not in known:
                close = get_close_matches(key, known, 1)
                otherwise = f"did you mean {close[0]}?" if close else f"there is {', '.join(known)}"
                instead = self._instead.get(key, otherwise)
                self.wrong((*path, key), "unknown_key", f"is not known ({instead})")
            elif value is None and key not in empty:
                self.wrong((*path, key), "wrong_type", "has no value")
            else:
                found[key] = value
        for key in needs:
            if key not in found and (*path, key) not in self.blamed and path not in self.blamed:
                self.wrong((*path, key), "missing", "is not there")
        return found

    def items(
        self, path: Path, given: Value, item: Callable[[Path, Value], T | None], *, distinct: bool = True
    ) -> tuple[T, ...]:
        if given is None:
            return ()
        if not isinstance(given, list):
            self.wrong(path, "wrong_type", f"must be a list, not {shown(given)}")
            return ()
        if len(given) > _MOST_ITEMS:
            self.wrong(path, "too_many", f"has more than {_MOST_ITEMS} items")
            return ()
        found: list[T] = []
        for number, one in enumerate(given):
            read = item((*path, number), one)
            if read is None:
                continue
            if distinct and read in found:
                self.wrong((*path, number), "duplicate", f"{shown(one)} stands in the list twice")
            found.append(read)
        return tuple(found)

    def one_of(self, path: Path, given: Value, choices: Mapping[str, T], *, plain: bool = False) -> T | None:
        if given is None:
            return None
        found = choices.get(given) if isinstance(given, str) else None
        if found is None or (plain and not self.plain(path)):
            quotes = " without quotes" if found is not None else f", not {shown(given)}"
            self.wrong(path, "wrong_value", f"must be {' or '.join(choices)}{quotes}")
            return None
        return found

    def number(self, path: Path, given: Value, least: int, most: int) -> int | None:
        if given is None:
            return None
        plain = self.plain(path)
        number = int(given) if plain and isinstance(given, str) and _WHOLE.fullmatch(given) else None
        if number is None or not least <= number <= most:
            self.wrong(path, "wrong_value", f"must be a whole number from {least} to {most}, not {shown(given)}")
            return None
        return number

    def duration(self, path: Path, given: Value) -> float | None:
        if given is None:
            return None
        try:
            return parse_duration(given if isinstance(given, str) else "").total_seconds()
        except Invalid:
            self.wrong(path, "wrong_value", f"must be a duration such as 30s, 5m or 2h, not {shown(given)}")
            return None

    def line(self, path: Path, given: Value, most: int) -> str:
        if given is None:
            return ""
        if not isinstance(given, str) or not given.strip() or not given.isprintable() or len(given) > most:
            self.wrong(path, "wrong_value", f"must be one line of text with at most {most} characters")
            return ""
        return given

    def text(self, path: Path, given: Value) -> str:
        if given is not None and (not isinstance(given, str) or len(given) > _LONGEST_TEXT):
            self.wrong(path, "wrong_value", f"must be text with at most {_LONGEST_TEXT} characters")
            return ""
        return given or ""

    def matching(self, path: Path, given: Value, pattern: re.Pattern[str], said: str) -> str | None:
        if given is None:
            return None
        if not isinstance(given, str) or not pattern.fullmatch(given):
            self.wrong(path, "wrong_value", f"{said}, not {shown(given)}")
            return None
        return given

    def name(self, path: Path, given: Value) -> str | None:
        if isinstance(given, str) and is_name(given):
            return given
        self.wrong(path, "wrong_value", f"must be a name, not {shown(given)}")
        return None

    def word(self, path: Path, given: Value) -> str | None:
        return self.line(path, [] if given is None else given, LONGEST_WORD) or None

    def typed(self, path: Path, given: Value) -> Any:  # noqa: ANN401  # whatever a file holds
        """A value as JSON would have it: without quotes, numbers and true and false are no text."""
        if isinstance(given, dict):
            return {key: self.typed((*path, key), one) for key, one in given.items()}
        if isinstance(given, list):
            return [self.typed((*path, number), one) for number, one in enumerate(given)]
        if not isinstance(given, str) or not self.plain(path):
            return given
        if _INTEGER.fullmatch(given):
            return int(given)
        return float(given) if _FRACTION.fullmatch(given) else FLAGS.get(given, given)

    def wrong(self, path: Path, code: str, said: str) -> None:
        self.blamed.add(path)
        line = line_of(self.lines, path)
        # What could not be read has been told, and is no surprise to the rules.
        if line not in self._unread:
            self.flaws.append(Flaw(self._name, line, dotted(path), code, said))


def dotted(path: Path) -> str:
    """`agents.codex.on_message[0].handler`: as people say it."""
    text = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)
    return text.removeprefix(".")[:_LONGEST_KEY]


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of a key, or of the nearest around it that is there."""
    return next((lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines), 1)


def shown(given: Value) -> str:
    """A value as an error names it."""
    if isinstance(given, dict | list):
        return "a mapping" if isinstance(given, dict) else "a list"
    text = given if isinstance(given, str) else "nothing"
    return f'"{text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"}"'
