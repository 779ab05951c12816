# Written by tools/gen_client.py from sdk/client/answers.py. Change that, then run: make docs
"""The answers to a question as messages; one that waits for a person is an error."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from parley.domain.errors.rules import MessageHeld
from parley.sdk.records import convert_answer
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from parley.sdk.blocking.connection import Connection
    from parley.sdk.protocol.asking import Question


def first_answer(connection: Connection, question: Question) -> ChannelMessage:
    """Ask and wait for the first answer."""
    answer = connection.ask(question)
    check_not_held(answer)
    return convert_answer(answer, ChannelMessage)


def all_answers(connection: Connection, question: Question) -> list[ChannelMessage]:
    """Ask and collect every answer that comes in time."""
    answers = connection.ask_all(question)
    if answers:
        check_not_held(answers[0])
    return convert_answer(answers, list[ChannelMessage])


def answer_stream(connection: Connection, question: Question) -> Generator[ChannelMessage]:
    """Ask and follow the answers, the partial ones too; the last one is the answer."""
    with closing(connection.ask_stream(question)) as answers:
        for answer in answers:
            check_not_held(answer)
            yield convert_answer(answer, ChannelMessage)


def check_not_held(document: Mapping[str, Any]) -> None:
    """Raise `MessageHeld` for a message that waits for a person; its `facts` say for which approval and why."""
    if document.get("status") == "held":
        raise held_error(document)


def held_error(document: Mapping[str, Any]) -> MessageHeld:
    """The error for a message that waits for a person."""
    reason = document.get("reason", "")
    text = f"the message waits for a person ({document.get('approval', '')})"
    return MessageHeld(f"{text}: {reason}" if reason else text, facts=dict(document))
