"""Hostile YAML is refused on the parser's events, with a code that says why."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import (
    AliasForbidden,
    DuplicateKey,
    MultiDocument,
    NotAMapping,
    NotYaml,
    TagForbidden,
    TooDeep,
    TooManyNodes,
    Unreadable,
)
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.message.message import Value
from parley.wire.yaml.strict import Place, read_located, read_strict
from tests.samples.messages import PROPERTY

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


NULLS = {"a": None, "b": None, "c": None, "d": "", "e": "null", "f": "~"}


def read(text: str) -> dict[str, Value]:
    return read_strict(text, DEFAULT_LIMITS)


@pytest.fixture
def events_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many events the reader took from PyYAML's parser so far."""
    count = 0
    real = yaml.parse

    def counting(text: str, Loader: type[yaml.Loader]) -> Iterator[yaml.Event]:  # noqa: N803
        nonlocal count
        for event in real(text, Loader=Loader):
            count += 1
            yield event

    monkeypatch.setattr(yaml, "parse", counting)
    return lambda: count


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a: b\n", {"a": "b"}), ("a: b", {"a": "b"}), ("---\na: b\n...\n", {"a": "b"}),
        ("%YAML 1.1\n---\na: b\n", {"a": "b"}), ("\ufeffa: b\n", {"a": "b"}), ("a: b # c\n# d\n", {"a": "b"}),
        ("a: 'it''s'\n", {"a": "it's"}), ("a: >\n  b\n  c\n", {"a": "b c\n"}),
        ("a:\n  b: [c, {d: e}]\n", {"a": {"b": ["c", {"d": "e"}]}}),
        ("a:\nb: ~\nc: null\nd: ''\ne: 'null'\nf: \"~\"\n", NULLS),
        ("{}\n", {}), ("'<<': a\n", {"<<": "a"}), ("null: a\n", {"null": "a"}), ("? a\n: b\n", {"a": "b"}),
        ("a: b\r\nc: d\r\n", {"a": "b", "c": "d"}),
    ],
)  # fmt: skip
def test_ordinary_yaml_is_read(text: str, fields: dict[str, Value]) -> None:
    assert read(text) == fields


@pytest.mark.parametrize(
    "text",
    ["no", "12_3", "12:30:45", "2026-03-13", "1e400", "0x1F", "0o17", ".inf", "true", "=", "1" * 5_000],
)
def test_every_scalar_is_text(text: str) -> None:
    """A64: `to: no`, `id: 12_3`, `12:30:45`, dates and 5,000-digit numbers stay what was written."""
    assert read(f"to: {text}\n") == {"to": text}


@pytest.mark.parametrize(
    ("text", "refusal", "code"),
    [
        ("", NotAMapping, "not_a_mapping"),
        ("# only a comment\n", NotAMapping, "not_a_mapping"),
        ("- a\n", NotAMapping, "not_a_mapping"),
        ("text\n", NotAMapping, "not_a_mapping"),
        ("[a]: b\n", NotAMapping, "not_a_mapping"),
        ("? {a: b}\n: c\n", NotAMapping, "not_a_mapping"),
        ("a: [b\n", NotYaml, "not_yaml"),
        ("a: b: c\n", NotYaml, "not_yaml"),
        ("\ta: b\n", NotYaml, "not_yaml"),
        ("a: \x07\n", NotYaml, "not_yaml"),
        ("%YAML 2.0\n---\na: b\n", NotYaml, "not_yaml"),
        ("a: \ud800\n", NotYaml, "not_yaml"),
        ("a: b\n---\nc: d\n", MultiDocument, "multi_document"),
        ("a: b\n--- \n", MultiDocument, "multi_document"),
        ("a: b\n---\n[", MultiDocument, "multi_document"),
        ("a: &x b\n", AliasForbidden, "alias_forbidden"),
        ("&x a: b\n", AliasForbidden, "alias_forbidden"),
        ("a: *x\n", AliasForbidden, "alias_forbidden"),
        ("*x : a\n", AliasForbidden, "alias_forbidden"),
        ("a: &x [b]\n", AliasForbidden, "alias_forbidden"),
        ("&x\na: b\n", AliasForbidden, "alias_forbidden"),
        ("a: [b, &x c]\n", AliasForbidden, "alias_forbidden"),
        ("<<: {a: b}\n", AliasForbidden, "alias_forbidden"),
        ("a:\n  <<: b\n", AliasForbidden, "alias_forbidden"),
        ("a: !!str b\n", TagForbidden, "tag_forbidden"),
        ("a: ! b\n", TagForbidden, "tag_forbidden"),
        ("!x a: b\n", TagForbidden, "tag_forbidden"),
        ("!!map\na: b\n", TagForbidden, "tag_forbidden"),
        ("a: [!x b]\n", TagForbidden, "tag_forbidden"),
        ("a: !!binary aGVsbG8=\n", TagForbidden, "tag_forbidden"),
        ("%TAG ! tag:x,2026:\n---\na: b\n", TagForbidden, "tag_forbidden"),
        ("a: b\na: c\n", DuplicateKey, "duplicate_key"),
        ("a: b\n'a': c\n", DuplicateKey, "duplicate_key"),
        ("a: {b: c, b: d}\n", DuplicateKey, "duplicate_key"),
        ("a: [{b: c, \"b\": d}]\n", DuplicateKey, "duplicate_key"),
    ],
)  # fmt: skip
def test_what_could_mean_two_things_is_refused(text: str, refusal: type[Unreadable], code: str) -> None:
    with pytest.raises(refusal) as caught:
        read(text)

    assert (type(caught.value), caught.value.code) == (refusal, code)


def test_a_sender_given_twice_is_refused() -> None:
    """A10: PyYAML would keep the last of two `from:` without a word."""
    with pytest.raises(DuplicateKey, match=r"line 3: 'from' is given twice"):
        read("id: x\nfrom: alice\nfrom: bob\n")


def test_a_second_document_is_refused() -> None:
    """A11: what is appended after a signed message does not become part of it."""
    with pytest.raises(MultiDocument):
        read('id: x\nauth: "abc"\n---\nid: y\n')


def test_an_alias_bomb_is_refused_at_its_first_anchor(events_read: Callable[[], int]) -> None:
    """A62: a few hundred bytes that would unfold to nine to the ninth values."""
    assert len(BOMB) < 512

    with pytest.raises(AliasForbidden):
        read(BOMB)

    assert events_read() <= 6


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: " + "[" * 100_000, id="open brackets"),
        pytest.param("a: " + "[" * 4_000 + "]" * 4_000, id="closed brackets"),
        pytest.param("a: " + "{b: " * 50_000, id="braces"),
        pytest.param("".join(f"{' ' * n}a:\n" for n in range(500)), id="indentation"),
        pytest.param("a:\n" + "- " * 100_000, id="dashes"),
        pytest.param("? " * 100_000, id="question marks"),
    ],
)
def test_deep_nesting_is_refused_after_a_few_events(text: str, events_read: Callable[[], int]) -> None:
    """A63: 4 KB of brackets cost PyYAML's loader a RecursionError and seconds."""
    with pytest.raises((TooDeep, NotAMapping)) as caught:
        read(text)

    assert caught.value.code in {"too_deep", "not_a_mapping"}
    assert events_read() <= 3 * DEFAULT_LIMITS.yaml_depth


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system ['exit 1']\n",
        "!!python/object/new:os.system [x]\n",
        "a: !!python/name:os.system ''\n",
        "a: {b: !!python/module:os ''}\n",
        "!<tag:yaml.org,2002:python/object/apply:os.system> ['x']\n",
    ],
)
def test_a_tag_runs_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A83: the reader refuses tags on events, so nothing is ever constructed."""
    started: list[object] = []
    monkeypatch.setattr("os.system", started.append)

    with pytest.raises(TagForbidden):
        read(text)

    assert started == []


def nested(depth: int, opening: str, closing: str) -> str:
    """A document whose collections nest `depth` levels, the root mapping being the first."""
    return "a: " + opening * (depth - 1) + closing * (depth - 1) + "\n"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{b: ", "}")])
def test_sixteen_levels_are_read_and_seventeen_refused(opening: str, closing: str) -> None:
    read(nested(16, opening, closing))

    with pytest.raises(TooDeep, match="16 levels"):
        read(nested(17, opening, closing))


@pytest.mark.parametrize(
    ("exactly", "one_more"),
    [
        pytest.param(
            "a: [" + "x, " * 4_996 + "x]\n",
            "a: [" + "x, " * 4_997 + "x]\n",
            id="items",
        ),
        pytest.param(
            "a: [x]\n" + "".join(f"k{n}: v\n" for n in range(2_498)),
            "a: [x, x]\n" + "".join(f"k{n}: v\n" for n in range(2_498)),
            id="keys and values",
        ),
    ],
)
def test_five_thousand_nodes_are_read_and_one_more_refused(exactly: str, one_more: str) -> None:
    read(exactly)

    with pytest.raises(TooManyNodes, match="5000 values"):
        read(one_more)


def test_nodes_are_counted_before_anything_is_built(events_read: Callable[[], int]) -> None:
    with pytest.raises(TooManyNodes):
        read("a: [" + "x, " * 60_000 + "x]\n")

    assert events_read() <= DEFAULT_LIMITS.yaml_nodes + 5


def test_an_error_says_where_it_is() -> None:
    with pytest.raises(NotYaml, match=r"line 2, column"):
        read("a: b\nc: d: e\n")


@pytest.mark.parametrize("surprise", [RecursionError, ValueError, OverflowError])
def test_errors_that_pyyaml_lets_through_make_a_bad_file(
    surprise: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(text: str, Loader: type[yaml.Loader]) -> Iterator[yaml.Event]:  # noqa: N803
        if text:
            raise surprise("deep inside")
        yield yaml.StreamStartEvent()

    monkeypatch.setattr(yaml, "parse", failing)

    with pytest.raises(NotYaml, match="deep inside"):
        read("a: b\n")


YAML_BITS = st.one_of(
    st.sampled_from(
        ["a", "b: ", "- ", "? ", ": ", "[", "]", "{", "}", ",", "\n", "  ", "\t", "|", ">", "'", '"', "\\"]
    ),
    st.sampled_from(["&x ", "*x ", "!t ", "%", "#", "---\n", "...\n", "<<: ", "\ufeff", "\x85", "\u2028", "~", "null"]),
)


@PROPERTY
@given(st.one_of(st.text(), st.lists(YAML_BITS).map("".join)))
def test_any_text_is_read_or_refused_and_never_a_crash(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert isinstance(read(text), dict)


def test_a_located_document_has_the_line_of_every_key_and_item() -> None:
    text = "# first\na: 1\nb:\n  - x\n  - c: 'y'\n    d:\n      7\ne: {f: [g,\n  h]}\n"

    found = read_located(text, DEFAULT_LIMITS)

    assert found.fields == read(text)
    assert found.refusals == []
    assert found.places == {
        (): Place(2, plain=False),
        ("a",): Place(2, plain=True),
        ("b",): Place(3, plain=False),
        ("b", 0): Place(4, plain=True),
        ("b", 1): Place(5, plain=False),
        ("b", 1, "c"): Place(5, plain=False),
        ("b", 1, "d"): Place(6, plain=True),
        ("e",): Place(8, plain=False),
        ("e", "f"): Place(8, plain=False),
        ("e", "f", 0): Place(8, plain=True),
        ("e", "f", 1): Place(9, plain=True),
    }


def test_a_located_document_is_read_on_after_what_is_refused() -> None:
    found = read_located("a: &x 1\nb: *x\nc: !!int 2\nc: 3\nd: 4\n", DEFAULT_LIMITS)

    assert [(one.code, one.facts["line"]) for one in found.refusals] == [
        ("alias_forbidden", 1),
        ("alias_forbidden", 2),
        ("tag_forbidden", 3),
        ("duplicate_key", 4),
    ]
    assert found.fields["d"] == "4"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "not_a_mapping", 1),
        ("- a\n", "not_a_mapping", 1),
        ("a: 1\n---\nb: 2\n", "multi_document", 2),
        ("a: 1\nb: [\n", "not_yaml", 3),
        ("a: 1\n? [b]\n: c\n", "not_a_mapping", 2),
        ("a: 1\nb: " + "[" * 30 + "]" * 30 + "\n", "too_deep", 2),
        ("a: 1\nb: [" + "x, " * 6_000 + "]\n", "too_many_nodes", 2),
    ],
)
def test_what_ends_the_reading_of_a_located_document_has_its_line(text: str, code: str, line: int) -> None:
    found = read_located(text, DEFAULT_LIMITS)

    assert [(one.code, one.facts.get("line", 1)) for one in found.refusals] == [(code, line)]


@given(st.text(alphabet=st.sampled_from("ab:-? \n[]{},&*!'\"|>#%~"), max_size=60))
@PROPERTY
def test_a_document_is_refused_in_both_ways_of_reading_or_in_none(text: str) -> None:
    found = read_located(text, DEFAULT_LIMITS)

    if found.refusals:
        with pytest.raises(Unreadable) as caught:
            read(text)
        assert caught.value.code in {one.code for one in found.refusals}
    else:
        assert found.fields == read(text)
