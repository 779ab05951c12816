"""An entry has one spelling: the writer's fast one is the canonical JSON of RFC 8785."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.audit.entry import (
    COLUMNS,
    NO_HASH,
    AuditDraft,
    AuditEntry,
    SideHead,
    entry_at,
    entry_fields,
    entry_hash,
)
from tests.samples.messages import PROPERTY

# How the store spells an entry.
spelled = msgspec.json.Encoder(order="sorted").encode

# What facts may hold: keys are ASCII, numbers are whole and exact in every reader, texts are any.
_KEYS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=12)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_VALUES = st.recursive(
    st.one_of(_TEXTS, st.integers(-(2**53) + 1, 2**53 - 1), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_FACTS = st.dictionaries(_KEYS, _VALUES, max_size=8)


def a_draft(facts: dict[str, Any] | None = None) -> AuditDraft:
    return AuditDraft("aud_1", "alice", "2026-03-13T14:30:00.000000+00:00", "agent_exchange", "alice", facts or {})


@PROPERTY
@given(_FACTS)
def test_an_entry_is_spelled_as_rfc_8785_says(facts: dict[str, Any]) -> None:
    document = entry_fields(a_draft(facts), "acme", SideHead(3, "ab" * 32))

    assert spelled(document) == rfc8785.dumps(document)


@pytest.mark.parametrize(
    "text", ["", '"\\/', "\x00\x01\x1f\x7f\x80", "\b\f\n\r\t", "\u2028\u2029\ufeff", "é\u0301", "\U0001d11e", "\uffff"]
)
def test_awkward_texts_are_spelled_alike(text: str) -> None:
    assert spelled({"text": text}) == rfc8785.dumps({"text": text})


def test_where_the_two_spellings_part_facts_may_not_go() -> None:
    """Why facts hold no fractions, no larger numbers and no other keys."""
    assert spelled(1.0) != rfc8785.dumps(1.0)
    with pytest.raises(rfc8785.IntegerDomainError):
        rfc8785.dumps(2**53)
    keys = {"\U0001d11e": 1, "\ue000": 2}
    assert spelled(keys) != rfc8785.dumps(keys)


def test_half_a_character_is_refused_by_both() -> None:
    with pytest.raises(UnicodeEncodeError):
        spelled({"text": "\ud800"})
    with pytest.raises(rfc8785.CanonicalizationError):
        rfc8785.dumps({"text": "\ud800"})


def test_facts_cannot_take_the_place_of_what_the_chain_says() -> None:
    evil = {"seq": 99, "prev_hash": "x", "tenant": "globex", "side": "bob", "id": "y", "action": "z", "actor": "eve"}

    fields = entry_fields(a_draft(evil), "acme", SideHead())

    assert (fields["seq"], fields["prev_hash"], fields["tenant"], fields["side"]) == (1, NO_HASH, "acme", "alice")
    assert (fields["id"], fields["action"], fields["actor"]) == ("aud_1", "agent_exchange", "alice")


def test_an_entry_follows_the_one_before_it_on_its_side() -> None:
    entry = entry_at(7, a_draft({"round": 1})._replace(exchange_id="exch_1"), "acme", SideHead(3, "ab" * 32), spelled)

    assert (entry.number, entry.side, entry.seq, entry.exchange_id) == (7, "alice", 4, "exch_1")
    assert entry.entry_hash == entry_hash(entry.document)
    assert msgspec.json.decode(entry.document)["prev_hash"] == "ab" * 32


def test_the_columns_of_a_store_are_the_fields_of_an_entry() -> None:
    """Renaming one breaks the stores that there are; a new one needs a `schema_N.sql` in each of the three."""
    assert COLUMNS == ("side", "seq", "id", "at", "exchange", "hash", "document")
    assert len(COLUMNS) == len(AuditEntry._fields) - 1


def test_the_hash_is_a_leaf_of_rfc_6962() -> None:
    assert entry_hash(b"{}") == sha256(b"\x00{}").hexdigest()
