"""An agent is told once, and goes on only while it makes progress: no loop is without end."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parley.domain.mailbox.attention import CONTINUATIONS_PER_TURN, AgentSession, AttentionDecision, decide
from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, Moment, WaitingMessage, mentionable
from tests.samples.messages import NOW

SESSION = AgentSession(id="s1", tenant_id="", harness="codex", session="s1")
LIMITS = AttentionLimits()
QUESTION = WaitingMessage("m1", "P2", needs_answer=True)
NEWS = WaitingMessage("m2", "P3")
URGENT = WaitingMessage("m3", "P1")


def an_event(moment: Moment, turn: str = "t1", source: str = "", *, continued: bool = False) -> HookEvent:
    return HookEvent("codex", moment, "s1", turn, source, continued)


def decided(
    event: HookEvent,
    *waiting: WaitingMessage,
    session: AgentSession = SESSION,
    others: tuple[str, ...] = (),
    limits: AttentionLimits = LIMITS,
    now: datetime = NOW,
    minute: int = 720,
) -> AttentionDecision:
    mentioned = mentionable(event, waiting, ())
    return decide(event, session, mentioned, [message.id for message in waiting], others, limits, now, minute)


def test_a_notice_records_the_event_of_the_session() -> None:
    session = decided(an_event(Moment.TOOL), URGENT).session

    assert session is not None
    assert (session.last_event, session.at[:16]) == ("tool", "2026-03-13T14:30")


def test_an_agent_goes_on_for_what_needs_an_answer_and_for_nothing_else() -> None:
    assert decided(an_event(Moment.STOP), NEWS, URGENT).messages == ()
    decision = decided(an_event(Moment.STOP), NEWS, QUESTION)
    assert (decision.messages, decision.goes_on) == (("m1",), True)


def test_without_progress_it_is_let_go() -> None:
    first = decided(an_event(Moment.STOP), QUESTION).session
    assert first is not None

    assert decided(an_event(Moment.STOP), QUESTION, session=first).reason == "no progress since the last time"
    # A message that came meanwhile is no progress of the agent.
    more = WaitingMessage("m9", "P0", needs_answer=True)
    assert decided(an_event(Moment.STOP), QUESTION, more, session=first).reason == "no progress since the last time"


def test_with_progress_it_goes_on_and_in_a_new_turn_too() -> None:
    first = decided(an_event(Moment.STOP), QUESTION).session
    assert first is not None
    more = WaitingMessage("m9", "P2", needs_answer=True)

    assert decided(an_event(Moment.STOP), more, session=first).goes_on
    assert decided(an_event(Moment.STOP, turn="t2"), QUESTION, session=first).goes_on


def test_without_the_name_of_a_turn_the_first_stop_begins_one() -> None:
    first = decided(an_event(Moment.STOP, turn=""), QUESTION).session
    assert first is not None

    assert not decided(an_event(Moment.STOP, turn="", continued=True), QUESTION, session=first).goes_on
    assert decided(an_event(Moment.STOP, turn=""), QUESTION, session=first).goes_on


def test_the_hour_is_counted_over_all_sessions() -> None:
    others = tuple(f"2026-03-13T14:{minute:02d}:00.000000Z" for minute in range(12))

    assert decided(an_event(Moment.STOP), QUESTION, others=others).reason == "too often in this hour"
    assert decided(an_event(Moment.STOP), QUESTION, others=others, now=NOW + timedelta(hours=2)).goes_on
    assert not decided(an_event(Moment.STOP), QUESTION, limits=AttentionLimits(per_hour=0)).goes_on


@pytest.mark.parametrize(("minute", "goes_on"), [(1319, True), (1320, False), (0, False), (419, False), (420, True)])
def test_in_quiet_hours_an_agent_may_go_idle(minute: int, goes_on: bool) -> None:
    limits = AttentionLimits(quiet=(1320, 420))

    assert decided(an_event(Moment.STOP), QUESTION, limits=limits, minute=minute).goes_on is goes_on
    assert decided(an_event(Moment.START), QUESTION, limits=limits, minute=minute).messages


class EndlessStops(RuleBasedStateMachine):
    """Mail comes, is answered or not, turns begin, time passes, and the agent tries to stop again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.session = SESSION
        self.now = NOW
        self.turn = 0
        self.waiting: list[WaitingMessage] = []
        self.count = 0
        self.in_turn: list[datetime] = []
        self.all: list[datetime] = []
        self.without_progress = 0

    @rule(needs=st.booleans())
    def arrives(self, needs: bool) -> None:
        self.count += 1
        self.waiting.append(WaitingMessage(f"m{self.count}", "P2", needs_answer=needs))

    @rule()
    def is_answered(self) -> None:
        if self.waiting:
            self.waiting.pop(0)
            self.without_progress = 0

    @rule()
    def begins_a_turn(self) -> None:
        self.turn += 1
        self.in_turn.clear()
        self.without_progress = 0

    @rule(minutes=st.integers(min_value=0, max_value=90))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(times=st.integers(min_value=1, max_value=30))
    def stops(self, times: int) -> None:
        for _ in range(times):
            event = HookEvent("codex", Moment.STOP, "s1", f"t{self.turn}", continued=bool(self.in_turn))
            mentioned = mentionable(event, self.waiting, ())
            ids = {message.id for message in self.waiting}
            decision = decide(event, self.session, mentioned, ids, (), AttentionLimits(), self.now, 0)
            if not decision.goes_on:
                assert bool(decision.reason) == bool(mentioned)
                continue
            assert decision.session is not None
            assert {message.id for message in self.waiting if message.needs_answer} == {*decision.messages}
            self.session = decision.session
            self.in_turn.append(self.now)
            self.all.append(self.now)
            self.without_progress += 1

    @invariant()
    def it_ends(self) -> None:
        assert len(self.in_turn) <= CONTINUATIONS_PER_TURN
        assert sum(self.now - at < timedelta(hours=1) for at in self.all) <= AttentionLimits().per_hour
        # Once for what waits, and not again before something is done about it.
        assert self.without_progress <= 1


EndlessStops.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestEndlessStops = EndlessStops.TestCase
