"""What is written is read back the same by every YAML reader."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.message.message import Value
from parley.wire.yaml.strict import read_strict
from parley.wire.yaml.write import fits_block, mapping_text, quoted, scalar
from tests.samples.messages import PROPERTY, texts

# Bodies that real tools were seen to lose or change.
AWKWARD = [
    "", " ", "\n", "\n\n", "a", "a\n", "a\n\n", "a\nb", "a\nb\n", "a\nb\n\n", "\na\nb", " a\nb", "\ta\nb", "a\tb\nc",
    "a\n b\n  c\n", "a\n\nb\n", "a\n \nb\n", "a \nb \n", "a\n\n\nb", "# a\nb\n", "- a\n- b\n", "a: b\nc: d\n",
    "---\na\n", "a\n---\nb\n", "...\nb\n", "%YAML\nb", "!important note\nb\n", "&a b\nc\n", "*a\nb", "| a\nb",
    "> a\nb", "'a'\nb", '"a"\nb', "a\\nb\nc", "\x1b[31mred\x1b[0m\nb", "a\x00b", "a\x7fb", "a\x85b\nc",
    "a\u2028b\nc", "a\u2029b\nc", "\ufeffa\nb", "a\ufeffb\nc", "\ufffe\uffff", "\u00a0a\nb", "\u3000a\nb",
    "a\u00a0\nb\u3000\n", "a\r\nb\r\n", "a\rb", "\U0001f600\n\U0010ffff", "null", "~", "no", "12:30:45", "1e400",
    "a" * 5_000 + "\nb", "é\nü\n", "{a\nb", "[a\nb",
]  # fmt: skip


def every_reader(text: str) -> list[object]:
    """A document as PyYAML's C and pure loaders and our own reader see it."""
    return [
        yaml.load(text, Loader=yaml.CBaseLoader),
        yaml.load(text, Loader=yaml.BaseLoader),
        read_strict(text, DEFAULT_LIMITS),
    ]


@pytest.mark.parametrize("text", AWKWARD)
def test_an_awkward_text_is_read_back_by_every_reader(text: str) -> None:
    for document in (f"a: {quoted(text)}\n", f"a: {scalar(text)}\n", f"a: {scalar(text)}\nb: {scalar(text)}\n"):
        for fields in every_reader(document):
            assert isinstance(fields, dict)
            assert fields["a"] == text
            assert fields.get("b", text) == text


@PROPERTY
@given(texts)
@example("a\n\nb\n")
def test_any_text_is_read_back_by_every_reader(text: str) -> None:
    assert every_reader(f"a: {scalar(text)}\nz: end\n") == [{"a": text, "z": "end"}] * 3
    assert every_reader(f"a: {quoted(text)}\nz: end\n") == [{"a": text, "z": "end"}] * 3


@PROPERTY
@given(texts)
def test_a_quoted_text_is_one_line_of_visible_characters(text: str) -> None:
    assert re.fullmatch('"[^\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]*"', quoted(text))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a", '"a"'),
        ("a\n", '"a\\n"'),
        ("a\nb", "|-\n  a\n  b"),
        ("a\nb\n", "|\n  a\n  b"),
        ("a\n\n  b\n", "|\n  a\n\n    b"),
        ("a\nb\n\n", '"a\\nb\\n\\n"'),
        (" a\nb", '" a\\nb"'),
        ("\u00a0a\nb", '"\\u00a0a\\nb"'),
        ("a\n \nb", '"a\\n \\nb"'),
        ("a\tb\nc", '"a\\tb\\nc"'),
        ("a\x1bb\nc", '"a\\x1bb\\nc"'),
        ("a\x85b\nc", '"a\\u0085b\\nc"'),
        ("a\u2028b\nc", '"a\\u2028b\\nc"'),
        ("a\ufeffb\nc", '"a\\ufeffb\\nc"'),
        ('say "hi"\\', '"say \\"hi\\"\\\\"'),
        ("a\0b\r", '"a\\0b\\r"'),
        ("é\U0001f600", '"é\U0001f600"'),
    ],
)
def test_a_block_is_written_only_where_every_reader_agrees(text: str, written: str) -> None:
    assert scalar(text) == written
    assert fits_block(text) == written.startswith("|")


def test_a_mapping_shows_its_types_to_readers_that_look_for_them() -> None:
    fields: dict[str, Value] = {
        "round": 1,
        "merge_ready": True,
        "fail": False,
        "nothing": None,
        "text": "1",
        "list": ["a", 2, True, {"k": "v"}, []],
        "empty": {},
        "odd key": "x",
        "inner": {"deep": {"long": "a\n  b\n\nc\n", "list": []}, "last": "z"},
    }

    assert mapping_text(fields) == (
        "round: 1\n"
        "merge_ready: true\n"
        "fail: false\n"
        "nothing: null\n"
        'text: "1"\n'
        'list: ["a", 2, true, {"k": "v"}, []]\n'
        "empty: {}\n"
        '"odd key": "x"\n'
        "inner:\n"
        "  deep:\n"
        "    long: |\n"
        "      a\n"
        "        b\n"
        "\n"
        "      c\n"
        "    list: []\n"
        '  last: "z"\n'
    )
    assert yaml.safe_load(mapping_text(fields)) == fields


@pytest.mark.parametrize(
    "key", ["null", "Null", "true", "NO", "on", "y", "~", "", "<<", "1", "a b", "a:", "2026-03-13"]
)
def test_a_key_that_readers_would_take_for_something_else_is_quoted(key: str) -> None:
    assert mapping_text({key: "x"}).startswith(quoted(key))
    assert yaml.safe_load(mapping_text({key: {key: "x"}})) == {key: {key: "x"}}


values = st.recursive(
    st.one_of(texts, st.booleans(), st.integers(-(10**9), 10**9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(texts.map(lambda text: text[:100]), inner, max_size=3)
    ),
    max_leaves=8,
)


@PROPERTY
@given(st.dictionaries(texts.map(lambda text: text[:100]), values, min_size=1, max_size=4))
def test_any_mapping_is_read_back_with_its_types(fields: dict[str, Value]) -> None:
    assert yaml.load(mapping_text(fields), Loader=yaml.CSafeLoader) == fields
    assert yaml.load(mapping_text(fields), Loader=yaml.SafeLoader) == fields
