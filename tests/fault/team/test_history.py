"""The checker finds what it is there to find: each rule is broken once, by hand."""

from dataclasses import replace

import pytest

from tests.fault.team.history import EVERYONE, History, Listing, Send, Sight, Stream, check


def a_sight(seq: int, sender: str = "s", number: int = 0, to: str = EVERYONE) -> Sight:
    return Sight(seq, f"msg_{seq}", sender, number or seq, to, f"hash {number or seq}")


def a_history() -> History:
    """Three messages, the second one only for r; all answered in turn, listed and streamed."""
    final = (a_sight(1), a_sight(2, to="r"), a_sight(3))
    sends = [Send("s", one.number, one.to, one.seq * 10.0, one.seq * 10.0 + 1, one, answers=[one]) for one in final]
    listings = [Listing("r", 50.0, 0, final, whole=True), Listing("q", 50.0, 0, (final[0], final[2]), whole=True)]
    streams = [Stream("r", list(final), [11, 12, 13]), Stream("q", [final[0], final[2]], [11, 13])]
    return History(sends, listings, streams, final)


def test_a_history_without_fault_breaks_no_rule() -> None:
    assert check(a_history()) == []


def lose_one(history: History) -> None:
    history.final = (history.final[0], history.final[2])


def double_one(history: History) -> None:
    history.final += (a_sight(4, number=3),)


def invent_one(history: History) -> None:
    history.final += (a_sight(4, sender="ghost"),)


def keep_a_refused_one(history: History) -> None:
    history.sends[1].refused = True


def swap_the_order(history: History) -> None:
    history.sends[0] = replace(history.sends[0], began=100.0, ended=101.0)


def answer_twice_differently(history: History) -> None:
    history.sends[0].answers.append(a_sight(9, number=1)._replace(id="msg_1"))


def list_with_a_gap(history: History) -> None:
    history.listings[0] = history.listings[0]._replace(found=(history.final[0], history.final[2]))


def list_what_is_old(history: History) -> None:
    history.listings[0] = history.listings[0]._replace(found=history.final[:1])


def list_what_is_not_for_one(history: History) -> None:
    history.listings[1] = history.listings[1]._replace(found=history.final)


def stream_with_a_gap(history: History) -> None:
    del history.streams[0].seen[1]


def stream_twice(history: History) -> None:
    history.streams[0].seen.insert(1, history.final[0])
    history.streams[0].positions.insert(1, 11)


def stream_what_is_not_for_one(history: History) -> None:
    history.streams[1].seen.insert(1, history.final[1])


@pytest.mark.parametrize(
    ("breach", "rule"),
    [
        (lose_one, "I3"),
        (double_one, "I4"),
        (invent_one, "I4"),
        (keep_a_refused_one, "I4"),
        (swap_the_order, "I2"),
        (answer_twice_differently, "I1"),
        (list_with_a_gap, "I6"),
        (list_what_is_old, "I5"),
        (list_what_is_not_for_one, "I6"),
        (stream_with_a_gap, "I7"),
        (stream_twice, "I7"),
        (stream_what_is_not_for_one, "I7"),
    ],
)
def test_each_breach_is_found_under_the_name_of_its_rule(breach: object, rule: str) -> None:
    history = a_history()
    breach(history)  # type: ignore[operator]

    assert rule in {line.split(":")[0] for line in check(history)}
