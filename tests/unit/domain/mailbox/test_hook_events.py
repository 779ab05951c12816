"""What may be mentioned at an event, and that quiet hours are a span of the day."""

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.mailbox.hook_events import HookEvent, Moment, WaitingMessage, mentionable, parse_quiet_hours

QUESTION = WaitingMessage("m1", "P2", needs_answer=True)
NEWS = WaitingMessage("m2", "P3")
URGENT = WaitingMessage("m3", "P1")
ANSWER = WaitingMessage("m4", "P2", answers_us=True)
ALL = [QUESTION, NEWS, URGENT, ANSWER]


def mentioned(moment: Moment, *noticed: str, source: str = "") -> list[str]:
    return [message.id for message in mentionable(HookEvent("codex", moment, "s1", "t1", source), ALL, noticed)]


@pytest.mark.parametrize("moment", [Moment.START, Moment.PROMPT])
def test_a_start_and_a_prompt_mention_everything_once(moment: Moment) -> None:
    assert mentioned(moment) == ["m1", "m2", "m3", "m4"]
    assert mentioned(moment, "m1", "m3") == ["m2", "m4"]


def test_between_tools_only_what_is_urgent_and_answers_are_mentioned_once() -> None:
    assert mentioned(Moment.TOOL) == ["m3", "m4"]
    assert mentioned(Moment.TOOL, "m3") == ["m4"]


def test_at_a_stop_what_needs_an_answer_is_mentioned_again() -> None:
    assert mentioned(Moment.STOP, "m1") == ["m1"]


@pytest.mark.parametrize("source", ["compact", "clear", "resume"])
def test_a_session_that_has_forgotten_is_told_again(source: str) -> None:
    assert mentioned(Moment.START, "m1", "m2", "m3", source=source) == ["m1", "m2", "m3", "m4"]
    assert mentioned(Moment.START, "m1", "m2", "m3", source="startup") == ["m4"]


@pytest.mark.parametrize(
    ("text", "span"),
    [("", None), ("22:00-07:00", (1320, 420)), ("9:05 - 9:06", (545, 546)), ("00:00-23:59", (0, 1439))],
)
def test_quiet_hours_are_read_as_minutes_of_the_day(text: str, span: object) -> None:
    assert parse_quiet_hours(text) == span


@pytest.mark.parametrize(
    "text", ["22:00", "22-7", "24:00-07:00", "1:60-2:00", "a:b-c:d", "-", "٢:00-3:00", "001:00-2:00x"]
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_quiet_hours(text)
