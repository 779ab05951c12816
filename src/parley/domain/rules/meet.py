"""Combine policies: each key has a declared meet, so that a later document can only narrow.

    no value   is the widest: the value of the other document counts
    a meet     is commutative, associative and idempotent, so the order of the documents does not matter

The enterprise's documents together set the values; those of the org unit, the team and the user only narrow them.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.rules.policy import KEYS, Fragment, Meet, Policy, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parley.domain.rules.policy import PolicySnapshot

# Where a value comes from when no document says anything about it.
BUILT_IN = "built in"


@cache
def _ranks(kind: type[StrEnum]) -> dict[StrEnum, int]:
    """The values of a choice from the lowest, or strictest, on: as they are declared."""
    return {value: rank for rank, value in enumerate(kind)}


def _order(value: Any) -> Any:  # noqa: ANN401  # of whatever a key holds
    return _ranks(type(value))[value] if isinstance(value, StrEnum) else value


def _lower(first: Any, second: Any) -> Any:  # noqa: ANN401
    return min(first, second, key=_order)


def _common(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(set(first) & set(second), key=_order))


def _union(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted({*first, *second}, key=_order))


_APPLY: dict[Meet, Callable[[Any, Any], Any]] = {
    Meet.ALL_ALLOW: lambda first, second: first and second,
    Meet.LOWEST: _lower,
    Meet.STRICTEST: _lower,
    Meet.COMMON: _common,
    Meet.ADDED: _union,
    # Two documents of the enterprise, or two enterprises: any order, as long as it is always the same.
    Meet.ENTERPRISE: _lower,
}
_Values = dict[str, Any]


def meet(policy: Policy, fragment: Fragment) -> Policy:
    """The policy, narrowed by the document of a narrower scope."""
    keys = _narrowing_keys(fragment)
    return _policy(_combine(_policy_keys(policy), keys), policy.version) if keys else policy


def both(first: Policy, second: Policy) -> Policy:
    """What two sides allow together."""
    if first == second:
        return first
    return _policy(_combine(_policy_keys(first), _policy_keys(second)), _both_versions(first.version, second.version))


def effective(snapshot: PolicySnapshot, org: str = "", team: str = "", user: str = "") -> Policy | None:
    """The policy in force for an agent; None without an enterprise document: then nothing is allowed."""
    root: _Values | None = None
    for _, fragment in _enterprise(snapshot):
        root = _combine(root or {}, _document_keys(fragment))
    if root is None:
        return None
    policy = _policy(root, snapshot.label)
    for _, fragment in _narrowing(snapshot, org, team, user):
        policy = meet(policy, fragment)
    return policy


def origins(snapshot: PolicySnapshot, org: str = "", team: str = "", user: str = "") -> dict[str, str]:
    """Which document gave each key the value in force; for a list that adds up, all documents that added to it."""
    sources = dict.fromkeys(KEYS, BUILT_IN)
    values: _Values = {}
    for name, fragment in _enterprise(snapshot):
        values = _apply_document(sources, values, name, _document_keys(fragment))
    values = {**_policy_keys(Policy()), **values}
    for name, fragment in _narrowing(snapshot, org, team, user):
        values = _apply_document(sources, values, name, _narrowing_keys(fragment))
    return sources


def _apply_document(sources: dict[str, str], values: _Values, name: str, keys: _Values) -> _Values:
    """The values after one more document, which becomes the source of each value that it changed."""
    now = _combine(values, keys)
    for key in keys:
        if key not in values or now[key] != values[key]:
            adds = KEYS[key].meet is Meet.ADDED and sources[key] != BUILT_IN
            sources[key] = f"{sources[key]}, {name}" if adds else name
    return now


_ENTERPRISE = f"{Scope.ENTERPRISE.value}/"


def _enterprise(snapshot: PolicySnapshot) -> Iterator[tuple[str, Fragment]]:
    return ((name, snapshot.fragments[name]) for name in sorted(snapshot.fragments) if name.startswith(_ENTERPRISE))


def _narrowing(snapshot: PolicySnapshot, org: str, team: str, user: str) -> Iterator[tuple[str, Fragment]]:
    for scope, of in ((Scope.ORG, org), (Scope.TEAM, team), (Scope.USER, user)):
        name = f"{scope.value}/{of}"
        if of and name in snapshot.fragments:
            yield name, snapshot.fragments[name]


def _combine(first: _Values, second: _Values) -> _Values:
    """Both, key by key; a key that only one of them has keeps its value."""
    combined = {**first, **second}
    for key in first.keys() & second.keys():
        if first[key] != second[key]:
            combined[key] = _APPLY[KEYS[key].meet](first[key], second[key])
    return combined


def _document_keys(fragment: Fragment) -> _Values:
    """The keys that a document sets, with lists in canonical order."""
    values = {}
    for key in KEYS:
        value = getattr(fragment, key)
        if value is not None:
            values[key] = tuple(sorted(set(value), key=_order)) if isinstance(value, tuple) else value
    return values


def _narrowing_keys(fragment: Fragment) -> _Values:
    """The keys by which the document of a narrower scope narrows a policy."""
    return {key: value for key, value in _document_keys(fragment).items() if KEYS[key].meet is not Meet.ENTERPRISE}


def _policy_keys(policy: Policy) -> _Values:
    """The keys of a policy; approvers only if a document has named some, or none on purpose."""
    values = {key: getattr(policy, key) for key in KEYS}
    if not policy.approvers and not policy.approvers_closed:
        del values["approvers"]
    return values


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
            name,
            _document_keys(old.fragments.get(name, Fragment())),
            _document_keys(new.fragments.get(name, Fragment())),
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
    return _policy_keys(policy) if policy else {"enabled": False}


def _changes(where: str, old: _Values, new: _Values) -> Iterator[Difference]:
    for key in KEYS:
        if old.get(key) != new.get(key):
            yield Difference(where, key, old.get(key), new.get(key))
