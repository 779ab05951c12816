"""Policies as JSON: documents with their rules, and the effective policy of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct, convert

from parley.domain.rules.meet import differences
from parley.domain.rules.policy import KEYS
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import (
    BrokenPolicy,
    Policies,
    Policy,
    PolicyDifference,
    PolicyDifferences,
    PolicyFlaw,
    PolicyInForce,
    PolicyRevision,
)
from parley.wire.files.policy import encode_value

if TYPE_CHECKING:
    from parley.domain.agents.party import Attributes
    from parley.domain.rules.meet import Difference
    from parley.domain.rules.policy import BrokenPolicy as BrokenFile
    from parley.domain.rules.policy import Fragment, PolicySnapshot
    from parley.domain.rules.policy import Policy as EffectivePolicy


class PolicyIn(Struct, forbid_unknown_fields=True):
    """The text of a policy document."""

    text: Annotated[str, Meta(min_length=1, description="YAML with one key, `agent-to-agent`.")]


def policy_of(document: str, label: str, fragment: Fragment, text: str | None) -> Policy:
    """A policy document by its name, `scope/name`, with the keys that it has."""
    scope, _, name = document.partition("/")
    rules = {key: encode_value(getattr(fragment, key)) for key in KEYS if getattr(fragment, key) is not None}
    return Policy(scope=scope, name=name, label=label, rules=rules, text=text)


def documents_of(snapshot: PolicySnapshot, *, texts: bool = True) -> list[Policy]:
    """All documents of a snapshot, the enterprise's first."""
    order = {"enterprise": 0, "org": 1, "team": 2, "user": 3}
    names = sorted(snapshot.texts, key=lambda name: (order[name.partition("/")[0]], name))
    return [
        policy_of(name, snapshot.label, snapshot.fragments[name], snapshot.texts[name] if texts else None)
        for name in names
    ]


def policies_of(snapshot: PolicySnapshot, broken: tuple[BrokenFile, ...], *, texts: bool) -> Policies:
    return fill_record(
        Policies,
        snapshot,
        policies=documents_of(snapshot, texts=texts),
        broken=[fill_record(BrokenPolicy, policy, flaws=convert(policy.flaws, list[PolicyFlaw])) for policy in broken],
    )


def revision_of(snapshot: PolicySnapshot) -> PolicyRevision:
    return fill_record(PolicyRevision, snapshot, documents=sorted(snapshot.texts))


def differences_of(old: PolicySnapshot, new: PolicySnapshot) -> PolicyDifferences:
    result = differences(old, new)
    return PolicyDifferences(
        old_label=old.label,
        new_label=new.label,
        documents=[_difference_of(difference) for difference in result.documents],
        effective=[_difference_of(difference) for difference in result.effective],
    )


def _difference_of(difference: Difference) -> PolicyDifference:
    old, new = encode_value(difference.old), encode_value(difference.new)
    return PolicyDifference(where=difference.where, key=difference.key, old=old, new=new)


def in_force_of(
    label: str, agent: str, attributes: Attributes, policy: EffectivePolicy | None, origins: dict[str, str]
) -> PolicyInForce:
    keys = {key: encode_value(getattr(policy, key)) for key in KEYS} if policy is not None else None
    return fill_record(PolicyInForce, attributes, label=label, agent=agent, policy=keys, origins=origins)
