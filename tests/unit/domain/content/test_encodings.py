"""Base64 and hexadecimal in a text."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.encodings import decoded
from tests.samples.messages import PROPERTY


@PROPERTY
@given(
    st.binary(min_size=8, max_size=80).filter(lambda data: not base64.b64encode(data).islower()),
    st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]),
    st.sampled_from(["", "x/", "key-", "ab_", "a+"]),
    st.booleans(),
)
def test_a_token_of_base64_is_read_whatever_stands_before_it(
    data: bytes, encode: object, before: str, padded: bool
) -> None:
    assert callable(encode)
    token = encode(data).decode()

    assert data in decoded(f"see {before}{token if padded else token.rstrip('=')} .".encode())


@PROPERTY
@given(st.binary(min_size=4, max_size=40))
def test_a_token_of_hexadecimal_is_read(data: bytes) -> None:
    assert data in decoded(f"sha {data.hex()}.".encode())
    assert data in decoded(f"({data.hex().upper()})".encode())


def test_lines_of_base64_are_read_as_one() -> None:
    data = bytes(range(200))

    assert data in decoded(base64.encodebytes(data))


@pytest.mark.parametrize("text", ["", "only small words here", "a b c", "12 34"])
def test_ordinary_text_holds_nothing(text: str) -> None:
    assert decoded(text.encode()) == b""
