"""`Mailbox.next(wait=...)` and `Mailbox.ask`: wait for a message, or for the reply to one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

import parley
from tests.surface.stage import Stage


def at_turn(turn: int, act: Callable[[], object]) -> Callable[[float], None]:
    """A pause in whose place something happens, once."""
    count = 0

    def pause(_: float) -> None:
        nonlocal count
        count += 1
        if count == turn:
            act()

    return pause


def test_next_returns_a_message_that_arrives_while_it_waits(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        pause = at_turn(3, lambda: claude.send("codex", "question", "Late", "x"))

        message = codex.next(wait="5m", pause=pause)

        assert message is not None
        assert message.subject == "Late"
        codex.done(message)


def test_next_returns_none_when_the_wait_is_over(stage: Stage) -> None:
    with stage.mailbox("codex") as codex:
        assert codex.next(wait=timedelta(milliseconds=1)) is None
        assert codex.next() is None


@pytest.mark.parametrize("wait", ["soon", 5, 5.0])
def test_a_wait_that_is_no_duration_is_refused(stage: Stage, wait: str) -> None:
    with stage.mailbox("codex") as codex, pytest.raises(parley.Invalid):
        codex.next(wait=wait)


def test_ask_returns_the_reply_and_finishes_it(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        pause = at_turn(2, lambda: codex.reply(codex.inbox()[0].id, "Signed JWTs."))

        reply = claude.ask("codex", "mTLS or JWT?\nFor internal calls.", wait="5m", pause=pause)

        assert (reply.sender, reply.body, reply.subject) == ("codex", "Signed JWTs.", "Re: mTLS or JWT?")
        assert claude.inbox() == []
        assert claude.find(reply.id).place == "archive"


def test_ask_raises_when_nobody_replies_in_time(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, pytest.raises(parley.MessageTimeoutError, match="no reply from codex"):
        claude.ask("codex", "Ready?", wait=timedelta(milliseconds=1))
