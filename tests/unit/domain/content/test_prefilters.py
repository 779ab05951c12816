"""What detectors look for first, because it costs next to nothing, changes nothing of what they find."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.detectors import (
    _ALL_TOKENS,
    _CREDENTIALS,
    _PASSWORD,
    _PEM,
    API_TOKEN,
    IBAN,
    PASSWORD,
    PAYMENT_CARD,
    PRIVATE_KEY,
    US_SSN,
    Detection,
    _has_card,
    _has_iban,
    _has_ssn,
    findings,
)
from parley.domain.content.encodings import decoded
from parley.domain.content.unicode_folding import folded
from tests.samples.messages import PROPERTY
from tests.unit.domain.content.test_detectors import CARDS, IBANS, NO_PASSWORDS, PASSWORDS, SSN, TOKENS, pem

SECRETS = [*CARDS, *IBANS, *TOKENS, *PASSWORDS, *NO_PASSWORDS, SSN, pem("RSA PRIVATE KEY"), "Bearer abcdefgh12345678"]
ENCODED = re.compile(rb"[0-9A-Za-z+/_-]{14}")


def found_without_prefilters(text: str) -> set[Detection]:
    """What every detector finds when it looks closely at once."""
    small = text.lower()
    found = {
        PAYMENT_CARD: _has_card(text),
        IBAN: _has_iban(text),
        US_SSN: _has_ssn(text),
        PRIVATE_KEY: _PEM.search(text),
        API_TOKEN: any(shape.search(text) for _, shape in _ALL_TOKENS),
        PASSWORD: _CREDENTIALS.search(text) or _PASSWORD.search(small),
    }
    return {detection for detection, match in found.items() if match}


@st.composite
def pieces(draw: st.DrawFn) -> str:
    """A secret, a part of one, or one with a sign too many."""
    secret = draw(st.sampled_from(SECRETS))
    start = draw(st.sampled_from([0, 0, 0, 1, 2, 5, len(secret) // 2]))
    end = draw(st.sampled_from([0, 0, 0, 1, 2, 5, 14]))
    part = secret[start : len(secret) - end]
    place = draw(st.integers(0, len(part)))
    return part[:place] + draw(st.sampled_from(["", "", "", " ", ".", "-", "_", "\u0435", "0", "a"])) + part[place:]


TEXTS = st.lists(pieces() | st.text(max_size=12), max_size=6).flatmap(
    lambda parts: st.sampled_from(["", " ", "\n", ": ", '"', "=", "/", "."]).map(lambda between: between.join(parts))
)


@PROPERTY
@given(TEXTS)
def test_a_prefilter_changes_nothing_of_what_is_found(text: str) -> None:
    plain = folded(text)
    raw = plain.encode("ascii", "replace")
    expected = found_without_prefilters(plain)
    if ENCODED.search(raw):
        expected |= found_without_prefilters(decoded(raw).decode("latin-1"))

    assert set(findings((text,))) == expected
