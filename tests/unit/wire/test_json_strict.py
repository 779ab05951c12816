from __future__ import annotations

import json
from contextlib import suppress
from math import inf
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import DuplicateKey, Invalid, TooDeep
from parley.domain.errors.team import Malformed
from parley.wire.json_strict import JsonLimits, parse
from tests.samples.messages import PROPERTY

TEXT = st.text(st.characters(exclude_characters="\x00\ufeff", exclude_categories=["Cs"]), max_size=20)
SCALAR = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
VALUE = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


@PROPERTY
@given(VALUE, st.booleans())
def test_every_document_that_means_one_thing_is_read_as_it_is(value: object, ascii_only: bool) -> None:
    content = json.dumps(value, ensure_ascii=ascii_only, indent=1).encode()

    assert parse(content) == json.loads(content)


@PROPERTY
@given(st.lists(st.tuples(TEXT, SCALAR), min_size=1, max_size=6), st.integers(0, 5))
def test_a_key_that_is_given_twice_is_always_found(pairs: list[tuple[str, Any]], again: int) -> None:
    fields = [f"{json.dumps(key)} : {json.dumps(value)}" for key, value in dict(pairs).items()]
    key = list(dict(pairs))[again % len(fields)]
    twice = "{" + ",\n".join([*fields, f"{json.dumps(key, ensure_ascii=False)}:0"]) + "}"

    with pytest.raises(DuplicateKey):
        parse(twice.encode())
    with pytest.raises(DuplicateKey):
        parse(f'{{"x":[{{}},{twice}]}}'.encode())


@pytest.mark.parametrize(
    "content",
    [
        b'{"to":"a","to":"b"}',
        b'{"a":{"b":1,"b":1}}',
        b'[{"a":1,"a":1}]',
        b'{"a":1,"\\u0061":2}',
        b'{"":1,"":2}',
        b'{"a" :1, "a"\n:2}',
        b'{"\\"":1,"\\"":2}',
    ],
)
def test_two_equal_keys_are_refused_however_they_are_spelled(content: bytes) -> None:
    with pytest.raises(DuplicateKey):
        parse(content)


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":"x\\":1,\\"a"}',
        b'{"a":"\\\\","b":":"}',
        b'{"a":[{"a":1},{"a":2}]}',
        b'["a:", ":", "\\\\\\":"]',
        b'{"a":"\\\\\\\\"}',
        b'"a"',
        b"7",
    ],
)
def test_what_only_looks_like_a_key_is_none(content: bytes) -> None:
    assert parse(content) == json.loads(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" ",
        b"{",
        b"{}x",
        b"{} {}",
        b"{'a':1}",
        b"{a:1}",
        b'{"a":1,}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b"\xef\xbb\xbf{}",
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\udc00\\ud800"}',
        b'{"a":"\x01"}',
        b'{"a":01}',
        b"\x00",
        "{}".encode("utf-16"),
    ],
)
def test_what_is_no_json_is_malformed(content: bytes) -> None:
    with pytest.raises(Malformed):
        parse(content)


@pytest.mark.parametrize("text", ["\\u0000", "a\\u0000b", "\\ufeff", "\ufeff"])
def test_text_that_others_cannot_read_is_refused_as_value_and_as_key(text: str) -> None:
    for content in (f'"{text}"', f'{{"{text}":1}}', f'{{"a":["{text}"]}}'):
        with pytest.raises(Invalid):
            parse(content.encode())


def test_other_control_characters_are_text() -> None:
    assert parse(b'"\\n\\t\\u001f\x7f"') == "\n\t\x1f\x7f"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 21, "-" + "1" * 21, "1" * 1_000_000])
def test_a_number_that_others_would_round_or_choke_on_is_refused(number: str) -> None:
    with pytest.raises(Invalid):
        parse(f'{{"a":{number}}}'.encode())


def test_the_largest_numbers_are_accepted() -> None:
    assert parse(b"[%s,-%s,1e308]" % (b"9" * 20, b"9" * 20)) == [10**20 - 1, -(10**20 - 1), 1e308]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_counted_from_the_document_itself(opening: str, closing: str) -> None:
    limits = JsonLimits(depth=5)

    parse(f"{opening * 5}1{closing * 5}".encode(), limits)
    with pytest.raises(TooDeep):
        parse(f"{opening * 6}1{closing * 6}".encode(), limits)


def test_keys_are_counted_over_all_levels() -> None:
    limits = JsonLimits(keys=4)

    parse(b'{"a":{"b":1,"c":[{"d":1}]}}', limits)
    with pytest.raises(Invalid):
        parse(b'{"a":{"b":1,"c":[{"d":1},{"e":1}]}}', limits)


def test_text_is_measured_in_bytes() -> None:
    limits = JsonLimits(string_bytes=8)

    for text in ("x" * 8, "ü" * 4, "👋" * 2):
        assert parse(json.dumps(text).encode(), limits) == text
    for text in ("x" * 9, "ü" * 4 + "x", "👋" * 2 + "x"):
        with pytest.raises(Invalid):
            parse(json.dumps(text).encode(), limits)
        with pytest.raises(Invalid):
            parse(json.dumps({text: 1}, ensure_ascii=False).encode(), limits)


MALICE = {
    "lists": (b"", b"[", b""),
    "objects": (b"", b'{"a":', b""),
    "digits": (b'{"a":', b"1", b"}"),
    "backslashes": (b'{"', b"\\", b""),
    "quotes": (b'{"a":"', b'\\"', b'"}'),
    "strings": (b'"', b'a":"', b""),
    "many": (b"[", b'{"a":1,"b":2},', b"1]"),
}


@pytest.mark.parametrize(("before", "piece", "after"), MALICE.values(), ids=MALICE)
def test_a_megabyte_of_malice_is_refused_for_no_more_work_than_its_length_is_worth(
    before: bytes, piece: bytes, after: bytes
) -> None:
    def malice(size: int) -> bytes:
        return before + piece * (size // len(piece)) + after

    def work(size: int) -> float:
        content, best = malice(size), inf
        for _ in range(5):
            begun = thread_time()
            with suppress(Invalid):  # a little of it may be no malice yet
                parse(content)
            best = min(best, thread_time() - begun)
        return best

    with pytest.raises(Invalid):
        parse(malice(1_048_576))
    # Processor time, so that a busy machine does not count. Quadratic work would be 256 times as much.
    assert work(1_048_576) < 160 * max(work(65_536), 50e-6)
