"""When a timer is due, and which moments it may have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.post import PostDraft
from parley.domain.channel.timer import Timer, check_moment, refused
from parley.domain.errors.errors import Invalid
from parley.domain.message.message import Pattern
from parley.domain.times import from_stamp, stamp

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
YEAR, MONTH = timedelta(days=365), timedelta(days=30)


def a_timer(at: datetime = NOW) -> Timer:
    return Timer(
        id="timer_1",
        tenant_id="default",
        sender="alice",
        channel_id="chan_1",
        message_id="msg_1",
        deliver_at=stamp(at),
        created_at=stamp(NOW),
        pattern=Pattern.NOTIFY,
        to="bob",
        payload='{"text":"hello"}',
        metadata="{}",
    )


def test_a_timer_is_due_at_its_moment_and_listed_by_its_sender() -> None:
    timer = a_timer()

    assert (timer.due, timer.parent) == (timer.deliver_at, "alice")


def test_a_refused_timer_keeps_the_reason_for_a_week_and_forgets_the_content() -> None:
    over = refused(a_timer(), "policy_denied", "not allowed", stamp(NOW))

    assert (over.code, over.reason, over.payload) == ("policy_denied", "not allowed", "{}")
    assert from_stamp(over.due) == NOW + timedelta(days=7)


@given(st.integers(-100, 500), st.none() | st.integers(-100, 500))
def test_a_moment_is_in_the_future_and_what_expires_does_so_after_it(days: int, expires: int | None) -> None:
    deliver_at = NOW + timedelta(days=days)
    expires_at = None if expires is None else NOW + timedelta(days=expires)
    possible = 0 < days <= 365 and (expires is None or days < expires <= days + 30)
    draft = PostDraft(Pattern.NOTIFY, b"{}", expires_at=expires_at)

    if possible:
        check_moment(draft, deliver_at, NOW, YEAR, MONTH)
    else:
        with pytest.raises(Invalid):
            check_moment(draft, deliver_at, NOW, YEAR, MONTH)


def test_an_answer_cannot_be_posted_later() -> None:
    with pytest.raises(Invalid, match="an answer cannot be posted later"):
        check_moment(PostDraft(Pattern.RESPONSE, b"{}"), NOW + MONTH, NOW, YEAR, MONTH)
