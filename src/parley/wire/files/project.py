"""A project's governance file: who is who, as people write it; pure.

    tenant: acme
    agents:
      alice:
        user_id: alice@acme.example
        org_unit: engineering
        max_classification: confidential
    humans:
      alice@acme.example: ed25519:5e88...         the public half of the person's key
    suspended: [agent bob, pair alice,bob, org_unit sales, tenant]

Whoever writes one is told everything that is wrong with it at once, each with its line and key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from parley.domain.agents.party import PAIR_MARK, Attributes, pair_name
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import NOBODY, Purpose
from parley.domain.errors.errors import Problem
from parley.domain.errors.rules import PolicyInvalid
from parley.domain.exchange.signature import is_public_key
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.names import is_name
from parley.domain.rules.project import Directory
from parley.domain.rules.suspension import ALL, Stopped, Suspension, Suspensions
from parley.wire.yaml.strict import read_located

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.limits import Limits
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

_KEYS = ("tenant", "agents", "humans", "suspended")
_AGENT_KEYS = (
    "user_id",
    "org_unit",
    "team",
    "max_classification",
    "can_receive_queries",
    "can_auto_respond",
    "supported_exchange_types",
    "max_rounds_accepted",
)
_FLAGS = {"true": True, "false": False}
_PERSON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_HUMANS = "humans:"
_HEAD = """\
# Who is who in this project, and whose people decide. The rules themselves are in policies/SCOPE/NAME.yaml beside this
# file (enterprise, org, team, user); without any, those that Parley brings along are in force.
# Only whoever may write this file says who somebody is: keep it from the agents, if they must not.

# Nothing ever crosses from one tenant to another.
tenant: {tenant}

# For each agent: user_id (the person it acts for), org_unit, team, max_classification (the most secret thing it may
# share or be told: public, internal, confidential, restricted), can_receive_queries, can_auto_respond,
# supported_exchange_types and max_rounds_accepted. What is left out is as everybody has it.
agents:{agents}

# The people who decide, each with the public half of a key: parley governance add-human USER
humans: {{}}

# What is stopped, at once: agent NAME, pair NAME,NAME, org_unit NAME, tenant.
suspended: []
"""
_AGENT = """
  {name}:
    user_id: unassigned
    org_unit: default
    max_classification: internal"""


def read_governance(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> Directory:
    """What a file says; `PolicyInvalid` names everything that is wrong with it."""
    reader = _Reader(text, name, limits)
    directory = reader.directory()
    if reader.flaws:
        flaws = sorted(reader.flaws)
        raise PolicyInvalid(
            "; ".join(f"{name}:{line}: {key + ': ' if key else ''}{detail}" for line, key, _, detail in flaws),
            problems=tuple([Problem(code, key, f"{name}:{line}: {detail}") for line, key, code, detail in flaws]),
        )
    return directory


def new_governance(tenant: str, agents: Iterable[str]) -> str:
    """The file of a project that is set up now."""
    listed = "".join(_AGENT.format(name=one) for one in agents)
    return _HEAD.format(tenant=tenant, agents=listed or " {}")


def with_human(text: str, name: str, user: str, public_key: str) -> str:
    """The file with one more person, or with a new key for one; whatever else stands there stays as it is."""
    if not _PERSON.fullmatch(user) or user == NOBODY:
        raise PolicyInvalid.because([Problem("bad_name", "user", "must be a person's name or address")])
    before = read_governance(text, name)
    lines = text.split("\n")
    at = next((place for place, line in enumerate(lines) if line.startswith(_HUMANS)), None)
    if at is None:
        lines = [*text.rstrip("\n").split("\n"), _HUMANS, ""]
        at = len(lines) - 2
    if lines[at].rstrip() == f"{_HUMANS} {{}}":
        lines[at] = _HUMANS
    said = re.compile(rf"""\s+["']?{re.escape(user)}["']?\s*:""")
    if user in before.humans:
        lines = [line for place, line in enumerate(lines) if place <= at or not said.match(line)]
    lines.insert(at + 1, f"  {user}: {public_key}")
    after = "\n".join(lines)
    if read_governance(after, name) != before._replace(humans={**before.humans, user: public_key}):
        _refuse(name, "humans", "cannot be changed without touching the rest; add the person by hand")
    return after


def _refuse(name: str, key: str, detail: str) -> NoReturn:
    raise PolicyInvalid.because([Problem("invalid", key, f"{name}: {detail}")])


class _Reader:
    def __init__(self, text: str, name: str, limits: Limits) -> None:
        self._found = read_located(text, limits)
        self._name = name
        self.flaws: list[tuple[int, str, str, str]] = [
            (int(str(one.facts.get("line", 1))), "", one.code, one.message) for one in self._found.refusals
        ]

    def directory(self) -> Directory:
        fields = self._found.fields
        if not fields and self.flaws:
            return Directory("", {}, {})
        self._known((), fields, _KEYS)
        tenant = fields.get("tenant")
        if not isinstance(tenant, str) or not is_name(tenant):
            self._wrong(("tenant",), "must be a name")
        agents = {key: self._agent(key, one) for key, one in self._mapping("agents").items()}
        humans = self._mapping("humans")
        for user, public_key in humans.items():
            if not _PERSON.fullmatch(user) or user == NOBODY:
                self._wrong(("humans", user), "must be a person's name or address")
            if not isinstance(public_key, str) or not is_public_key(public_key):
                self._wrong(("humans", user), "must be a public key: ed25519: and 64 hexadecimal digits")
        people = {user: str(public_key) for user, public_key in humans.items()}
        return Directory(str(tenant), agents, people, self._stopped(str(tenant)))

    def _mapping(self, key: str) -> dict[str, Value]:
        value = self._found.fields.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._wrong((key,), "must hold names, and what is said about each")
            return {}
        return value

    def _agent(self, agent: str, said: Value) -> Attributes:
        path: Path = ("agents", agent)
        if not is_name(agent):
            self._wrong(path, "is no agent's name")
        if said is None:
            return Attributes()
        if not isinstance(said, dict):
            self._wrong(path, "must hold keys and their values")
            return Attributes()
        self._known(path, said, _AGENT_KEYS)
        given = {key: self._value((*path, key), one) for key, one in said.items() if key in _AGENT_KEYS}
        return Attributes(**{key: value for key, value in given.items() if value is not None})

    def _value(self, path: Path, value: Value) -> Any:  # noqa: ANN401  # of whatever the key holds
        key = path[-1]
        if key in ("can_receive_queries", "can_auto_respond"):
            return self._one_of(path, value, _FLAGS, plain=True)
        if key == "max_classification":
            return self._one_of(path, value, {one.value: one for one in Classification})
        if key == "supported_exchange_types":
            if not isinstance(value, list):
                return self._wrong(path, "must be a list")
            purposes = {one.value: one for one in Purpose}
            return tuple([self._one_of((*path, place), one, purposes) for place, one in enumerate(value)])
        if key == "max_rounds_accepted":
            if isinstance(value, str) and self._found.places[path].plain and _NUMBER.fullmatch(value):
                return int(value)
            return self._wrong(path, "must be a whole number from 1 on")
        if key == "user_id":
            if isinstance(value, str) and _PERSON.fullmatch(value):
                return value
            return self._wrong(path, "must be a person's name or address")
        if isinstance(value, str) and is_name(value):
            return value
        return self._wrong(path, "must be a name")

    def _stopped(self, tenant: str) -> Suspensions | None:
        value = self._found.fields.get("suspended")
        if value is None:
            return None
        if not isinstance(value, list):
            self._wrong(("suspended",), "must be a list")
            return None
        found = [self._suspension(("suspended", place), one) for place, one in enumerate(value)]
        stopped = tuple([one for one in found if one is not None])
        return Suspensions(id=ALL, tenant_id=tenant, stopped=stopped) if stopped else None

    def _suspension(self, path: Path, value: Value) -> Suspension | None:
        what, _, name = value.partition(" ") if isinstance(value, str) else ("", "", "")
        names = [one.strip() for one in name.split(PAIR_MARK)]
        wanted = {Stopped.AGENT.value: 1, Stopped.ORG_UNIT.value: 1, Stopped.PAIR.value: 2}.get(what, 0)
        good = len(names) == wanted and all(map(is_name, names)) if wanted else what == Stopped.TENANT and not name
        if not good:
            self._wrong(path, "must be agent NAME, pair NAME,NAME, org_unit NAME or tenant")
            return None
        told = pair_name(*names) if wanted == 2 else name.strip()
        return Suspension(what=Stopped(what), name=told, by=self._name, at="")

    def _one_of(self, path: Path, value: Value, choices: dict[str, Any], *, plain: bool = False) -> Any:  # noqa: ANN401
        if isinstance(value, str) and value in choices and (not plain or self._found.places[path].plain):
            return choices[value]
        return self._wrong(path, f"must be {' or '.join(choices)}")

    def _known(self, path: Path, fields: dict[str, Value], known: tuple[str, ...]) -> None:
        for key in fields:
            if key not in known:
                self._wrong((*path, key), f"is not known; known are {', '.join(known)}", "unknown_key")

    def _wrong(self, path: Path, detail: str, code: str = "wrong_value") -> None:
        places = self._found.places
        line = next((places[path[:length]].line for length in range(len(path), 0, -1) if path[:length] in places), 1)
        key = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path).removeprefix(".")
        self.flaws.append((line, key[:200], code, detail))
