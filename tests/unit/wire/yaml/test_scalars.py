"""Where the reader of scalars answers, it answers what the strict reader would."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley.adapters.files import seeds
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.wire.yaml.scalars import read_scalars
from parley.wire.yaml.strict import read_strict
from tests.samples.messages import PROPERTY
from tests.unit.wire.yaml.test_plain import LINES, VALUES, mutated

CARD = seeds.card("reviewer", "claude", "", "Reads changes: all of them")


def assert_agreement(text: str, limits: Limits = DEFAULT_LIMITS) -> bool:
    """The strict reader gives the same scalars; whether any were given."""
    scalars = read_scalars(text, limits)
    if scalars is None:
        return False
    assert {key: value for key, value in read_strict(text, limits).items() if isinstance(value, str)} == scalars
    return True


@st.composite
def near_cards(draw: st.DrawFn) -> str:
    """Rows of the three levels in any order, with odd values and odd lines among them."""
    value = st.one_of(st.sampled_from(["", "b", '"c d"', "[]", "{}", "null"]), st.sampled_from(VALUES))
    key = st.sampled_from(["a", "b", "c", "d1"])
    row = st.one_of(
        st.builds("{}: {}".format, key, value),
        st.builds("{}:".format, key),
        st.builds("  {}: {}".format, key, value),
        st.builds("  {}:".format, key),
        st.builds("{}  - {}".format, st.sampled_from(["", "  "]), value),
        st.builds("{}  {}: {}".format, st.sampled_from(["", " ", "  "]), key, value),
        st.sampled_from(["", "# a comment", *LINES]),
    )
    return "\n".join(draw(st.lists(row, max_size=7))) + draw(st.sampled_from(["", "\n"]))


def test_a_card_that_parley_wrote_is_read_without_a_parser() -> None:
    scalars = read_scalars(CARD, DEFAULT_LIMITS)

    assert scalars is not None
    assert (scalars["name"], scalars["runtime"]) == ("reviewer", "claude")
    assert assert_agreement(CARD)


def test_the_status_that_parley_writes_is_read_without_a_parser() -> None:
    assert assert_agreement(seeds.status("claude", "", datetime(2026, 1, 2, tzinfo=UTC)))


@PROPERTY
@given(near_cards())
@example("a: b\n  c: d\n")
@example("a:\n  b: c\n  b: d\n")
@example("a:\nb:\n    - c\n")
@example("a:\n  b: c\n    - d\n")
@example("a: [] \n")
@example("a:\n  - b\n  c: d\n")
@example("a:\n  b: c\n  - d\n")
def test_a_file_near_the_form_of_a_card_is_read_as_the_strict_reader_reads_it(text: str) -> None:
    assert_agreement(text)


@PROPERTY
@given(mutated(CARD))
def test_a_damaged_card_is_read_as_the_strict_reader_reads_it(text: str) -> None:
    assert_agreement(text)


@pytest.mark.parametrize("limits", [DEFAULT_LIMITS._replace(yaml_nodes=9), DEFAULT_LIMITS._replace(yaml_depth=2)])
def test_a_file_that_could_be_too_large_is_left_to_the_strict_reader(limits: Limits) -> None:
    assert read_scalars("a: b\n\n\n\nc:\n", limits) is None
