"""An idle agent is woken in one session, for what matters, and never without end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parley.domain.mailbox.attention import AgentSession, SessionState
from parley.domain.mailbox.hook_events import AttentionLimits, WaitingMessage, Wake, wakeable
from parley.domain.mailbox.wake import (
    RING_TRIES,
    RingLease,
    WakeDecision,
    begin_ring,
    can_be_woken,
    decide_wake,
    end_ring,
    is_busy,
    is_held,
    live_sessions,
    retry_ring,
)
from parley.domain.times import stamp
from tests.samples.messages import NOW

SESSION = AgentSession(id="s1", tenant_id="", harness="claude", session="s1", at=stamp(NOW))
LIMITS = AttentionLimits()
QUESTION = WaitingMessage("m1", "P2", needs_answer=True)
MORE = WaitingMessage("m2", "P2", needs_answer=True)


def decided(
    *messages: WaitingMessage,
    session: AgentSession = SESSION,
    waiting: set[str] | None = None,
    others: tuple[str, ...] = (),
    limits: AttentionLimits = LIMITS,
    now: datetime = NOW,
    minute: int = 720,
) -> WakeDecision:
    ids = {message.id for message in messages} if waiting is None else waiting
    return decide_wake(session, messages, ids, others, limits, now, minute)


def woken(session: AgentSession = SESSION, *messages: WaitingMessage) -> AgentSession:
    after = decided(*(messages or (QUESTION,)), session=session).session
    assert after is not None
    return after


def test_what_needs_an_answer_is_urgent_or_answers_us_wakes_and_other_news_do_not() -> None:
    answer, urgent = WaitingMessage("a", "P2", answers_us=True), WaitingMessage("u", "P1")
    waiting = [WaitingMessage("n", "P2"), answer, QUESTION, urgent]

    assert wakeable(waiting, ()) == [answer, QUESTION, urgent]
    assert wakeable(waiting, {"a", "m1"}) == [urgent]


def test_a_wake_up_counts_in_the_hour_of_all_sessions() -> None:
    session = woken()

    assert (session.woken_with, session.woken_at, len(session.continued_at)) == (("m1",), stamp(NOW), 1)
    others = tuple(stamp(NOW - timedelta(minutes=minute)) for minute in range(12))
    assert decided(QUESTION, others=others).reason == "too often in this hour"
    assert decided(QUESTION, others=others, now=NOW + timedelta(hours=2)).messages == ("m1",)
    assert decided(QUESTION, limits=AttentionLimits(per_hour=0)).reason == "too often in this hour"


def test_an_agent_that_did_nothing_is_not_woken_by_more_mail_for_ten_minutes() -> None:
    session = woken()
    waiting = {"m1", "m2"}

    assert decided(MORE, session=session, waiting=waiting).reason == "no progress since the last time"
    assert decided(MORE, session=session, waiting={"m2"}).messages == ("m2",)
    later = NOW + timedelta(minutes=10)
    assert decided(MORE, session=session, waiting=waiting, now=later).messages == ("m2",)


@pytest.mark.parametrize(("minute", "is_woken"), [(1319, True), (1320, False), (419, False), (420, True)])
def test_in_quiet_hours_nobody_is_woken(minute: int, is_woken: bool) -> None:
    decision = decided(QUESTION, limits=AttentionLimits(quiet=(1320, 420)), minute=minute)

    assert bool(decision.messages) is is_woken


@pytest.mark.parametrize(
    ("wake", "attended", "harness", "can"),
    [
        (Wake.ATTENDED, True, "claude", True),
        (Wake.ATTENDED, False, "claude", False),
        (Wake.ALWAYS, False, "codex", True),
        (Wake.NEVER, True, "codex", False),
        (Wake.ALWAYS, True, "gemini", False),
    ],
)
def test_the_settings_and_the_program_say_who_can_be_woken(wake: Wake, attended: bool, harness: str, can: bool) -> None:
    assert can_be_woken(replace(SESSION, attended=attended, harness=harness), wake) is can


def test_sessions_that_have_ended_are_passed_over_and_the_last_active_is_first() -> None:
    def session(name: str, minutes: int, **changes: object) -> AgentSession:
        at = stamp(NOW - timedelta(minutes=minutes))
        return replace(SESSION, id=name, at=at, **changes)  # type: ignore[arg-type]

    rows = [
        session("old", 50),
        session("new", 5),
        session("ended", 1, state=SessionState.ENDED),
        session("killed", 2, process="7:1:x"),
        session("silent", 13 * 60),
        session("silent but there", 13 * 60, process="8:1:x"),
    ]

    live = live_sessions(rows, lambda mark: mark == "7:1:x", NOW)

    assert [row.id for row in live] == ["new", "old", "silent but there"]


def test_a_session_at_work_is_not_rung_for_two_minutes() -> None:
    working = replace(SESSION, state=SessionState.WORKING)

    assert is_busy(working, NOW)
    assert not is_busy(working, NOW + timedelta(minutes=2))
    assert not is_busy(SESSION, NOW)


def test_a_ring_is_held_tried_again_and_given_up() -> None:
    def never(_mark: str) -> bool:
        return False

    free = RingLease(id="ring", tenant_id="")
    now = NOW
    lease = begin_ring(free, "1:1:x", "s1", ("f1",), now)
    assert is_held(lease, never, now)
    assert not is_held(lease, lambda mark: mark == "1:1:x", now)
    assert not is_held(free, never, now)
    assert not end_ring(lease, now, succeeded=True).files

    tries = 1
    while (failed := end_ring(lease, now, succeeded=False)).files:
        assert is_held(failed, never, now)
        now += timedelta(minutes=5)
        assert not is_held(failed, never, now)
        again = retry_ring(failed, "2:1:x", now)
        assert again is not None
        assert (again.session, again.files) == ("s1", ("f1",))
        lease, tries = again, tries + 1
    assert tries == RING_TRIES
    assert retry_ring(lease, "2:1:x", now) is None


class EndlessMail(RuleBasedStateMachine):
    """Mail comes and comes, is dealt with or not, and time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.session = SESSION
        self.now = NOW
        self.waiting: dict[str, WaitingMessage] = {}
        self.mentioned: set[str] = set()
        self.count = 0
        self.wakes: list[datetime] = []

    @rule(needs=st.booleans(), priority=st.sampled_from(["P0", "P2"]))
    def arrives(self, needs: bool, priority: str) -> None:
        self.count += 1
        self.waiting[f"m{self.count}"] = WaitingMessage(f"m{self.count}", priority, needs_answer=needs)

    @rule()
    def is_dealt_with(self) -> None:
        if self.waiting:
            self.waiting.pop(min(self.waiting))

    @rule(minutes=st.integers(min_value=0, max_value=90))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(times=st.integers(min_value=1, max_value=30))
    def looks(self, times: int) -> None:
        for _ in range(times):
            messages = wakeable([*self.waiting.values()], self.mentioned)
            decision = decided(*messages, session=self.session, waiting={*self.waiting}, now=self.now)
            if decision.session is None:
                assert bool(decision.reason) == bool(messages)
                continue
            assert not self.mentioned & {*decision.messages}
            self.session = decision.session
            self.mentioned |= {*decision.messages}
            self.wakes.append(self.now)

    @invariant()
    def it_ends(self) -> None:
        assert sum(self.now - at < timedelta(hours=1) for at in self.wakes) <= LIMITS.per_hour
        # Each message wakes at most once.
        assert len(self.wakes) <= self.count


EndlessMail.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestEndlessMail = EndlessMail.TestCase
