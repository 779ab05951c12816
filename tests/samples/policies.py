"""Policy documents as hypothesis draws them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from hypothesis import strategies as st

from parley.domain.content.classification import Classification, ContentPattern
from parley.domain.content.envelope import Purpose
from parley.domain.rules.meet import effective
from parley.domain.rules.policy import (
    CURRENT,
    KEYS,
    Fragment,
    ItemType,
    Policy,
    PolicyKey,
    PolicySnapshot,
)
from parley.wire.files.policy import DOMAIN, encode_value
from parley.wire.yaml.write import mapping_text

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


ITEMS: dict[ItemType, st.SearchStrategy[tuple[object, ...]]] = {
    ItemType.PURPOSE: lists(*Purpose),
    ItemType.WORD: lists(*WORDS),
    ItemType.PERSON: lists(*PEOPLE),
    ItemType.PATTERN: lists(*PATTERNS),
}


def values_of(key: PolicyKey) -> st.SearchStrategy[Any]:
    """Values that a key may have."""
    kind = type(key.default)
    if key.items is not None:
        return ITEMS[key.items]
    if kind is bool:
        return st.booleans()
    if issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    return numbers if kind is int else st.sampled_from(["An agent wrote this.", "Von einer Maschine."])


fragments: st.SearchStrategy[Fragment] = st.fixed_dictionaries(
    {}, optional={name: values_of(key) for name, key in KEYS.items()}
).map(lambda keys: Fragment(**keys))


def document_text(fragment: Fragment) -> str:
    """The document that sets these keys and no others."""
    keys = {key: encode_value(getattr(fragment, key)) for key in KEYS if getattr(fragment, key) is not None}
    return mapping_text({DOMAIN: keys})


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
