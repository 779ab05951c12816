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

Whoever writes one is told everything that is wrong with it at once, each with its line.
"""

from __future__ import annotations

import re
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.agents.party import Attributes, Party
from parley.domain.content.classification import LEVELS
from parley.domain.content.envelope import Origin, Purpose
from parley.domain.errors.errors import Invalid, Problem, TooLarge
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.names import is_name
from parley.domain.rules.trial import Trial
from parley.wire.files.policy import Flaw
from parley.wire.yaml.strict import read_located

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.domain.limits import Limits
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

EXPECTED = ("allow", "hold", "deny")
_KEYS = ("policies", "agents", "cases")
_CASE = (
    *("name", "from", "to", "purpose", "classification", "text", "round", "max_rounds", "reply", "human", "data"),
    *("expect", "code"),
)
_ATTRIBUTES = tuple(one.name for one in fields(Attributes))
_FLAGS = {"true": True, "false": False}
_LEVELS = {one.value: one for one in LEVELS}
_PURPOSES = {one.value: one for one in Purpose}
_NUMBER = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_CODE = re.compile(r"[a-z][a-z_]{0,63}", re.ASCII)
_NOBODY = Party("")


class PolicyCase(NamedTuple):
    """One message, and what is expected of it. An empty code: whatever it is."""

    name: str
    line: int
    trial: Trial
    expect: str
    code: str


class PolicyCases(NamedTuple):
    """A file of tests. `policies` names what is tested; empty: what Parley brings along."""

    policies: str
    cases: tuple[PolicyCase, ...]


def read_cases(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> PolicyCases:
    """The tests of a file; `Invalid` names everything that is wrong with it, also in `facts["flaws"]`."""
    document = _Document(text, name, limits)
    found = document.cases()
    if not document.flaws:
        return found
    flaws = sorted(document.flaws, key=lambda flaw: flaw.line)
    raise Invalid(
        "; ".join(str(flaw) for flaw in flaws),
        problems=tuple([Problem(flaw.code, flaw.key, f"{flaw.file}:{flaw.line}: {flaw.detail}") for flaw in flaws]),
        facts={"flaws": [flaw._asdict() for flaw in flaws]},
    )


class _Document:
    """One file on its way to cases; what is wrong goes into `flaws`."""

    def __init__(self, text: str, name: str, limits: Limits) -> None:
        self._name = name
        self.flaws: list[Flaw] = []
        too_large = len(text.encode("utf-8", "surrogatepass")) > limits.file_bytes
        self._found = read_located("" if too_large else text, limits)
        if too_large:
            self._found.refusals[:] = [TooLarge(f"larger than {limits.file_bytes} bytes")]
        self._agents: dict[str, Party] = {}

    def cases(self) -> PolicyCases:
        for refusal in self._found.refusals:
            line = int(str(refusal.facts.get("line", 1)))
            detail = re.sub(r"^line [0-9]+(, column [0-9]+)?: ", "", refusal.message)
            self.flaws.append(Flaw(self._name, line, "", refusal.code, detail))
        given = self._found.fields
        if self.flaws and not given:
            return PolicyCases("", ())
        self._known((), given, _KEYS)
        policies = given.get("policies", "")
        if "policies" in given and (not isinstance(policies, str) or not policies):
            self._wrong(("policies",), "wrong_type", "must name a folder or a file")
        agents = given.get("agents", {})
        if not isinstance(agents, dict):
            self._wrong(("agents",), "wrong_type", "must hold agents by their names")
            agents = {}
        for agent, said in agents.items():
            self._agents[agent] = Party(self._agent_name(("agents", agent), agent), self._of(("agents", agent), said))
        cases = given.get("cases")
        if not isinstance(cases, list) or not cases:
            self._wrong(("cases",), "wrong_type", "must be a list with at least one case")
            cases = []
        found = [self._case(("cases", index), one) for index, one in enumerate(cases)]
        return PolicyCases(str(policies), tuple([one for one in found if one is not None]))

    def _case(self, path: Path, said: Value) -> PolicyCase | None:
        if not isinstance(said, dict):
            self._wrong(path, "wrong_type", f"must have {', '.join(_CASE)}")
            return None
        self._known(path, said, _CASE)
        for key in ("from", "to", "expect"):
            if key not in said:
                self._wrong((*path, key), "missing", "is not there")
        human = self._one_of((*path, "human"), said, _FLAGS, default=False)
        trial = Trial(
            self._party((*path, "from"), said.get("from")),
            self._party((*path, "to"), said.get("to")),
            self._one_of((*path, "purpose"), said, _PURPOSES),
            classification=self._one_of((*path, "classification"), said, _LEVELS),
            texts=self._texts((*path, "text"), said),
            origin=Origin.HUMAN if human else Origin.AGENT,
            round=self._number((*path, "round"), said) or 1,
            max_rounds=self._number((*path, "max_rounds"), said),
            initiates=not self._one_of((*path, "reply"), said, _FLAGS, default=False),
            data=self._list((*path, "data"), said, _LEVELS) or (),
        )
        name = said.get("name", f"case {int(path[-1]) + 1}")
        if not isinstance(name, str) or not name or not name.isprintable():
            self._wrong((*path, "name"), "wrong_value", "must be one line of text")
        expect = self._one_of((*path, "expect"), said, {one: one for one in EXPECTED}, default="")
        return PolicyCase(str(name), self._line(path), trial, expect, self._code((*path, "code"), said, expect))

    def _code(self, path: Path, said: Mapping[str, Value], expect: str) -> str:
        code = said.get("code", "")
        if "code" in said and (not isinstance(code, str) or not _CODE.fullmatch(code)):
            self._wrong(path, "wrong_value", "must be the code of a refusal, or why it is held")
        elif code and expect == "allow":
            self._wrong(path, "misplaced", "what is allowed has no code")
        return str(code)

    def _party(self, path: Path, said: Value) -> Party:
        if said is None:
            if path in self._found.places:
                self._wrong(path, "wrong_type", "has no value")
            return _NOBODY
        if isinstance(said, str):
            if said in self._agents:
                return self._agents[said]
            close = get_close_matches(said, self._agents, 1)
            self._wrong(
                path, "unknown_agent", "is not among agents" + (f" (did you mean {close[0]}?)" if close else "")
            )
            return _NOBODY
        if not isinstance(said, dict):
            self._wrong(path, "wrong_type", "must be the name of one of agents, or what the directory says about one")
            return _NOBODY
        name = self._agent_name((*path, "agent"), said.get("agent"))
        return Party(name, self._of(path, {key: value for key, value in said.items() if key != "agent"}))

    def _agent_name(self, path: Path, name: Value) -> str:
        if isinstance(name, str) and is_name(name):
            return name
        self._wrong(path, "bad_name", "must be an agent's name")
        return ""

    def _of(self, path: Path, said: Value) -> Attributes:
        """What the directory would say about an agent."""
        if said is not None and not isinstance(said, dict):
            self._wrong(path, "wrong_type", f"must have {', '.join(_ATTRIBUTES)}")
            return Attributes()
        given = said or {}
        self._known(path, given, _ATTRIBUTES)
        found: dict[str, Any] = {}
        for key in ("org_unit", "user_id", "team"):
            value = given.get(key)
            if key in given and (not isinstance(value, str) or not value or not value.isprintable()):
                self._wrong((*path, key), "wrong_value", "must be a name")
            found[key] = value
        found["max_classification"] = self._one_of((*path, "max_classification"), given, _LEVELS)
        for key in ("can_receive_queries", "can_auto_respond"):
            found[key] = self._one_of((*path, key), given, _FLAGS)
        found["supported_exchange_types"] = self._list((*path, "supported_exchange_types"), given, _PURPOSES)
        found["max_rounds_accepted"] = self._number((*path, "max_rounds_accepted"), given)
        return Attributes(**{key: value for key, value in found.items() if value is not None})

    def _texts(self, path: Path, said: Mapping[str, Value]) -> tuple[str, ...]:
        text = said.get("text", "")
        if not isinstance(text, str):
            self._wrong(path, "wrong_type", "must be text")
            return ()
        return (text,) if text else ()

    def _one_of(
        self,
        path: Path,
        said: Mapping[str, Value],
        choices: Mapping[str, Any],
        default: Any = None,  # noqa: ANN401  # of whatever the key holds
    ) -> Any:  # noqa: ANN401
        key = str(path[-1])
        if key not in said:
            return default
        value = said[key]
        if isinstance(value, str) and value in choices:
            return choices[value]
        self._wrong(path, "wrong_value", f"must be {' or '.join(choices)}")
        return default

    def _list(self, path: Path, said: Mapping[str, Value], choices: Mapping[str, Any]) -> tuple[Any, ...] | None:
        key = str(path[-1])
        if key not in said:
            return None
        values = said[key]
        if not isinstance(values, list) or not all(isinstance(one, str) and one in choices for one in values):
            self._wrong(path, "wrong_value", f"must be a list of {' or '.join(choices)}")
            return None
        return tuple([choices[str(one)] for one in values])

    def _number(self, path: Path, said: Mapping[str, Value]) -> int | None:
        key = str(path[-1])
        if key not in said:
            return None
        value = said[key]
        if isinstance(value, str) and _NUMBER.fullmatch(value) and self._found.places[path].plain:
            return int(value)
        self._wrong(path, "wrong_value", "must be a whole number from 1 to 999999")
        return None

    def _known(self, path: Path, said: Mapping[str, Value], known: tuple[str, ...]) -> None:
        for key in said:
            if key not in known:
                close = get_close_matches(key, known, 1)
                detail = f"is not known (did you mean {close[0]}?)" if close else "is not known"
                self._wrong((*path, key), "unknown_key", detail)

    def _line(self, path: Path) -> int:
        places = self._found.places
        return next((places[path[:length]].line for length in range(len(path), 0, -1) if path[:length] in places), 1)

    def _wrong(self, path: Path, code: str, said: str) -> None:
        line = self._line(path)
        # What could not be read has been told.
        if all(refusal.facts.get("line") != line for refusal in self._found.refusals):
            dotted = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)
            self.flaws.append(Flaw(self._name, line, dotted.removeprefix("."), code, said))
