"""Policy documents as hypothesis draws them."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import strategies as st

from parley.domain.content.classification import Classification, ContentPattern, OnOver
from parley.domain.content.commitment import Match
from parley.domain.content.envelope import Purpose
from parley.domain.rules.meet import KEYS, effective
from parley.domain.rules.policy import (
    CURRENT,
    AppliesTo,
    Commitments,
    CrossOrg,
    Fragment,
    MeetingApproval,
    Policy,
    PolicySnapshot,
)

# Words that are also values of some key: they must never be taken for them.
WORDS = ("all", "deny", "ship", "sign off", "word")
PEOPLE = ("ana", "bo@example.com", "both", "cy")
PATTERNS = tuple(
    ContentPattern(name, pattern, level)
    for name, pattern, level in (
        ("card", "####", Classification.RESTRICTED),
        ("card", "####", Classification.INTERNAL),
        ("customer", "KD-######", Classification.CONFIDENTIAL),
    )
)
numbers = st.integers(1, 5)


def lists(*items: object) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(st.sampled_from(items), unique=True).map(tuple)


VALUES: dict[str, st.SearchStrategy[object]] = {
    "enabled": st.booleans(),
    "exchange_types": lists(*Purpose),
    "max_rounds": numbers,
    "max_classification": st.sampled_from(Classification),
    "cross_org": st.sampled_from(CrossOrg),
    "commitments": st.sampled_from(Commitments),
    "commitment_words": lists(*WORDS),
    "match": st.sampled_from(Match),
    "on_over_classified": st.sampled_from(OnOver),
    "applies_to": st.sampled_from(AppliesTo),
    "meeting_approval": st.sampled_from(MeetingApproval),
    "self_approval": st.booleans(),
    "approvers": lists(*PEOPLE),
    "patterns": lists(*PATTERNS),
    "pair_budget": numbers,
    "hop_limit": numbers,
    "open_approvals": numbers,
    "exchange_hours": numbers,
    "approval_hours": numbers,
    "disclosure": st.sampled_from(["An agent wrote this.", "Von einer Maschine."]),
}
assert tuple(VALUES) == KEYS == tuple(one.name for one in fields(Fragment))

fragments: st.SearchStrategy[Fragment] = st.fixed_dictionaries({}, optional=VALUES).map(
    lambda said: Fragment(**said)  # type: ignore[arg-type]
)


def snapshot_of(**documents: Fragment) -> PolicySnapshot:
    """A snapshot of documents by name, `__` for the slash."""
    named = {name.replace("__", "/"): fragment for name, fragment in documents.items()}
    return PolicySnapshot(id=CURRENT, tenant_id="acme", fragments=named)


def policy_of(fragment: Fragment) -> Policy:
    """What is in force where the enterprise says this and nobody else says anything."""
    policy = effective(snapshot_of(enterprise__default=fragment))
    assert policy is not None
    return policy


policies = fragments.map(policy_of)
