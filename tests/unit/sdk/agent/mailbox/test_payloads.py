"""Mailbox messages as an agent sees them, and payloads as bodies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.message.message import Kind, Message, Priority
from parley.sdk.agent.mailbox.payloads import (
    answer_kind,
    body_of,
    kind_from,
    payload_of,
    subject_of,
    to_channel_message,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def a_message(kind: Kind = Kind.QUESTION, body: Any = "hello", **fields: Any) -> Message:
    made: dict[str, Any] = {"to": ("claude",), "priority": Priority.P1, "created_at": NOON, "subject": "A subject"}
    return Message(id="msg-1", sender="codex", kind=kind, body=body, **(made | fields))


def test_a_question_is_a_request_in_the_channel_of_its_tag() -> None:
    message = a_message(tag="questions", conversation_id="conv-1", expires_at=NOON)

    seen = to_channel_message("claude", message, "a.yaml")

    assert (seen.message_type, seen.channel, seen.channel_id, seen.to) == (
        "request",
        "questions",
        "questions",
        "claude",
    )
    assert (seen.id, seen.sender, seen.created_at, seen.expires_at) == ("msg-1", "codex", NOON, NOON)
    assert (seen.kind, seen.payload, seen.correlation_id) == ("question", {"text": "hello"}, None)
    assert seen.metadata == {
        "kind": "question",
        "subject": "A subject",
        "priority": "P1",
        "conversation_id": "conv-1",
        "file": "a.yaml",
    }


def test_a_notification_to_several_is_a_broadcast() -> None:
    seen = to_channel_message("claude", a_message(Kind.NOTIFICATION, to=("claude", "gemini")))

    assert (seen.message_type, seen.to) == ("broadcast", "*")


def test_what_answers_a_question_is_a_response_whatever_its_kind() -> None:
    message = a_message(Kind.NOTIFICATION, in_reply_to="msg-0")

    assert to_channel_message("claude", message).message_type == "notify"
    assert to_channel_message("claude", message, answers=True).message_type == "response"
    assert to_channel_message("claude", message).correlation_id == "msg-0"


def test_an_agent_that_could_not_answer_says_why_as_on_a_server() -> None:
    body = body_of(
        Kind.NOTIFICATION, {"error": {"code": "handler_failed", "message": "KeyError: 'q'", "agent": "codex"}}
    )

    seen = to_channel_message("claude", a_message(Kind.NOTIFICATION, body, in_reply_to="msg-0"), answers=True)

    assert (seen.error, seen.metadata["error"]) == ("KeyError: 'q'", "handler_failed")


def test_an_error_among_other_fields_is_a_field_like_any_other() -> None:
    body = body_of(Kind.NOTIFICATION, {"error": {"code": "E501"}, "line": 3})

    assert "error" not in to_channel_message("claude", a_message(body=body, in_reply_to="msg-0")).metadata


@pytest.mark.parametrize(
    "payload", [{}, {"a": 1, "b": 1.5, "c": None, "d": [True, {"e": "ü"}]}, {"text": "{"}, {"question": "x\ny"}]
)
def test_a_payload_comes_back_as_it_was(payload: dict[str, Any]) -> None:
    assert payload_of(body_of(Kind.QUESTION, payload)) == payload


@pytest.mark.parametrize("text", ["", "plain", "{not json", "[1, 2]", '{"a": NaN}', "{" * 100_000])
def test_a_text_is_a_text(text: str) -> None:
    assert payload_of(text) == {"text": text}


def test_a_body_with_fields_is_its_payload() -> None:
    assert payload_of({"pr": "#1", "branch": "main"}) == {"pr": "#1", "branch": "main"}


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(Invalid, match="JSON"):
        body_of(Kind.QUESTION, {"a": object()})


def test_the_kind_of_an_answer_is_the_one_whose_fields_it_has() -> None:
    lgtm = {"quality_gate_result": "pass", "merge_ready": True}
    feedback = {"findings_packet": "packets/findings/a.yaml", "round": 1, "blocking_count": 2}

    assert answer_kind(Kind.REVIEW_REQUEST, lgtm) is Kind.REVIEW_LGTM
    assert answer_kind(Kind.REVIEW_REQUEST, feedback) is Kind.REVIEW_FEEDBACK
    assert answer_kind(Kind.REVIEW_REQUEST, {"merge_ready": True}) is Kind.NOTIFICATION
    assert answer_kind(Kind.QUESTION, {"answer": 42}) is Kind.NOTIFICATION
    assert body_of(Kind.REVIEW_LGTM, lgtm | {"nits": None}) == lgtm


def test_metadata_names_the_kind_and_only_what_a_message_has() -> None:
    assert kind_from({}, Kind.QUESTION) is Kind.QUESTION
    assert kind_from({"kind": "task_request", "subject": "s"}, Kind.QUESTION) is Kind.TASK_REQUEST
    with pytest.raises(Invalid, match="no trace"):
        kind_from({"trace": "x"}, Kind.QUESTION)
    with pytest.raises(Invalid, match="'shout' is no kind"):
        kind_from({"kind": "shout"}, Kind.QUESTION)


def test_a_subject_is_one_line_that_fits() -> None:
    assert subject_of({"question": "Which\n schema?"}, "questions", 200) == "Which schema?"
    assert subject_of({"question": 42, "x": "y"}, "questions", 200) == "questions"
    assert subject_of({"question": "x" * 300}, "questions", 200) == "x" * 199 + "…"
