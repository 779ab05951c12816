"""A policy document: YAML text with one key, `agent-to-agent`, and below it what is said about exchanges.

    agent-to-agent:
      cross_org: approval
      max_rounds: 3

Whoever writes one is told everything that is wrong with it at once, each with its line and key.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.content.classification import Classification, ContentPattern, OnOver
from parley.domain.content.commitment import Match
from parley.domain.content.envelope import Purpose
from parley.domain.errors.errors import Problem, TooLarge
from parley.domain.errors.rules import PolicyInvalid
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.rules.meet import KEYS
from parley.domain.rules.policy import AppliesTo, Commitments, CrossOrg, Fragment, MeetingApproval, Scope
from parley.wire.yaml.strict import read_located
from parley.wire.yaml.write import mapping_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.domain.limits import Limits
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

DOMAIN = "agent-to-agent"
# The least and the most that a number may be.
RANGES: dict[str, tuple[int, int]] = {
    "max_rounds": (1, 1_000),
    "pair_budget": (1, 1_000_000),
    "hop_limit": (1, 1_000),
    "open_approvals": (1, 1_000_000),
    # As long as anything may be valid.
    "exchange_hours": (1, 720),
    "approval_hours": (1, 720),
}
CHOICES: dict[str, type[StrEnum]] = {
    "max_classification": Classification,
    "commitments": Commitments,
    "match": Match,
    "on_over_classified": OnOver,
    "applies_to": AppliesTo,
    "meeting_approval": MeetingApproval,
}
_FLAGS = {"true": True, "false": False}
_CROSS_ORG = {"false": CrossOrg.DENY, "true": CrossOrg.ALLOW, "approval": CrossOrg.APPROVAL}
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_PERSON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}", re.ASCII)
_MOST_ITEMS = 1_000
_LONGEST_WORD = 64
_LONGEST_TEXT = 200


class Flaw(NamedTuple):
    """One thing wrong with a document."""

    file: str
    line: int
    key: str
    code: str
    detail: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"{self.file}:{self.line}", self.key, self.detail)))


def read_policy(text: str, name: str, limits: Limits = DEFAULT_LIMITS, *, scope: Scope | None = None) -> Fragment:
    """What a document says; `PolicyInvalid` names everything that is wrong with it, also in `facts["flaws"]`.

    `name` is the file's. With a scope it is also seen to that a document of this scope may say so.
    """
    document = _Document(text, name, limits)
    fragment = document.fragment()
    if scope not in (None, Scope.ENTERPRISE) and fragment.disclosure is not None:
        document.wrong((DOMAIN, "disclosure"), "misplaced", "only the enterprise's policy has this key")
    if not document.flaws:
        return fragment
    flaws = sorted(document.flaws, key=lambda flaw: flaw.line)
    raise PolicyInvalid(
        "; ".join(str(flaw) for flaw in flaws),
        problems=tuple([Problem(flaw.code, flaw.key, f"{flaw.file}:{flaw.line}: {flaw.detail}") for flaw in flaws]),
        facts={"flaws": [flaw._asdict() for flaw in flaws]},
    )


def write_policy(fragment: Fragment) -> str:
    """The document that says this and no more."""
    said: dict[str, Value] = {
        key: spelled(key, getattr(fragment, key)) for key in KEYS if getattr(fragment, key) is not None
    }
    return mapping_text({DOMAIN: said})


def spelled(key: str, value: Any) -> Any:  # noqa: ANN401  # of whatever a key holds
    """A key's value as a document, or JSON, spells it."""
    if key == "cross_org":
        return {CrossOrg.DENY: False, CrossOrg.ALLOW: True}.get(value, value and value.value)
    if key == "patterns" and value is not None:
        return [{"name": one.name, "pattern": one.pattern, "classification": one.classification.value} for one in value]
    if isinstance(value, tuple):
        return [str(one) for one in value]
    return value.value if isinstance(value, StrEnum) else value


class _Document:
    """One document on its way to a fragment; what is wrong goes into `flaws`."""

    def __init__(self, text: str, name: str, limits: Limits) -> None:
        self._name = name
        self.flaws: list[Flaw] = []
        too_large = len(text.encode("utf-8", "surrogatepass")) > limits.file_bytes
        self._found = read_located("" if too_large else text, limits)
        if too_large:
            self._found.refusals[:] = [TooLarge(f"larger than {limits.file_bytes} bytes")]

    def fragment(self) -> Fragment:
        for refusal in self._found.refusals:
            line = refusal.facts.get("line", 1)
            at = [path for path, place in self._found.places.items() if place.line == line and path]
            detail = re.sub(r"^line [0-9]+(, column [0-9]+)?: ", "", refusal.message)
            self.flaws.append(Flaw(self._name, int(str(line)), _dotted(at[-1]) if at else "", refusal.code, detail))
        fields = self._found.fields
        if not fields and self.flaws:
            return Fragment()
        for key in fields:
            if key != DOMAIN:
                self.wrong((key,), "unknown_key", f"the only key at this level is {DOMAIN}")
        if DOMAIN not in fields:
            self.wrong((DOMAIN,), "missing", "is not there")
            return Fragment()
        said = fields[DOMAIN]
        if not isinstance(said, dict) or not said:
            self.wrong((DOMAIN,), "wrong_type", "must hold keys and their values, at least one")
            return Fragment()
        found = {key: self._value(key, value) for key, value in said.items() if self._known((DOMAIN, key), KEYS)}
        return Fragment(**found)

    def _known(self, path: Path, known: tuple[str, ...]) -> bool:
        key = str(path[-1])
        if key in known:
            return True
        close = get_close_matches(key, known, 1)
        self.wrong(path, "unknown_key", f"is not known (did you mean {close[0]}?)" if close else "is not known")
        return False

    def _value(self, key: str, value: Value) -> Any:  # noqa: ANN401  # of whatever the key holds
        path: Path = (DOMAIN, key)
        if value is None:
            self.wrong(path, "wrong_type", "has no value")
            return None
        if key in ("enabled", "self_approval"):
            return self._one_of(path, value, _FLAGS, plain=True)
        if key in RANGES:
            return self._number(path, value, *RANGES[key])
        if key in CHOICES:
            return self._one_of(path, value, {one.value: one for one in CHOICES[key]})
        if key == "cross_org":
            return self._one_of(path, value, _CROSS_ORG, plain=value != "approval")
        if key == "disclosure":
            return self._text(path, value, _LONGEST_TEXT)
        items: dict[str, Callable[[Path, Value], Any]] = {
            "exchange_types": lambda at, one: self._one_of(at, one, {each.value: each for each in Purpose}),
            "commitment_words": self._word,
            "approvers": self._person,
            "patterns": self._pattern,
        }
        return self._list(path, value, items[key])

    def _list(self, path: Path, value: Value, item: Callable[[Path, Value], Any]) -> tuple[Any, ...] | None:
        if not isinstance(value, list):
            self.wrong(path, "wrong_type", "must be a list")
            return None
        if len(value) > _MOST_ITEMS:
            self.wrong(path, "too_many", f"has more than {_MOST_ITEMS} items")
            return None
        found: dict[Any, None] = {}
        for index, one in enumerate(value):
            read = item((*path, index), one)
            if read is not None and read in found:
                self.wrong((*path, index), "duplicate", "stands in the list twice")
            found[read] = None
        return tuple(found)

    def _one_of(self, path: Path, value: Value, choices: dict[str, Any], *, plain: bool = False) -> Any:  # noqa: ANN401
        found = choices.get(value) if isinstance(value, str) else None
        if found is None or (plain and not self._found.places[path].plain):
            quotes = ", without quotes" if found is not None else ""
            self.wrong(path, "wrong_value", f"must be {' or '.join(choices)}{quotes}")
            return None
        return found

    def _number(self, path: Path, value: Value, least: int, most: int) -> int | None:
        plain = self._found.places[path].plain
        number = int(value) if plain and isinstance(value, str) and _NUMBER.fullmatch(value) else None
        if number is None or not least <= number <= most:
            self.wrong(path, "wrong_value", f"must be a whole number from {least} to {most}")
            return None
        return number

    def _text(self, path: Path, value: Value, most: int) -> str | None:
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > most:
            self.wrong(path, "wrong_value", f"must be one line of text with at most {most} characters")
            return None
        return value

    def _word(self, path: Path, value: Value) -> str | None:
        text = self._text(path, value, _LONGEST_WORD)
        if text is not None and not any(one.isalnum() for one in text):
            self.wrong(path, "wrong_value", "has no letter")
        return text

    def _person(self, path: Path, value: Value) -> str | None:
        if isinstance(value, str) and _PERSON.fullmatch(value):
            return value
        self.wrong(path, "wrong_value", "must be a person's name or address")
        return None

    def _pattern(self, path: Path, value: Value) -> ContentPattern | None:
        if not isinstance(value, dict):
            self.wrong(path, "wrong_type", f"must have {', '.join(_PATTERN_KEYS)}")
            return None
        known = {key: one for key, one in value.items() if self._known((*path, key), _PATTERN_KEYS)}
        for key in _PATTERN_KEYS:
            if key not in known:
                self.wrong((*path, key), "missing", "is not there")
        if len(known) < len(_PATTERN_KEYS):
            return None
        name = self._text((*path, "name"), known["name"], _LONGEST_WORD)
        pattern = self._text((*path, "pattern"), known["pattern"], _LONGEST_TEXT)
        levels = {one.value: one for one in Classification}
        level = self._one_of((*path, "classification"), known["classification"], levels)
        return ContentPattern(name, pattern, level) if name and pattern and level else None

    def wrong(self, path: Path, code: str, said: str) -> None:
        """Something about this key, which stands where the nearest around it does that is there."""
        places = self._found.places
        line = next((places[path[:length]].line for length in range(len(path), 0, -1) if path[:length] in places), 1)
        # What could not be read has been told, and is no surprise to the rules.
        if all(refusal.facts.get("line") != line for refusal in self._found.refusals):
            self.flaws.append(Flaw(self._name, line, _dotted(path), code, said))


_PATTERN_KEYS = ("name", "pattern", "classification")


def _dotted(path: Path) -> str:
    """`patterns[0].name`: as people say it, from below the domain on."""
    inside = path[1:] if len(path) > 1 and path[0] == DOMAIN else path
    text = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in inside)
    return text.removeprefix(".")[:_LONGEST_TEXT]
