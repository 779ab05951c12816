"""Who owes an answer: by kind, parent, conversation and time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.domain.mailbox.listing import Item
from parley.domain.mailbox.waiting import FIRST_ANSWER, expects_answer, owed_answers
from parley.domain.message.kinds import Kind
from parley.domain.times import parse_time

AT = "2026-03-13T14:30:00Z"
LATER = "2026-03-13T14:40:00Z"
NOW = parse_time(LATER)


def sent(kind: Kind = Kind.QUESTION, *to: str, priority: str = "P2", expired: bool = False) -> Item:
    who = to or ("codex",)
    return Item("m1", "claude", who, kind.value, priority, AT, "s", "", "conv-1", "", "f.yaml", "sent", expired)


def reply(
    kind: Kind = Kind.NOTIFICATION, sender: str = "codex", parent: str = "m1", at: str = LATER, talk: str = "conv-1"
) -> Item:
    return Item("r1", sender, ("claude",), kind.value, "P2", at, "Re: s", "", talk, parent, "r.yaml")


def test_the_kinds_that_expect_an_answer_are_those_of_the_specification() -> None:
    silent = {Kind.NOTIFICATION, Kind.FOLLOW_UP, Kind.HANDOFF_COMPLETE, Kind.REVIEW_LGTM}

    assert {kind for kind in Kind if not expects_answer(kind)} == silent


@pytest.mark.requirement("S1-EXPECTED-RESPONSE-OWED")
def test_every_recipient_owes_an_answer_of_its_own() -> None:
    owed = owed_answers(sent(Kind.QUESTION, "codex", "gemini", "claude"), [reply()], NOW)

    assert [(answer.agent, answer.expected) for answer in owed] == [("gemini", ("notification", "follow_up"))]


@pytest.mark.parametrize(
    ("item", "answer", "settled"),
    [
        (sent(), reply(), True),
        (sent(), reply(sender="gemini"), False),
        (sent(), reply(parent="other"), False),
        (sent(), reply(parent=""), True),
        (sent(), reply(parent="", talk="conv-2"), False),
        (sent(), reply(parent="", at="2026-03-13T14:20:00Z"), False),
        (sent(Kind.HANDOFF), reply(), False),
        (sent(Kind.HANDOFF), reply(Kind.HANDOFF_COMPLETE), True),
        (sent(Kind.REVIEW_ADDRESSED), reply(Kind.REVIEW_LGTM, parent="other"), True),
        (sent(Kind.REVIEW_REQUEST), reply(Kind.QUESTION), False),
        (sent(expired=True), reply(parent="other"), True),
    ],
)
def test_an_answer_settles_what_it_answers(item: Item, answer: Item, settled: bool) -> None:
    assert (owed_answers(item, [answer], NOW) == []) is settled


@pytest.mark.parametrize("priority", ["P0", "P1", "P2", "P3"])
def test_a_first_answer_is_late_after_the_time_of_its_priority(priority: str) -> None:
    item, length = sent(Kind.HANDOFF, priority=priority), FIRST_ANSWER.get(priority)
    since = parse_time(AT)
    if length is None:
        assert not owed_answers(item, [], since + timedelta(days=365))[0].late
        return

    in_time, late = (owed_answers(item, [], since + length + timedelta(seconds=more))[0] for more in (0, 1))
    (acknowledged,) = owed_answers(item, [reply()], since + length + timedelta(seconds=1))

    assert (in_time.late, late.late) == (False, True)
    assert (acknowledged.late, acknowledged.acknowledged_by) == (False, "r1")


def test_the_times_are_those_of_the_specification() -> None:
    assert {name: length.total_seconds() / 3600 for name, length in FIRST_ANSWER.items()} == {
        "P0": 2,
        "P1": 24,
        "P2": 48,
    }
