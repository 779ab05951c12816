"""Tables fit the terminal: what is dropped, what is cut, and how ids are shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.cli.output import UNLIMITED
from parley.cli.table import (
    ALWAYS,
    SUFFIX_MIN_CHARS,
    Column,
    ColumnKind,
    id_column,
    short_ids,
    table_lines,
    text_column,
)
from parley.cli.width import cut, display_width, wrap
from parley.domain import lookup
from parley.domain.lookup import Candidate, Noun, pick

# Wide, combining, right to left, joined and narrow emoji, controls, line ends, half of a surrogate pair.
ODD = (
    "aZ é" "e\u0301\u0302" "漢한ﾊ" "אب\u202e\u200f" "👩\u200d👧" "☀\ufe0f" "🇩🇪" "👍🏽"
    "\x1b[2J" "\x00\x7f\x9b\n\r\t\u2028\udcff" "…"
)  # fmt: skip
TEXTS = st.text(ODD, max_size=60)
COLUMNS = st.builds(
    Column,
    head=st.sampled_from(("ID", "AGE", "LAST MESSAGE", "PAYLOAD")),
    cell=st.just(str),
    importance=st.integers(1, ALWAYS),
    kind=st.sampled_from(ColumnKind.ALL),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[list[str]]]:
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=8))
    rows = draw(st.integers(0, 3))
    return columns, [draw(st.lists(TEXTS, min_size=rows, max_size=rows)) for _ in columns]


def columns_taken(line: str) -> int:
    """An upper bound of the columns that a line takes, character by character."""
    taken = 0
    for character in line:
        if unicodedata.category(character) in ("Mn", "Me", "Cf") and character != "\ufe0f":
            continue
        taken += 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
    return taken


@given(tables(), st.integers(40, 200))
def test_no_line_is_wider_than_the_terminal(table: tuple[list[Column], list[list[str]]], width: int) -> None:
    columns, cells = table

    lines = table_lines(columns, cells, width)

    assert len(lines) == 1 + len(cells[0])
    for line in lines:
        assert columns_taken(line) <= width
        assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in line)


@given(tables())
def test_without_a_terminal_nothing_is_cut_or_left_out(table: tuple[list[Column], list[list[str]]]) -> None:
    columns, cells = table

    lines = table_lines(columns, cells, UNLIMITED)

    shown = [column.head for column, texts in zip(columns, cells, strict=True) if not {*texts} <= {"", "-"}]
    assert all(head in lines[0] for head in shown)
    assert sum(line.count("…") for line in lines) == sum(cell.count("…") for texts in cells for cell in texts)


def heads(columns: list[Column], rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    line = table_lines(columns, [list(texts) for texts in zip(*rows, strict=True)], width)[0]
    return [column.head for column in columns if column.head in line.split()]


MESSAGES = [
    Column("#", str, 2),
    Column("AGE", str, 6),
    Column("TYPE", str, 4),
    Column("FROM", str, ALWAYS),
    Column("TO", str, 7),
    Column("STATUS", str, 5, usual="delivered"),
    id_column("ID", str, 8),
    text_column("PAYLOAD", str),
]
ROW = ("1", "13m", "request", "ann-bot", "bob-bot", "delivered", "msg_01M7JZ32CNP1XX48V1HCYGV75R", "How is it? " * 9)
REFUSED = (*ROW[:5], "denied", *ROW[6:])


def test_columns_are_dropped_by_their_importance() -> None:
    rows = [ROW, REFUSED]

    assert heads(MESSAGES, rows, 120) == ["#", "AGE", "TYPE", "FROM", "TO", "STATUS", "ID", "PAYLOAD"]
    assert heads(MESSAGES, rows, 75) == ["AGE", "TYPE", "FROM", "TO", "STATUS", "ID", "PAYLOAD"]
    assert heads(MESSAGES, rows, 60) == ["AGE", "FROM", "TO", "ID", "PAYLOAD"]
    assert heads(MESSAGES, rows, 40) == ["FROM", "ID", "PAYLOAD"]


def test_a_column_that_says_nothing_new_is_left_out() -> None:
    assert heads(MESSAGES, [ROW, ROW], 200) == ["#", "AGE", "TYPE", "FROM", "TO", "ID", "PAYLOAD"]
    assert "STATUS" in heads(MESSAGES, [ROW, ROW], UNLIMITED)


def test_a_text_is_cut_before_a_column_is_dropped() -> None:
    lines = table_lines(MESSAGES, [[cell] for cell in REFUSED], 80)

    assert lines == [
        "#  AGE  TYPE     FROM     TO       STATUS  ID    PAYLOAD",
        "1  13m  request  ann-bot  bob-bot  denied  V75R  How is it? How is it? How is i…",
    ]


def test_columns_of_wide_characters_are_aligned() -> None:
    columns = [Column("NAME", str, ALWAYS), text_column("TITLE", str)]

    lines = table_lines(columns, [["漢字", "e\u0301a", "bob"], ["one", "two", "three"]], 80)

    assert lines == ["NAME  TITLE", "漢字  one", "e\u0301a    two", "bob   three"]


IDS = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26)
# Few letters, so that ends are often shared.
ALIKE = st.text("AB", min_size=26, max_size=26)


@given(st.lists(st.one_of(IDS, ALIKE), unique=True, max_size=30))
def test_the_shown_end_of_an_id_means_that_one_alone(bodies: list[str]) -> None:
    ids = [f"msg_{body}" for body in bodies]
    candidates = [Candidate(name) for name in ids]

    shorts = short_ids(ids)

    assert [pick(Noun("message", "msg", ""), short, candidates).id for short in shorts] == ids
    assert len({len(short) for short in shorts}) <= 1


MAILBOX_IDS = st.builds(
    "msg-20260313T143{}Z-{}-{}".format,
    st.integers(0, 9),
    st.sampled_from(("ann", "bob", "al-ice")),
    st.text("ab", min_size=4, max_size=4),
)


@given(st.lists(MAILBOX_IDS, unique=True))
def test_the_shown_end_of_a_mailbox_id_means_that_one_alone(ids: list[str]) -> None:
    for short, whole in zip(short_ids(ids), ids, strict=True):
        assert [name for name in ids if name == short or name.endswith(f"-{short}")] == [whole]


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        (["msg_01M7JZ32CNP1XX48V1HCYGV75R"], ["V75R"]),
        (["msg_01M7JZ32CNP1XX48V1HCYGV75R@bob"], ["V75R"]),
        (
            ["msg_01M7JZ32CNP1XX48V1HCYGV75R@bob", "msg_01M7JZ32CNP1XX48V1HCYGV75R@amy"],
            ["msg_01M7JZ32CNP1XX48V1HCYGV75R@bob", "msg_01M7JZ32CNP1XX48V1HCYGV75R@amy"],
        ),
        (["msg-20260313T1430Z-claude-a8f3"], ["a8f3"]),
        (["msg-20260313T1430Z-ann-a8f3", "msg-20260313T1430Z-bob-a8f3"], ["ann-a8f3", "bob-a8f3"]),
        (["id-x", "plain", "-"], ["id-x", "plain", "-"]),
        (["-", "exch_01M7JZ32CNP1XX48V1HCYGV75R"], ["-", "V75R"]),
        ([], []),
    ],
)
def test_ids_are_shown_by_their_shortest_ends(ids: list[str], shown: list[str]) -> None:
    assert short_ids(ids) == shown


def test_tables_and_lookups_agree_on_the_shortest_end() -> None:
    assert SUFFIX_MIN_CHARS == lookup.SUFFIX_MIN_CHARS


@given(TEXTS, st.integers(0, 40))
def test_a_cut_text_fits_its_room(text: str, room: int) -> None:
    assert display_width(cut(text, room)) <= room
    assert cut(text, display_width(text)) == text


@given(st.lists(st.text("ab漢", min_size=1, max_size=30), min_size=1), st.integers(10, 80))
def test_wrapping_breaks_no_word(words: list[str], width: int) -> None:
    lines = wrap(" ".join(words), width, "  ")

    assert " ".join(lines).split() == words
    assert all(display_width(line) <= width or len(line.split()) == 1 for line in lines)
