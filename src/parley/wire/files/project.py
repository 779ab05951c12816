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

All flaws of a file are named at once, each with its line and key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from parley.domain.agents.party import PAIR_MARK, pair_name
from parley.domain.content.envelope import NOBODY
from parley.domain.errors.errors import Problem
from parley.domain.errors.rules import PolicyInvalid
from parley.domain.exchange.signature import is_public_key
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.names import is_name
from parley.domain.rules.project import Directory
from parley.domain.rules.suspension import ALL, Stopped, Suspension, Suspensions
from parley.wire.files.attributes import AttributesReading
from parley.wire.files.document import PERSON, invalid_file, show_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.limits import Limits
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

_KEYS = ("tenant", "agents", "humans", "suspended")
_MOST_STOPPED = 5_000
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
    """The directory that a file describes; `PolicyInvalid` names all its flaws, also in `facts["flaws"]`."""
    reading = _GovernanceReading(text, name, limits)
    directory = reading.directory()
    if reading.flaws:
        raise invalid_file(PolicyInvalid, reading.flaws)
    return directory


def new_governance(tenant: str, agents: Iterable[str]) -> str:
    """The governance file of a new project."""
    entries = "".join(_AGENT.format(name=agent) for agent in agents)
    return _HEAD.format(tenant=tenant, agents=entries or " {}")


def with_human(text: str, name: str, user: str, public_key: str) -> str:
    """The file with one more person, or with a new key for a person; everything else in it stays as it is."""
    if not PERSON.fullmatch(user) or user == NOBODY:
        raise PolicyInvalid.because([Problem("bad_name", "user", "must be a person's name or address")])
    before = read_governance(text, name)
    lines = text.split("\n")
    at = next((place for place, line in enumerate(lines) if line.startswith(_HUMANS)), None)
    if at is None:
        lines = [*text.rstrip("\n").split("\n"), _HUMANS, ""]
        at = len(lines) - 2
    if lines[at].rstrip() == f"{_HUMANS} {{}}":
        lines[at] = _HUMANS
    entry = re.compile(rf"""\s+["']?{re.escape(user)}["']?\s*:""")
    if user in before.humans:
        lines = [line for place, line in enumerate(lines) if place <= at or not entry.match(line)]
    lines.insert(at + 1, f"  {user}: {public_key}")
    after = "\n".join(lines)
    if read_governance(after, name) != before._replace(humans={**before.humans, user: public_key}):
        _refuse(name, "humans", "cannot be changed without touching the rest; add the person by hand")
    return after


def _refuse(name: str, key: str, detail: str) -> NoReturn:
    raise PolicyInvalid.because([Problem("invalid", key, f"{name}: {detail}")])


class _GovernanceReading(AttributesReading):
    def directory(self) -> Directory:
        top = self.top(_KEYS, needs=("tenant",), empty=("agents", "humans", "suspended"))
        tenant = (self.name(("tenant",), top["tenant"]) if "tenant" in top else None) or ""
        agents = {}
        for agent, value in self.mapping(("agents",), top.get("agents")).items():
            self.name(("agents", agent), agent)
            agents[agent] = self.attributes(("agents", agent), value)
        humans = self.mapping(("humans",), top.get("humans"))
        for user, public_key in humans.items():
            if not PERSON.fullmatch(user) or user == NOBODY:
                self.wrong(("humans", user), "wrong_value", "must be a person's name or address")
            if not isinstance(public_key, str) or not is_public_key(public_key):
                # Never shown: it may be the private half.
                detail = "must be a public key: ed25519: and 64 hexadecimal digits"
                self.wrong(("humans", user), "wrong_value", detail)
        people = {user: str(public_key) for user, public_key in humans.items()}
        stopped = self.items(("suspended",), top.get("suspended"), self._suspension, distinct=False, most=_MOST_STOPPED)
        suspensions = Suspensions(id=ALL, tenant_id=tenant, stopped=stopped) if stopped else None
        return Directory(tenant, agents, people, suspensions)

    def _suspension(self, path: Path, value: Value) -> Suspension | None:
        what, _, name = value.partition(" ") if isinstance(value, str) else ("", "", "")
        names = [part.strip() for part in name.split(PAIR_MARK)]
        count = {Stopped.AGENT.value: 1, Stopped.ORG_UNIT.value: 1, Stopped.PAIR.value: 2}.get(what, 0)
        valid = len(names) == count and all(map(is_name, names)) if count else what == Stopped.TENANT and not name
        if not valid:
            detail = f"must be agent NAME, pair NAME,NAME, org_unit NAME or tenant, not {show_value(value)}"
            self.wrong(path, "wrong_value", detail)
            return None
        stopped_name = pair_name(*names) if count == 2 else name.strip()
        return Suspension(what=Stopped(what), name=stopped_name, by=self.file, at="")
