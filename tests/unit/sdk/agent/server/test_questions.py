"""To whom an answer goes: to the caller that asked, or to a handler."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from parley.sdk.agent.server.questions import ServerQuestions
from parley.sdk.protocol.asking import OpenQuestion, Question
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import in_loop
from tests.unit.sdk.playing import a_session


def said(message_id: str, sender: str = "carol", channel_id: str = "here", request: str = "") -> ChannelMessage:
    return ChannelMessage(
        id=message_id,
        channel_id=channel_id,
        sender=sender,
        message_type="response",
        correlation_id=request or None,
        payload={},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def asked(questions: ServerQuestions, to: str = "carol") -> OpenQuestion:
    question = OpenQuestion(a_session(), Question("here", to, {}), observer=questions)
    questions.opened(question)
    return question


def take(questions: ServerQuestions, question: OpenQuestion, *answer_ids: str) -> None:
    question.answer_ids += answer_ids
    questions.changed(question)


@in_loop
async def test_what_answered_a_question_is_known_as_its_answer() -> None:
    questions = ServerQuestions()
    question = asked(questions)
    take(questions, question, "a")
    questions.closed(question)

    assert [await questions.has_taken(said(answer)) for answer in "ab"] == [True, False]


@in_loop
async def test_all_answers_to_a_request_that_is_known_belong_to_its_question() -> None:
    questions = ServerQuestions()
    question = asked(questions, "role:reviewers")
    question.request_id = "request"
    questions.changed(question)

    assert await questions.has_taken(said("a", request="request")) is True
    questions.closed(question)
    assert await questions.has_taken(said("b", request="request")) is True
    assert await questions.has_taken(said("c", request="another")) is False


@pytest.mark.parametrize(
    ("to", "waits"), [("carol", True), ("any:writer", True), ("role:reviewers", True), ("dave", False)]
)
@in_loop
async def test_an_answer_waits_for_the_questions_that_it_can_belong_to(to: str, waits: bool) -> None:
    questions = ServerQuestions()
    question = asked(questions, to)

    taken = asyncio.ensure_future(questions.has_taken(said("a")))
    elsewhere = await questions.has_taken(said("b", channel_id="elsewhere"))
    await asyncio.sleep(0)
    done = taken.done()
    take(questions, question, "a")
    questions.closed(question)

    assert done is not waits
    assert elsewhere is False
    assert await taken is waits


@in_loop
async def test_an_answer_is_known_as_soon_as_its_own_question_has_it() -> None:
    questions = ServerQuestions()
    slow, quick = asked(questions), asked(questions)

    taken = asyncio.ensure_future(questions.has_taken(said("a")))
    await asyncio.sleep(0)
    take(questions, quick, "a")

    assert await taken is True
    questions.closed(slow)


@in_loop
async def test_a_question_that_ends_without_an_answer_keeps_nobody_waiting() -> None:
    questions = ServerQuestions()
    question = asked(questions)
    taken = asyncio.ensure_future(questions.has_taken(said("late")))
    await asyncio.sleep(0)

    questions.closed(question)

    assert await taken is False


@in_loop
async def test_not_every_answer_is_remembered_for_ever() -> None:
    questions = ServerQuestions()
    for number in range(10_001):
        question = asked(questions)
        take(questions, question, str(number))
        questions.closed(question)

    assert await questions.has_taken(said("0")) is False
    assert await questions.has_taken(said("1")) is True
