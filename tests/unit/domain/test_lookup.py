"""A thing is found by its id, its name or the end of its id, and never by a silent choice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Ambiguous, NotFound
from parley.domain.lookup import SUFFIX_MIN_CHARS, Candidate, Noun, fits, is_id, list_candidates, pick

INTENT = Noun("intent", "intent", "parley intent list")
LAUNCH = Candidate("intent_01M7H16BJG2G0T7VFEFHN4GRSJ", ("Launch",), "active, by ann")
REPORT = Candidate("intent_01M7H16C2K5VXJ8Y6T4QZ0ABCD", ("Report",), "active, by bob")
OLD_LAUNCH = Candidate("intent_01M7H16A000000000000000LD1", ("Launch",), "completed, by ann", is_over=True)

_IDS = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26).map("intent_{}".format)
_TITLES = st.sampled_from(["Launch", "launch", "GRSJ", "Report", "Q1", "ABCD", "default"])
_CANDIDATES = st.lists(
    st.builds(Candidate, _IDS, st.tuples(_TITLES), st.just(""), st.booleans()), unique_by=lambda each: each.id
)


@pytest.mark.parametrize("text", ["Launch", "GRSJ", "grsj", "HN4GRSJ", LAUNCH.id])
def test_a_name_an_end_of_the_id_and_the_id_mean_the_same(text: str) -> None:
    assert pick(INTENT, text, [LAUNCH, REPORT]) is LAUNCH


def test_the_end_of_a_jobs_id_is_that_before_its_agent() -> None:
    letters = [Candidate(f"{LAUNCH.id}@bob"), Candidate(f"{REPORT.id}@carol"), Candidate(f"{REPORT.id}@bob")]

    assert pick(INTENT, "grsj", letters) is letters[0]
    with pytest.raises(Ambiguous, match="@carol"):
        pick(INTENT, "ABCD", letters)


@pytest.mark.parametrize("text", ["launch", "SJ", "RSJ", "_01M7H16BJG2G0T7VFEFHN4GRSJ", "Laun", ""])
def test_nothing_else_does(text: str) -> None:
    with pytest.raises(NotFound):
        pick(INTENT, text, [LAUNCH, REPORT])


def test_an_unknown_name_is_answered_with_similar_ones() -> None:
    with pytest.raises(NotFound) as lanch:
        pick(INTENT, "Lanch", [LAUNCH, REPORT], where=" that you can see")
    with pytest.raises(NotFound) as other:
        pick(INTENT, "zebra", [LAUNCH, REPORT])

    assert (lanch.value.message, lanch.value.hint) == ('no intent "Lanch" that you can see', 'did you mean "Launch"?')
    assert (other.value.message, other.value.hint) == ('no intent "zebra"', "see: parley intent list")


def test_a_name_that_two_have_is_refused_with_both() -> None:
    twin = LAUNCH._replace(id="intent_01M7H16BJG2G0T7VFEFHN4WXYZ", note="active, by eve")

    with pytest.raises(Ambiguous) as both:
        pick(INTENT, "Launch", [LAUNCH, REPORT, twin])

    assert (
        both.value.message == '"Launch" fits 2 intents: Launch [GRSJ] (active, by ann), Launch [WXYZ] (active, by eve)'
    )
    assert both.value.hint == "use the end of its id, in square brackets"


def test_a_title_belongs_to_the_intent_that_is_not_over() -> None:
    assert pick(INTENT, "Launch", [OLD_LAUNCH, LAUNCH]) is LAUNCH
    assert pick(INTENT, "Launch", [OLD_LAUNCH]) is OLD_LAUNCH


def test_a_name_of_one_that_is_the_end_of_another_id_is_refused() -> None:
    with pytest.raises(Ambiguous):
        pick(INTENT, "ABCD", [REPORT, LAUNCH._replace(names=("ABCD",))])


def test_candidates_are_told_apart_by_as_much_of_the_id_as_it_takes() -> None:
    near = LAUNCH._replace(id="intent_01M7H16BJG2G0T7VFEFHZ4GRSJ")
    many = [Candidate(f"intent_{number:026d}", ("x",)) for number in range(7)]

    assert list_candidates([LAUNCH, near]) == "Launch [N4GRSJ] (active, by ann), Launch [Z4GRSJ] (active, by ann)"
    assert list_candidates(many) == "x [0000], x [0001], x [0002], x [0003], x [0004] and 2 more"


@given(candidates=_CANDIDATES, text=st.one_of(_TITLES, _IDS.map(lambda text: text[-SUFFIX_MIN_CHARS:])))
def test_what_is_picked_is_the_only_one_that_fits(candidates: list[Candidate], text: str) -> None:
    fitting = [candidate for candidate in candidates if fits(text, candidate)]
    present = [candidate for candidate in fitting if not candidate.is_over]
    chosen = fitting if len(fitting) == 1 else present
    if len(chosen) == 1:
        assert pick(INTENT, text, candidates) is chosen[0]
    else:
        with pytest.raises(Ambiguous if fitting else NotFound):
            pick(INTENT, text, candidates)


@given(candidates=_CANDIDATES)
def test_an_id_in_full_and_every_listed_end_find_their_own(candidates: list[Candidate]) -> None:
    for candidate in candidates:
        assert is_id(candidate.id, "intent")
        assert pick(INTENT, candidate.id, candidates) is candidate
