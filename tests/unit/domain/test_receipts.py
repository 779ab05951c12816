"""Where a message stands, by the steps that its recipient wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.receipts import (
    NOT_ANSWERED,
    OFFER_LASTS,
    SESSION_ENDED,
    DeliveryReceipt,
    ReceiptState,
    ReceiptStep,
    state_after,
)
from parley.domain.times import stamp

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def step(state: str, session: str = "s1", evidence: str = "", *, ago: int = 0, lease: int = 0) -> ReceiptStep:
    until = stamp(NOW + timedelta(minutes=lease)) if lease else ""
    return ReceiptStep(ReceiptState(state), stamp(NOW - timedelta(minutes=ago)), session, evidence, until)


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([], "queued"),
        ([step("offered")], "offered"),
        ([step("offered", ago=11)], "queued"),
        ([step("offered"), step("queued", evidence=SESSION_ENDED)], "queued"),
        ([step("offered"), step("queued", "s2", NOT_ANSWERED)], "offered"),
        ([step("offered", ago=30), step("injected", ago=29)], "injected"),
        ([step("injected"), step("queued", evidence=NOT_ANSWERED)], "injected"),
        ([step("injected"), step("offered")], "injected"),
        ([step("offered"), step("acknowledged", lease=5)], "acknowledged"),
        ([step("injected"), step("acknowledged", lease=-5)], "queued"),
        ([step("acknowledged", lease=5), step("queued", evidence="released")], "queued"),
        ([step("acknowledged", lease=5), step("acted", "", "answered")], "acted"),
        ([step("acted", "", "answered"), step("queued", "", "reopened")], "queued"),
        ([step("acknowledged", lease=-5), step("dead", "", "too_many_tries")], "dead"),
    ],
)
def test_the_steps_say_where_a_message_stands(steps: list[ReceiptStep], state: str) -> None:
    assert state_after(steps, NOW) == state


steps_of_sessions = st.lists(
    st.builds(
        step,
        st.sampled_from(["queued", "offered", "injected", "acknowledged", "acted", "dead"]),
        st.sampled_from(["", "s1", "s2"]),
        st.sampled_from(["", SESSION_ENDED, NOT_ANSWERED, "released", "reopened"]),
        ago=st.integers(0, 30),
        lease=st.sampled_from([0, 5, -5]),
    ),
    max_size=8,
)


@given(steps_of_sessions)
def test_a_state_is_never_ahead_of_its_steps(steps: list[ReceiptStep]) -> None:
    state = state_after(steps, NOW)

    assert state is ReceiptState.QUEUED or state in {step.state for step in steps}


@given(steps_of_sessions)
def test_time_alone_only_takes_back(steps: list[ReceiptStep]) -> None:
    order = list(ReceiptState)

    before, after = state_after(steps, NOW), state_after(steps, NOW + OFFER_LASTS + timedelta(days=1))

    assert order.index(after) <= order.index(before)


@given(steps_of_sessions, steps_of_sessions)
def test_writing_the_same_step_twice_changes_nothing(before: list[ReceiptStep], more: list[ReceiptStep]) -> None:
    doubled = [*before, *(step for step in more for _ in range(2))]

    assert state_after(doubled, NOW) == state_after([*before, *more], NOW)


def test_what_was_reached_stays_reached() -> None:
    receipt = DeliveryReceipt("codex", ReceiptState.QUEUED, (step("acknowledged"), step("queued", "", "released")))

    assert receipt.has_reached(ReceiptState.INJECTED)
    assert receipt.has_reached(ReceiptState.ACKNOWLEDGED)
    assert not receipt.has_reached(ReceiptState.ACTED)
    assert DeliveryReceipt("codex", ReceiptState.DEAD).has_reached(ReceiptState.QUEUED) is False
