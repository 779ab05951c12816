"""How far an agent has come: what a restart leaves out, and what it takes up again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parley.sdk.agent.server.progress import Mark, Progress
from tests.samples.messages import PROPERTY


def test_a_stream_begins_behind_the_mark() -> None:
    assert Mark(7).begin == 7


def test_a_stream_begins_before_the_first_place_that_is_open() -> None:
    assert Mark(9, (4, 6)).begin == 3


def test_what_lies_behind_the_mark_is_left_out_unless_it_is_open() -> None:
    progress = Progress(Mark(9, (4,)))

    assert [one for one in range(1, 12) if progress.is_open(one)] == [4, 10, 11]


def test_a_slow_one_holds_nobody_up() -> None:
    progress = Progress(Mark(0))
    for position in (1, 5, 9):
        progress.start(position)

    progress.finish(5)
    progress.finish(9)

    assert progress.mark() == Mark(9, (1,))


def test_only_what_was_finished_is_news() -> None:
    progress = Progress(Mark(0))
    progress.start(3)
    begun = progress.unsaved

    progress.finish(3)
    finished = progress.unsaved
    progress.mark()

    assert (begun, finished, progress.unsaved) == (False, True, False)


@PROPERTY
@given(
    st.lists(st.integers(1, 60), unique=True, min_size=1).map(sorted),
    st.data(),
)
def test_whoever_goes_on_behind_a_mark_gets_exactly_what_was_not_finished(
    places: list[int], data: st.DataObject
) -> None:
    # given some places of a stream, taken in their order and finished in any
    progress = Progress(Mark(0))
    taken = data.draw(st.integers(0, len(places)))
    for position in places[:taken]:
        progress.start(position)
    finished = set(data.draw(st.permutations(places[:taken]))[: data.draw(st.integers(0, taken))])
    for position in finished:
        progress.finish(position)

    # when another process goes on behind the mark
    mark = progress.mark()
    again = Progress(mark)
    shown = [one for one in places if one > mark.begin and again.is_open(one)]

    # then it gets the others, each once
    assert shown == [one for one in places if one not in finished]
