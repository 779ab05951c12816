"""Documents come and go in all scopes, and what is in force is always what a simple model says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parley.domain.content.classification import Classification, OnOver
from parley.domain.content.commitment import Match
from parley.domain.content.envelope import Purpose
from parley.domain.rules.meet import BUILT_IN, both, differences, effective, origins
from parley.domain.rules.policy import (
    CURRENT,
    KEYS,
    AppliesTo,
    Commitments,
    CrossOrg,
    Fragment,
    MeetingApproval,
    Policy,
    PolicySnapshot,
    with_document,
    without_document,
)
from tests.fault.conftest import FULL
from tests.samples.policies import fragments

pytestmark = pytest.mark.fault

NAMES = {
    "enterprise": ("default", "privacy"),
    "org": ("law", "sales"),
    "team": ("north",),
    "user": ("ana", "sales"),
}
DOCUMENTS = tuple(f"{scope}/{name}" for scope, names in NAMES.items() for name in names)
SOMEBODY = tuple((org, team, user) for org in ("", "law", "sales") for team in ("", "north") for user in ("", "ana"))
ALONE = (
    ("enterprise", "", "", ""),
    ("org/law", "law", "", ""),
    ("org/sales", "sales", "", ""),
    ("team/north", "", "north", ""),
    ("user/ana", "", "", "ana"),
)

ENUMS: dict[str, Any] = {
    "max_classification": Classification,
    "cross_org": CrossOrg,
    "commitments": Commitments,
    "match": Match,
    "on_over_classified": OnOver,
    "applies_to": AppliesTo,
    "meeting_approval": MeetingApproval,
}


def model(documents: dict[str, Fragment], org: str, team: str, user: str) -> dict[str, Any] | None:
    """What is in force, said without any meet: by looking at everything that was said about a key at once."""
    root = [one for name, one in documents.items() if name.startswith("enterprise/")]
    if not root:
        return None
    below = [documents[name] for name in (f"org/{org}", f"team/{team}", f"user/{user}") if name in documents]
    found = {}
    for key in KEYS:
        heard = root if key == "disclosure" else root + below
        said = [getattr(one, key) for one in heard if getattr(one, key) is not None]
        found[key] = decided(key, said) if said else getattr(Policy(), key)
        # Where the enterprise is silent the built-in value stands above what the others say.
        if key != "approvers" and said and all(getattr(one, key) is None for one in root):
            found[key] = decided(key, [getattr(Policy(), key), *said])
    return found


def decided(key: str, said: list[Any]) -> object:
    if key in ("enabled", "self_approval"):
        return all(said)
    if key in ENUMS:
        return next(value for value in ENUMS[key] if value in said)
    if key == "exchange_types":
        return tuple(value for value in Purpose if all(value in one for one in said))
    if key == "approvers":
        return tuple(sorted(value for value in said[0] if all(value in one for one in said)))
    if key in ("commitment_words", "patterns"):
        return tuple(sorted({value for one in said for value in one}))
    return sorted(said)[0]


class PolicyMerge(RuleBasedStateMachine):
    """Beside the snapshot, the documents as a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[str, Fragment] = {}
        self.snapshot = PolicySnapshot(id=CURRENT, tenant_id="acme")
        self.labels = {self.snapshot.label}

    @rule(name=st.sampled_from(DOCUMENTS), fragment=fragments)
    def put(self, name: str, fragment: Fragment) -> None:
        self.documents[name] = fragment
        self.follow(with_document(self.snapshot, name, repr(fragment), fragment))

    @rule(name=st.sampled_from(DOCUMENTS))
    def remove(self, name: str) -> None:
        self.documents.pop(name, None)
        self.follow(without_document(self.snapshot, name))

    def follow(self, new: PolicySnapshot) -> None:
        told = differences(self.snapshot, new)
        for where, org, team, user in ALONE:
            named = where == "enterprise" or where in self.snapshot.fragments or where in new.fragments
            was, now = (model(dict(one.fragments), org, team, user) for one in (self.snapshot, new))
            if named and was and now:
                rows = {row.key: row.new for row in told.effective if row.where == where}
                # Nobody named and nobody left are different, and look the same in the model.
                rows.pop("approvers", None)
                assert rows == {key: now[key] for key in KEYS if was[key] != now[key] and key != "approvers"}
        assert new.label not in self.labels
        self.labels.add(new.label)
        self.snapshot = new

    @invariant()
    def what_is_in_force_is_what_the_model_says(self) -> None:
        assert dict(self.snapshot.fragments) == self.documents
        for org, team, user in SOMEBODY:
            policy = effective(self.snapshot, org, team, user)
            expected = model(self.documents, org, team, user)
            assert (policy is None) == (expected is None)
            if policy is not None:
                assert {key: getattr(policy, key) for key in KEYS} == expected

    @invariant()
    def nobody_has_more_than_everybody_has(self) -> None:
        root = effective(self.snapshot)
        for org, team, user in SOMEBODY:
            policy = effective(self.snapshot, org, team, user)
            if policy is not None and root is not None:
                assert both(policy, root) == policy

    @invariant()
    def a_value_comes_from_a_document_that_says_it(self) -> None:
        for key, origin in origins(self.snapshot, "sales", "north", "ana").items():
            if origin != BUILT_IN:
                assert all(getattr(self.documents[name], key) is not None for name in origin.split(", "))


TestPolicyMerge = PolicyMerge.TestCase
TestPolicyMerge.settings = settings(
    max_examples=2_000 if FULL else 15,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
