"""Partial answers in metadata: what is stored is found again, and what cannot be understood is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid
from parley.domain.message.message import Pattern
from parley.wire.parts import conversation_of, is_partial, partial_of

NAMES: st.SearchStrategy[Any] = st.sampled_from([None, 7, "", "conv_1", 'a"b', [], {"conversation_id": "conv_2"}])
ENVELOPES = NAMES | st.fixed_dictionaries({}, optional={"conversation_id": NAMES, "to": NAMES, "ocip": NAMES})
VALUES: st.SearchStrategy[Any] = st.sampled_from([None, True, False, 0, 1, "", "artifact", "progress", "Art", []])


@given(st.sampled_from(Pattern), VALUES, VALUES)
def test_what_is_accepted_is_read_back_the_same(pattern: Pattern, accepts: object, partial: object) -> None:
    metadata = {"accepts_partial": accepts, "partial": partial, "other": "partial"}
    try:
        accepted = partial_of(pattern, metadata)
    except Invalid:
        return

    assert is_partial(pattern, json.dumps(metadata).encode()) is accepted


@pytest.mark.parametrize(
    ("pattern", "metadata", "partial"),
    [
        (Pattern.REQUEST, {"accepts_partial": True}, True),
        (Pattern.REQUEST, {"accepts_partial": False}, False),
        (Pattern.REQUEST, {"partial": "artifact"}, False),
        (Pattern.RESPONSE, {"partial": "artifact"}, True),
        (Pattern.RESPONSE, {"partial": "progress"}, True),
        (Pattern.RESPONSE, {"accepts_partial": True}, False),
        (Pattern.NOTIFY, {"partial": "artifact", "accepts_partial": True}, False),
        (Pattern.NOTIFY, {"partial": 5}, False),
    ],
)
def test_a_request_accepts_parts_and_a_response_is_one(
    pattern: Pattern, metadata: dict[str, Any], partial: bool
) -> None:
    assert partial_of(pattern, metadata) is partial


@pytest.mark.parametrize(
    ("pattern", "metadata"),
    [
        (Pattern.REQUEST, {"accepts_partial": 1}),
        (Pattern.REQUEST, {"accepts_partial": "true"}),
        (Pattern.RESPONSE, {"partial": True}),
        (Pattern.RESPONSE, {"partial": "chunk"}),
        (Pattern.RESPONSE, {"partial": []}),
    ],
)
def test_what_cannot_be_understood_is_refused_by_its_name(pattern: Pattern, metadata: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        partial_of(pattern, metadata)

    assert refused.value.problems[0].field == f"metadata.{next(iter(metadata))}"


@given(st.fixed_dictionaries({}, optional={"conversation_id": NAMES, "other": ENVELOPES, "ocip": ENVELOPES}))
def test_the_conversation_of_an_exchange_is_the_one_in_the_envelope(metadata: dict[str, Any]) -> None:
    envelope = metadata.get("ocip")
    name = envelope.get("conversation_id") if isinstance(envelope, dict) else ""
    expected = name if isinstance(name, str) else ""

    assert conversation_of(json.dumps(metadata, separators=(",", ":")).encode(), "exch_1") == expected
