"""Where the plain reader answers, it answers what the strict reader would."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley.domain.errors.errors import ParleyError
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.message.message import Message
from parley.wire.oacp.format import OacpFormat
from parley.wire.yaml.plain import read_plain
from parley.wire.yaml.strict import read_strict
from tests.samples.messages import PROPERTY, messages

CLI_FILE = """\
id: "msg-20260313T143000Z-claude-a8f3"
from: claude
to: codex
type: task_request
priority: P2
created_at_utc: "2026-03-13T14:30:00Z"
related_pr: "42"
subject: "Add input validation"
body: |
  The endpoint accepts any payload.

  - Email format validation
    and its domain
  Reference: docs/api-spec.md
conversation_id: "conv-20260313-claude-001"
"""

# Values that stand after `key: `, from the plainest to those that only a full parser understands.
VALUES = (
    "b", "/x/y", "12:30:45", "0x1F", "12_3", "no", "true", "null", "NULL", "~", "", " ", "a: b: c", "a:b", "a:", "a: ",
    "x #y", "x# y", "x\u00a0#y", "x\u3000#y", "x\u00a0", "\u00a0x", "\u200bx", "x\ty", "x\t", "\tx", "x ", "- x", "? x",
    ": x", "-x", "?x", "%x", "@x", "`x", "a, b", "a]", "a}", "a b\\n", "'s'", "'it''s'", '"q"', '"a" ', '"a" # c',
    '"a" b', '"a"b', '"a', '"a\\"', '""', '"a\\nb"', '"\\x41\\u00e9\\U0001F600"', '"\\ud83d\\ude00"', '"\\e\\_\\N\\L"',
    '"\\/"', '"\\0"', '"\\x0"', '"\\q"', '"\\U00110000"', '"\\U000D8000"', '"a\tb"', '"a\u00a0"', '"  a  "', "[]",
    "[a]", "[a, b]", '["a", b, "c d"]', '["a\\"b"]', "[a,b]", "[a, ]", "[ a]", "[null]", '["null"]', "[a: b]", "[1, 2]",
    "[a-b.c, d_e]", "[a, [b]]", '["a, b", c]', '["", ""]', "[a", "{a: b}", "&x b", "*x", "!!str b", "!b", "|", "|-",
    "|+", "|2", "|1-", ">", ">-", "| # c", "|x", "| ", "1", "\u00e9", "a\u2028b", "a\x85b", "a\ufeffb",
)  # fmt: skip
# Lines that stand on their own, or continue what came before.
LINES = (
    "  line", "   deeper", " shallow", "line", "  ", "    ", "\t", "  \ttab", "", "# comment", "  # comment", "---",
    "--- ", "--- a: b", "...", "%YAML 1.2", "<<: x", "key:value", "key :value", "key", "- x", "? x", "Key: x",
    "9: x", '"k": v', "'k': v", "\u00e9: x", "\ufeff", "a\u00a0: b", "  b\"", "  c: d", "\u3000x", "\u00a0 x",
    "  \u2028", "_a: b",
)  # fmt: skip
ODD = " \t\n\r\":#|-[],{}&*!%@`'\\~?.>+0az/_\u00a0\u3000\x85\u2028\ufeff\U0001f600\u00e9\x00\x7f\ufffe"


@st.composite
def near_plain(draw: st.DrawFn) -> str:
    """A file in the plain form with one odd row, or none, or an odd end: one step away from what is surely plain."""
    plain = ["b", "/x y", '"v"', '"a\\tb"', "|\n  x", "|-\n  x\n\n   y\n  ", "[a, b]", '["a b"]']
    rows = [f"k{n}: {value}" for n, value in enumerate(draw(st.lists(st.sampled_from(plain), min_size=1, max_size=4)))]
    value = st.one_of(st.sampled_from(VALUES), st.text(max_size=8))
    odd = st.one_of(
        st.builds("{}: {}".format, st.sampled_from(["a", "null", "y", "k0", "long_key"]), value),
        st.builds("c: {}\n  {}".format, st.sampled_from(["|", "|-", "|+", "|2", ">"]), st.sampled_from(LINES)),
        st.sampled_from(LINES),
    )
    if draw(st.booleans()):
        rows.insert(draw(st.integers(0, len(rows))), draw(odd))
    return "\n".join(rows) + draw(st.sampled_from(["\n", "\n", "\n", "\n", "\n\n", "", "\r\n", "\n \n", "\n..."]))


@st.composite
def mutated(draw: st.DrawFn, original: str) -> str:
    """`original` with a few characters or lines put in, taken out or doubled."""
    text = original
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        match draw(st.sampled_from(["insert", "insert", "remove", "line", "double"])):
            case "insert":
                text = text[:at] + draw(st.sampled_from(ODD)) + text[at:]
            case "remove":
                text = text[:at] + text[at + draw(st.integers(1, 3)) :]
            case "line":
                start = text.rfind("\n", 0, at) + 1
                text = text[:start] + draw(st.sampled_from(LINES)) + "\n" + text[start:]
            case _:
                text = text[:at] + text[at : at + draw(st.integers(1, 30))] + text[at:]
    return text


def assert_agreement(text: str, limits: Limits = DEFAULT_LIMITS) -> bool:
    """The strict reader gives what the plain one gave; whether it gave anything."""
    plain = read_plain(text, limits)
    if plain is None:
        return False
    assert read_strict(text, limits) == plain
    return True


@PROPERTY
@given(near_plain())
@example("a: b\n\n  c\n")
@example("a: |\n  b\n c\n")
@example("a: |\n  b\n\n\n")
@example('a: "b"\n  c: d\n')
def test_a_file_near_the_plain_form_is_read_as_the_strict_reader_reads_it(text: str) -> None:
    assert_agreement(text)


@PROPERTY
@given(mutated(CLI_FILE))
def test_a_damaged_file_of_another_tool_is_read_as_the_strict_reader_reads_it(text: str) -> None:
    assert_agreement(text)


@PROPERTY
@given(st.data())
def test_a_damaged_file_of_our_own_is_read_as_the_strict_reader_reads_it(data: st.DataObject) -> None:
    emitted = OacpFormat().encode(data.draw(messages())).decode()

    assert_agreement(data.draw(mutated(emitted)))


@PROPERTY
@given(st.text(st.sampled_from(sorted(ODD + "abc"))))
def test_any_text_at_all_is_read_as_the_strict_reader_reads_it(text: str) -> None:
    assert_agreement("a: " + text)
    assert_agreement("a: b\n" + text)


@pytest.mark.parametrize("follower", LINES)
def test_each_odd_value_with_an_odd_line_after_it_is_read_alike(follower: str) -> None:
    for value in VALUES:
        for text in (f"a: {value}\n", f"a: {value}\n{follower}\n", f"a: {value}\n{follower}\nz: end\n"):
            assert_agreement(text)


@pytest.mark.parametrize("mark", ["|", "|-"])
def test_each_pair_of_odd_lines_in_a_block_is_read_alike(mark: str) -> None:
    for first, second in product(LINES, LINES):
        for text in (f"a: {mark}\n{first}\n{second}\n", f"a: {mark}\n  x\n{first}\n{second}\nz: end\n"):
            assert_agreement(text)


@PROPERTY
@given(messages())
def test_what_parley_writes_never_needs_the_strict_reader(message: Message) -> None:
    emitted = OacpFormat().encode(message).decode()

    assert assert_agreement(emitted)


def test_what_the_cli_writes_never_needs_the_strict_reader() -> None:
    assert assert_agreement(CLI_FILE)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("a: b", id="no final newline"),
        pytest.param("a: b\r\n", id="carriage return"),
        pytest.param("a: b\na: c\n", id="a key twice"),
        pytest.param("a: b # c\n", id="a comment"),
        pytest.param("a: null\n", id="null"),
        pytest.param("to: [null]\n", id="null in a list"),
        pytest.param("a: &x b\n", id="an anchor"),
        pytest.param("a: !!str b\n", id="a tag"),
        pytest.param("a: |+\n  b\n", id="a block that keeps its end"),
        pytest.param("a: |\n", id="an empty block"),
        pytest.param("a: |\n\n  b\n", id="a block that starts blank"),
        pytest.param("a: |\n    b\n", id="a block indented by four"),
        pytest.param("a: b\n  c\n", id="a plain scalar on two lines"),
        pytest.param("---\na: b\n", id="a document mark"),
        pytest.param("a: b\n...\n", id="an end mark"),
        pytest.param('a: "\\ud800"\n', id="half a character"),
        pytest.param("a: \ud800\n", id="a raw surrogate"),
        pytest.param("A: b\n", id="a key in capitals"),
    ],
)
def test_the_plain_reader_declines_what_it_is_not_sure_of(text: str) -> None:
    assert read_plain(text, DEFAULT_LIMITS) is None


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a: b\n", {"a": "b"}),
        ('a: "b\\t\\u00e9\\U0001f600\\x41\\/"\n', {"a": "b\té\U0001f600A/"}),
        ("a: |\n  b\n   c\n\n  d\n", {"a": "b\n c\n\nd\n"}),
        ("a: |-\n  b\n  c\n", {"a": "b\nc"}),
        ("a: |\n  b\n\n\n", {"a": "b\n"}),
        ('to: [a, "b c", d-e]\n', {"to": ["a", "b c", "d-e"]}),
        ("to: no\nid: 12_3\n", {"to": "no", "id": "12_3"}),
    ],
)
def test_the_plain_reader_answers_what_it_is_sure_of(text: str, fields: dict[str, object]) -> None:
    assert read_plain(text, DEFAULT_LIMITS) == fields


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("".join(f"k{n}: v\n" for n in range(10)), id="keys"),
        pytest.param("to: [" + ", ".join(["a"] * 18) + "]\n", id="items of a list"),
    ],
)
def test_the_plain_reader_keeps_the_node_limit_of_the_strict_one(text: str) -> None:
    """21 nodes: the mapping, its keys and values, or one key with a list and its 18 items."""
    exactly, one_less = DEFAULT_LIMITS._replace(yaml_nodes=21), DEFAULT_LIMITS._replace(yaml_nodes=20)

    assert assert_agreement(text, exactly)
    assert read_plain(text, one_less) is None
    with pytest.raises(ParleyError, match="more than 20 values"):
        read_strict(text, one_less)


def test_the_plain_reader_keeps_the_depth_limit_of_the_strict_one() -> None:
    assert assert_agreement("to: [a, b]\n", DEFAULT_LIMITS._replace(yaml_depth=2))
    assert read_plain("to: [a, b]\n", DEFAULT_LIMITS._replace(yaml_depth=1)) is None
