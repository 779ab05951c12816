"""Where a request stands, and who may withdraw it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from parley.domain.channel.post import Post, PostState
from parley.domain.channel.request import (
    RequestPhase,
    RequestState,
    check_not_withdrawn,
    check_withdrawable,
    new_state,
    phase_of,
)
from parley.domain.errors.errors import ParleyError
from parley.domain.message.message import Pattern

NOW, LATER = "2026-03-01T12:00:00.000000+00:00", "2026-03-01T12:01:00.000000+00:00"
REQUEST = Post(
    id="msg_1",
    channel_id="chan_1",
    sender="alice",
    to="bob",
    pattern=Pattern.REQUEST,
    in_reply_to="",
    payload=b"{}",
    metadata=b"{}",
    created_at=NOW,
    expires_at=LATER,
    state=PostState.DELIVERED,
    recipients=("bob",),
    intent_id="intent_1",
)
STATE = new_state("default", REQUEST, timedelta(days=7))
WITHDRAWN = replace(STATE, withdrawn_at=NOW)


@pytest.mark.parametrize(
    ("request_post", "state", "now", "phase"),
    [
        (REQUEST, None, NOW, RequestPhase.OPEN),
        (REQUEST, STATE, NOW, RequestPhase.OPEN),
        (REQUEST, None, LATER, RequestPhase.EXPIRED),
        (REQUEST._replace(state=PostState.EXPIRED), None, NOW, RequestPhase.EXPIRED),
        (REQUEST._replace(state=PostState.EXPIRED), WITHDRAWN, NOW, RequestPhase.WITHDRAWN),
        (REQUEST._replace(answered=True), None, LATER, RequestPhase.ANSWERED),
    ],
)
def test_a_request_stands_where_its_post_and_its_state_say(
    request_post: Post, state: RequestState | None, now: str, phase: RequestPhase
) -> None:
    assert phase_of(request_post, state, now) is phase


@pytest.mark.parametrize(
    ("request_post", "agent", "now", "code"),
    [
        (REQUEST, "bob", NOW, "not_asker"),
        (REQUEST, "alice", LATER, "message_expired"),
        (REQUEST._replace(answered=True), "alice", NOW, "already_answered"),
        (REQUEST._replace(pattern=Pattern.NOTIFY), "alice", NOW, "not_a_request"),
    ],
)
def test_only_the_sender_of_an_open_request_withdraws_it(request_post: Post, agent: str, now: str, code: str) -> None:
    check_withdrawable(REQUEST, None, "alice", NOW)

    with pytest.raises(ParleyError) as refused:
        check_withdrawable(request_post, None, agent, now)

    assert refused.value.code == code


def test_nothing_is_answered_after_the_withdrawal() -> None:
    check_not_withdrawn(REQUEST, None)
    check_not_withdrawn(REQUEST, STATE)

    with pytest.raises(ParleyError, match="withdrawn by alice"):
        check_not_withdrawn(REQUEST, WITHDRAWN)


def test_what_is_stored_is_forgotten_after_the_request_or_with_its_channel() -> None:
    assert STATE.due == "2026-03-08T12:01:00.000000+00:00"
    assert new_state("default", REQUEST._replace(expires_at=""), timedelta(days=7)).due == ""
