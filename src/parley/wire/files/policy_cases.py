"""Tests of a policy: YAML text with cases, each a message and what the policy is expected to make of it.

    policies: policies              # a folder or a file, relative to this one; left out: what Parley brings along
    agents:
      alice: {org_unit: engineering}
      mia: {org_unit: sales, max_classification: public}
    cases:
      - name: sales hears nothing internal
        from: alice
        to: mia
        classification: internal
        expect: deny
        code: classification_exceeded

All flaws of a file are named at once, each with its line.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from parley.domain.agents.party import Party
from parley.domain.content.envelope import Origin
from parley.domain.errors.errors import Invalid
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.rules.trial import Trial
from parley.wire.files.attributes import LEVELS, PURPOSES, AttributesReading
from parley.wire.files.document import FLAGS, invalid_file, line_of, show_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.domain.content.classification import Classification
    from parley.domain.limits import Limits
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

T = TypeVar("T")

EXPECTED = ("allow", "hold", "deny")
_KEYS = ("policies", "agents", "cases")
_CASE = (
    *("name", "from", "to", "purpose", "classification", "text", "round", "max_rounds", "reply", "human", "data"),
    *("expect", "code"),
)
_CODE = re.compile(r"[a-z][a-z_]{0,63}", re.ASCII)
_PATH = re.compile(r".+")
_NOBODY = Party("")
_LONGEST_TEXT = 500
_MOST_CASES = 5_000
_MOST_ROUNDS = 999_999


class PolicyCase(NamedTuple):
    """One message, and the verdict that is expected. An empty code: any."""

    name: str
    line: int
    trial: Trial
    expect: str
    code: str


class PolicyCases(NamedTuple):
    """A file of tests. `policies` names the policies under test; empty: those of a fresh install."""

    policies: str
    cases: tuple[PolicyCase, ...]


def read_cases(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> PolicyCases:
    """The tests of a file; `Invalid` names all its flaws, also in `facts["flaws"]`."""
    reading = _CasesReading(text, name, limits)
    cases = reading.cases()
    if reading.flaws:
        raise invalid_file(Invalid, reading.flaws)
    return cases


class _CasesReading(AttributesReading):
    _agents: Mapping[str, Party] = {}

    def cases(self) -> PolicyCases:
        top = self.top(_KEYS, needs=("cases",), empty=("agents",))
        policies = self.matching(("policies",), top.get("policies"), _PATH, "must name a folder or a file") or ""
        agents = self.mapping(("agents",), top.get("agents"))
        self._agents = {agent: self._agent(("agents", agent), agent, value) for agent, value in agents.items()}
        if top.get("cases") == []:
            self.wrong(("cases",), "wrong_type", "must be a list with at least one case")
        cases = self.items(("cases",), top.get("cases"), self._case, distinct=False, most=_MOST_CASES)
        return PolicyCases(policies, cases)

    def _case(self, path: Path, value: Value) -> PolicyCase:
        fields = self.fields(path, value, _CASE, needs=("from", "to", "expect"))

        def choice(key: str, choices: Mapping[str, T]) -> T | None:
            return self.one_of((*path, key), fields.get(key), choices)

        def number(key: str) -> int | None:
            return self.number((*path, key), fields.get(key), 1, _MOST_ROUNDS)

        text = self.text((*path, "text"), fields.get("text"))
        trial = Trial(
            self._party((*path, "from"), fields.get("from")),
            self._party((*path, "to"), fields.get("to")),
            choice("purpose", PURPOSES),
            classification=choice("classification", LEVELS),
            texts=(text,) if text else (),
            origin=Origin.HUMAN if choice("human", FLAGS) else Origin.AGENT,
            round=number("round") or 1,
            max_rounds=number("max_rounds"),
            initiates=not choice("reply", FLAGS),
            data=self.items((*path, "data"), fields.get("data"), self._level, distinct=False),
        )
        name = self.line((*path, "name"), fields.get("name"), _LONGEST_TEXT) or f"case {int(path[-1]) + 1}"
        expect = choice("expect", {verdict: verdict for verdict in EXPECTED}) or ""
        rule = "must be the code of a refusal, or why it is held"
        code = self.matching((*path, "code"), fields.get("code"), _CODE, rule) or ""
        if code and expect == "allow":
            self.wrong((*path, "code"), "misplaced", "an allowed message has no code")
        return PolicyCase(name, line_of(self.lines, path), trial, expect, code)

    def _level(self, path: Path, value: Value) -> Classification | None:
        return self.one_of(path, value, LEVELS)

    def _party(self, path: Path, value: Value) -> Party:
        """An agent of the file by its name, or one that is described here."""
        if value is None:
            return _NOBODY
        if isinstance(value, dict):
            attributes = {key: field for key, field in value.items() if key != "agent"}
            return self._agent((*path, "agent"), value.get("agent"), attributes, path)
        if isinstance(value, str) and value in self._agents:
            return self._agents[value]
        close = get_close_matches(value, self._agents, 1) if isinstance(value, str) else []
        meant = f" (did you mean {close[0]}?)" if close else ""
        self.wrong(path, "unknown_agent", f"must be one of agents, or describe one, not {show_value(value)}{meant}")
        return _NOBODY

    def _agent(self, path: Path, name: Value, attributes: Value, inside: Path = ()) -> Party:
        return Party(self.name(path, name) or "", self.attributes(inside or path, attributes))
