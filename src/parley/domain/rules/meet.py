"""How policies become one: each key has a declared meet, so that whoever comes later can only narrow.

    no value   is the widest: the other one counts
    a meet     is commutative, associative and idempotent, so the order in which documents are read is no matter

The enterprise's documents together set the values; the org unit's, the team's and the user's only narrow them.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.content.classification import Classification, OnOver
from parley.domain.content.commitment import Match
from parley.domain.content.envelope import Purpose
from parley.domain.rules.policy import AppliesTo, Commitments, CrossOrg, Fragment, MeetingApproval, Policy, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parley.domain.rules.policy import PolicySnapshot

# Where a value comes from when no document says anything about it.
BUILT_IN = "built in"


class Rule(StrEnum):
    """How two values of a key become one."""

    ALL_ALLOW = "allowed when all allow it"
    LOWEST = "the lowest"
    STRICTEST = "the strictest"
    COMMON = "what all have"
    ADDED = "all together"
    ENTERPRISE = "the enterprise's"


MEETS: dict[str, Rule] = {
    "enabled": Rule.ALL_ALLOW,
    "exchange_types": Rule.COMMON,
    "max_rounds": Rule.LOWEST,
    "max_classification": Rule.LOWEST,
    "cross_org": Rule.STRICTEST,
    "commitments": Rule.STRICTEST,
    "commitment_words": Rule.ADDED,
    "match": Rule.STRICTEST,
    "on_over_classified": Rule.STRICTEST,
    "applies_to": Rule.STRICTEST,
    "meeting_approval": Rule.STRICTEST,
    "self_approval": Rule.ALL_ALLOW,
    "approvers": Rule.COMMON,
    "patterns": Rule.ADDED,
    "pair_budget": Rule.LOWEST,
    "hop_limit": Rule.LOWEST,
    "open_approvals": Rule.LOWEST,
    "exchange_hours": Rule.LOWEST,
    "approval_hours": Rule.LOWEST,
    "disclosure": Rule.ENTERPRISE,
}
KEYS = tuple(MEETS)

# From the smallest, or strictest, on: as they are declared.
_RANKS: dict[type, dict[Any, int]] = {
    kind: {value: rank for rank, value in enumerate(kind)}
    for kind in (Purpose, Classification, CrossOrg, Commitments, Match, OnOver, AppliesTo, MeetingApproval)
}


def _order(value: Any) -> Any:  # noqa: ANN401  # of whatever a key holds
    ranks = _RANKS.get(type(value))
    return ranks[value] if ranks else value


def _first(one: Any, other: Any) -> Any:  # noqa: ANN401
    return min(one, other, key=_order)


def _common(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(set(one) & set(other), key=_order))


def _added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted({*one, *other}, key=_order))


_APPLY: dict[Rule, Callable[[Any, Any], Any]] = {
    Rule.ALL_ALLOW: lambda one, other: one and other,
    Rule.LOWEST: _first,
    Rule.STRICTEST: _first,
    Rule.COMMON: _common,
    Rule.ADDED: _added,
    # Two of one enterprise, or of two: one of them has to be it, whoever is asked first.
    Rule.ENTERPRISE: _first,
}
_Values = dict[str, Any]


def meet(policy: Policy, fragment: Fragment) -> Policy:
    """What is left of a policy under a narrower scope's document."""
    given = _said(fragment)
    given.pop("disclosure", None)
    return _policy({**_held(policy), **_met(_held(policy), given)}, policy.version) if given else policy


def both(first: Policy, second: Policy) -> Policy:
    """What two sides allow together."""
    if first == second:
        return first
    return _policy(_met(_held(first), _held(second)), _both_versions(first.version, second.version))


def effective(snapshot: PolicySnapshot, org: str = "", team: str = "", user: str = "") -> Policy | None:
    """What is in force for somebody; None where the enterprise has said nothing: then nothing is allowed."""
    root: _Values | None = None
    for _, fragment in _enterprise(snapshot):
        root = _met(root or {}, _said(fragment))
    if root is None:
        return None
    policy = _policy(root, snapshot.label)
    for _, fragment in _narrowing(snapshot, org, team, user):
        policy = meet(policy, fragment)
    return policy


def origins(snapshot: PolicySnapshot, org: str = "", team: str = "", user: str = "") -> dict[str, str]:
    """Which document gave each key the value that is in force; of what is added up, all that added to it."""
    found = dict.fromkeys(KEYS, BUILT_IN)
    values: _Values = {}
    for name, fragment in _enterprise(snapshot):
        values = _followed(found, values, name, _said(fragment))
    values = {**_held(Policy()), **values}
    for name, fragment in _narrowing(snapshot, org, team, user):
        values = _followed(found, values, name, _said(replace(fragment, disclosure=None)))
    return found


def _followed(found: dict[str, str], values: _Values, name: str, said: _Values) -> _Values:
    """The values after one more document, which is noted for each that it changed."""
    now = _met(values, said)
    for key in said:
        if key not in values or now[key] != values[key]:
            adds = MEETS[key] is Rule.ADDED and found[key] != BUILT_IN
            found[key] = f"{found[key]}, {name}" if adds else name
    return now


_ENTERPRISE = f"{Scope.ENTERPRISE.value}/"


def _enterprise(snapshot: PolicySnapshot) -> Iterator[tuple[str, Fragment]]:
    return ((name, one) for name, one in sorted(snapshot.fragments.items()) if name.startswith(_ENTERPRISE))


def _narrowing(snapshot: PolicySnapshot, org: str, team: str, user: str) -> Iterator[tuple[str, Fragment]]:
    for scope, of in ((Scope.ORG, org), (Scope.TEAM, team), (Scope.USER, user)):
        name = f"{scope.value}/{of}"
        if of and name in snapshot.fragments:
            yield name, snapshot.fragments[name]


def _met(first: _Values, second: _Values) -> _Values:
    """Key by key; a key that one of them lacks is the other's."""
    found = {**first, **second}
    for key in first.keys() & second.keys():
        if first[key] != second[key]:
            found[key] = _APPLY[MEETS[key]](first[key], second[key])
    return found


def _said(fragment: Fragment) -> _Values:
    """The keys that a document has, lists in their one order."""
    found = {}
    for key in KEYS:
        value = getattr(fragment, key)
        if value is not None:
            found[key] = tuple(sorted(set(value), key=_order)) if isinstance(value, tuple) else value
    return found


def _held(policy: Policy) -> _Values:
    """The keys of a policy. Approvers are there when somebody named some, and be it nobody."""
    found = {key: getattr(policy, key) for key in KEYS}
    if not policy.approvers and not policy.approvers_closed:
        del found["approvers"]
    return found


def _policy(values: _Values, version: str) -> Policy:
    closed = values.get("approvers") == ()
    return Policy(**values, version=version, approvers_closed=closed)


def _both_versions(first: str, second: str) -> str:
    """Two sides of one server are under the same snapshot; else both are named."""
    return first if first == second else "+".join(sorted({*first.split("+"), *second.split("+")} - {""}))


class Difference(NamedTuple):
    """One key that has changed: in a document, or in what is in force for those it is for. None: not said."""

    where: str
    key: str
    old: object
    new: object


class Differences(NamedTuple):
    """What became different from one snapshot to another."""

    documents: tuple[Difference, ...]
    # By the document's name: what is in force for the org unit, team or user alone; `enterprise` for everybody else.
    effective: tuple[Difference, ...]


def differences(old: PolicySnapshot, new: PolicySnapshot) -> Differences:
    """Key by key, what changed in each document, and what that changes in force."""
    names = sorted({*old.fragments, *new.fragments}, key=_by_scope)
    documents = [
        difference
        for name in names
        for difference in _changes(
            name, _said(old.fragments.get(name, Fragment())), _said(new.fragments.get(name, Fragment()))
        )
    ]
    narrower = [name for name in names if not name.startswith(_ENTERPRISE)]
    in_force = [
        difference
        for name in (Scope.ENTERPRISE.value, *narrower)
        for difference in _changes(name, _in_force(old, name), _in_force(new, name))
    ]
    return Differences(tuple(documents), tuple(in_force))


def _by_scope(name: str) -> tuple[int, str]:
    return list(Scope).index(Scope(name.partition("/")[0])), name


def _in_force(snapshot: PolicySnapshot, name: str) -> _Values:
    scope, _, of = name.partition("/")
    policy = effective(snapshot, **({} if scope == Scope.ENTERPRISE else {scope: of}))
    # Without a policy nothing is allowed, so nothing else counts.
    return _held(policy) if policy else {"enabled": False}


def _changes(where: str, old: _Values, new: _Values) -> Iterator[Difference]:
    for key in KEYS:
        if old.get(key) != new.get(key):
            yield Difference(where, key, old.get(key), new.get(key))
