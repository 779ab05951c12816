"""A claimed message in a `with`: finished at the end, released when an exception leaves it."""

from __future__ import annotations

import pytest

from parley.sdk.mailbox import Mailbox
from tests.surface.stage import PROJECT, Stage


def asked(stage: Stage, *questions: str) -> None:
    with Mailbox(PROJECT, agent="claude", home=stage.home) as claude:
        for question in questions:
            claude.send("codex", "question", question, "For internal calls.")


def test_what_went_well_is_finished_and_answered(stage: Stage) -> None:
    asked(stage, "mTLS or JWT?")

    with Mailbox(PROJECT, agent="codex", home=stage.home) as codex:
        while message := codex.next():
            with message:
                message.reply("Signed JWTs.")
        assert codex.inbox() == []

    with Mailbox(PROJECT, agent="claude", home=stage.home) as claude:
        [answer] = claude.inbox()
        assert claude.read(answer.id).body == "Signed JWTs."


def test_what_failed_goes_to_the_next_reader_at_once(stage: Stage) -> None:
    asked(stage, "mTLS or JWT?")

    with Mailbox(PROJECT, agent="codex", home=stage.home) as codex:
        first = codex.next()
        assert first is not None
        with pytest.raises(ValueError, match="no idea"), first:
            raise ValueError("no idea")
        again = codex.next()

        assert again == first
        assert again is not None
        again.extend("1h")
        assert codex.next() is None
        again.release()
        assert codex.next() == first


def test_what_was_finished_inside_is_not_finished_twice(stage: Stage) -> None:
    asked(stage, "mTLS or JWT?", "HTTP/2?")

    with Mailbox(PROJECT, agent="codex", home=stage.home) as codex:
        message = codex.next()
        assert message is not None
        with message:
            message.done(delete=True)
        assert message.subject == "mTLS or JWT?"
        assert [item.subject for item in codex.inbox()] == ["HTTP/2?"]


def test_an_exception_after_the_end_is_not_hidden(stage: Stage) -> None:
    asked(stage, "mTLS or JWT?")

    with Mailbox(PROJECT, agent="codex", home=stage.home) as codex:
        message = codex.next()
        assert message is not None
        message.done()
        with pytest.raises(ValueError, match="too late"), message:
            raise ValueError("too late")
        assert codex.inbox() == []
