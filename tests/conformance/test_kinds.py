"""The twelve types: purpose, who answers with what, how urgent, in which direction."""

from __future__ import annotations

from itertools import permutations

import pytest

from parley.domain.message.bodies import default_reply
from parley.domain.message.message import Kind, Message, Pattern, Priority
from tests.conformance.oacp import refusals, reply_to, sent
from tests.samples.messages import STRUCTURED, a_body, a_draft, a_message, fields_of


@pytest.mark.requirement("S1-TYPE-COUNT")
def test_there_are_twelve_types_in_three_categories() -> None:
    coordination = {"task_request", "question", "notification", "follow_up", "handoff", "handoff_complete"}
    review = {"review_request", "review_feedback", "review_addressed", "review_lgtm"}
    brainstorm = {"brainstorm_request", "brainstorm_followup"}

    assert {kind.value for kind in Kind} == coordination | review | brainstorm
    assert len(Kind) == 12


@pytest.mark.parametrize(
    ("kind", "answers", "asks"),
    [
        pytest.param(
            "task_request",
            {"notification", "follow_up"},
            True,
            marks=pytest.mark.requirement("S1-TYPE-TASK-REQUEST", "S3-TASK-REQUEST-RESPONSE"),
        ),
        pytest.param(
            "question",
            {"notification", "follow_up"},
            True,
            marks=pytest.mark.requirement("S1-TYPE-QUESTION", "S3-QUESTION-RESPONSE"),
        ),
        pytest.param(
            "notification",
            set(),
            False,
            marks=pytest.mark.requirement("S1-TYPE-NOTIFICATION", "S3-NOTIFICATION-RESPONSE"),
        ),
        pytest.param(
            "follow_up",
            {"notification", "follow_up"},
            False,
            marks=pytest.mark.requirement("S1-TYPE-FOLLOW-UP", "S3-FOLLOW-UP-RESPONSE"),
        ),
        pytest.param(
            "handoff",
            {"handoff_complete"},
            True,
            marks=pytest.mark.requirement("S1-TYPE-HANDOFF", "S3-HANDOFF-RESPONSE"),
        ),
        pytest.param(
            "handoff_complete",
            set(),
            False,
            marks=pytest.mark.requirement("S1-TYPE-HANDOFF-COMPLETE", "S3-HANDOFF-COMPLETE-RESPONSE"),
        ),
        pytest.param(
            "review_request",
            {"review_feedback", "review_lgtm"},
            True,
            marks=pytest.mark.requirement("S1-TYPE-REVIEW-REQUEST", "S3-REVIEW-REQUEST-RESPONSE"),
        ),
        pytest.param(
            "review_feedback",
            {"review_addressed", "question"},
            False,
            marks=pytest.mark.requirement("S1-TYPE-REVIEW-FEEDBACK", "S3-REVIEW-FEEDBACK-RESPONSE"),
        ),
        pytest.param(
            "review_addressed",
            {"review_feedback", "review_lgtm", "review_request"},
            False,
            marks=pytest.mark.requirement("S1-TYPE-REVIEW-ADDRESSED", "S3-REVIEW-ADDRESSED-RESPONSE"),
        ),
        pytest.param(
            "review_lgtm", set(), False, marks=pytest.mark.requirement("S1-TYPE-REVIEW-LGTM", "S3-REVIEW-LGTM-RESPONSE")
        ),
        pytest.param(
            "brainstorm_request",
            {"notification", "brainstorm_followup"},
            True,
            marks=pytest.mark.requirement("S1-TYPE-BRAINSTORM-REQUEST", "S3-BRAINSTORM-REQUEST-RESPONSE"),
        ),
        pytest.param(
            "brainstorm_followup",
            {"notification", "brainstorm_followup"},
            True,
            marks=pytest.mark.requirement("S1-TYPE-BRAINSTORM-FOLLOWUP", "S3-BRAINSTORM-FOLLOWUP-RESPONSE"),
        ),
    ],
)
def test_a_type_expects_the_answers_of_the_specification(kind: str, answers: set[str], asks: bool) -> None:
    assert {answer.value for answer in Kind(kind).answers} == answers
    assert (Kind(kind).spec.pattern is Pattern.REQUEST) is asks
    assert default_reply(Kind(kind)).value in (answers or {"notification"})


@pytest.mark.requirement("S3-TASK-REQUEST-RESPONSE", "S3-QUESTION-RESPONSE", "S3-HANDOFF-RESPONSE")
@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("task_request", "notification"),
        ("question", "notification"),
        ("handoff", "handoff_complete"),
        ("review_request", "review_feedback"),
        ("review_feedback", "review_addressed"),
        ("review_addressed", "review_feedback"),
        ("brainstorm_request", "notification"),
        ("brainstorm_followup", "notification"),
    ],
)
def test_the_answer_of_the_summary_table_is_the_one_chosen_by_default(kind: str, answer: str) -> None:
    assert default_reply(Kind(kind)).value == answer


@pytest.mark.parametrize(
    ("kind", "typical"),
    [
        pytest.param("task_request", {"P1", "P2"}, marks=pytest.mark.requirement("S3-TASK-REQUEST-PRIORITY")),
        pytest.param("question", {"P1", "P2"}, marks=pytest.mark.requirement("S3-QUESTION-PRIORITY")),
        pytest.param("notification", {"P2", "P3"}, marks=pytest.mark.requirement("S3-NOTIFICATION-PRIORITY")),
        pytest.param("handoff", {"P1"}, marks=pytest.mark.requirement("S3-HANDOFF-PRIORITY")),
        pytest.param("review_request", {"P1"}, marks=pytest.mark.requirement("S3-REVIEW-REQUEST-PRIORITY")),
        pytest.param(
            "brainstorm_request", {"P2", "P3"}, marks=pytest.mark.requirement("S3-BRAINSTORM-REQUEST-PRIORITY")
        ),
    ],
)
def test_a_type_has_its_typical_priority_and_takes_any_other(kind: str, typical: set[str]) -> None:
    assert {priority.value for priority in Kind(kind).spec.typical} == typical
    assert sent(a_draft(Kind(kind))).priority.value in typical
    for priority in Priority:
        assert sent(a_draft(Kind(kind), priority=priority)).priority is priority


@pytest.mark.requirement("S3-FOLLOW-UP-PRIORITY")
def test_the_priority_of_a_follow_up_is_its_risk() -> None:
    for tier in ("P2", "P3"):
        assert sent(a_draft(Kind.FOLLOW_UP, body=fields_of(Kind.FOLLOW_UP, risk_tier=tier))).priority.value == tier
    assert refusals(a_draft(Kind.FOLLOW_UP, priority=Priority.P0)) == {("bad_priority", "priority")}


@pytest.mark.parametrize(
    ("kind", "origin"),
    [
        pytest.param("handoff_complete", "handoff", marks=pytest.mark.requirement("S3-HANDOFF-COMPLETE-PRIORITY")),
        pytest.param("review_feedback", "review_request", marks=pytest.mark.requirement("S3-REVIEW-FEEDBACK-PRIORITY")),
        pytest.param(
            "review_addressed", "review_feedback", marks=pytest.mark.requirement("S3-REVIEW-ADDRESSED-PRIORITY")
        ),
        pytest.param("review_lgtm", "review_addressed", marks=pytest.mark.requirement("S3-REVIEW-LGTM-PRIORITY")),
        pytest.param(
            "brainstorm_followup",
            "brainstorm_request",
            marks=pytest.mark.requirement("S3-BRAINSTORM-FOLLOWUP-PRIORITY"),
        ),
    ],
)
@pytest.mark.parametrize("priority", Priority)
def test_an_answer_has_the_priority_of_what_it_answers(kind: str, origin: str, priority: Priority) -> None:
    parent = a_message(Kind(origin), priority=priority)

    assert sent(a_draft(Kind(kind), in_reply_to=parent.id), parent).priority is priority


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("task_request", marks=pytest.mark.requirement("S3-TASK-REQUEST-DIRECTION")),
        pytest.param("question", marks=pytest.mark.requirement("S3-QUESTION-DIRECTION")),
        pytest.param("notification", marks=pytest.mark.requirement("S3-NOTIFICATION-DIRECTION")),
        pytest.param("follow_up", marks=pytest.mark.requirement("S3-FOLLOW-UP-DIRECTION")),
        pytest.param("brainstorm_request", marks=pytest.mark.requirement("S3-BRAINSTORM-REQUEST-DIRECTION")),
    ],
)
def test_any_agent_may_write_to_any_agent_itself_included(kind: str) -> None:
    pairs = [*permutations(("claude", "codex", "gemini"), 2), ("claude", "claude")]

    for sender, to in pairs:
        message = sent(a_draft(Kind(kind), sender=sender, to=(to,)))
        assert (message.sender, message.to) == (sender, (to,))


def from_claude_to_codex(kind: Kind, body: object = None) -> Message:
    return a_message(kind, body=body if body is not None else a_body(kind))


@pytest.mark.parametrize(
    ("kind", "answered"),
    [
        pytest.param(
            "handoff_complete",
            "handoff",
            marks=pytest.mark.requirement("S3-HANDOFF-DIRECTION", "S3-HANDOFF-COMPLETE-DIRECTION"),
        ),
        pytest.param(
            "review_feedback",
            "review_request",
            marks=pytest.mark.requirement("S3-REVIEW-REQUEST-DIRECTION", "S3-REVIEW-FEEDBACK-DIRECTION"),
        ),
        pytest.param(
            "review_addressed", "review_feedback", marks=pytest.mark.requirement("S3-REVIEW-ADDRESSED-DIRECTION")
        ),
        pytest.param("review_lgtm", "review_request", marks=pytest.mark.requirement("S3-REVIEW-LGTM-DIRECTION")),
    ],
)
def test_an_answer_goes_back_to_whoever_asked(kind: str, answered: str) -> None:
    question = from_claude_to_codex(Kind(answered))

    reply = sent(reply_to(question, a_body(Kind(kind)), Kind(kind)), question)

    assert (question.sender, question.to) == ("claude", ("codex",))
    assert (reply.sender, reply.to, reply.kind.value) == ("codex", ("claude",), kind)


@pytest.mark.requirement("S3-HANDOFF-DIRECTION")
def test_a_handoff_goes_from_one_owner_to_one_new_owner() -> None:
    message = sent(a_draft(Kind.HANDOFF))

    assert isinstance(message.body, dict)
    assert (message.body["source_agent"], message.body["target_agent"]) == (message.sender, *message.to)
    assert refusals(a_draft(Kind.HANDOFF, to=("codex", "gemini"))) == {("point_to_point", "to")}


@pytest.mark.requirement("S3-BRAINSTORM-FOLLOWUP-DIRECTION", "D-BRAINSTORM-FOLLOWUP-EMIT")
def test_a_brainstorm_is_narrowed_by_who_asked_and_answered_with_a_notification() -> None:
    asked = from_claude_to_codex(Kind.BRAINSTORM_REQUEST)
    narrowed = sent(
        reply_to(asked, "Go deeper on Redis.", Kind.BRAINSTORM_FOLLOWUP, sender="claude"), asked, suffix="b2e1"
    )

    findings = reply_to(narrowed, "Read-through it is.")

    assert (narrowed.sender, narrowed.to, narrowed.in_reply_to) == ("claude", ("codex",), asked.id)
    assert (findings.sender, findings.to, findings.kind) == ("codex", ("claude",), Kind.NOTIFICATION)
    assert reply_to(asked).kind is Kind.NOTIFICATION


@pytest.mark.requirement("D-BRAINSTORM-FOLLOWUP-ACCEPT")
def test_a_brainstorm_is_continued_in_both_directions() -> None:
    asked = from_claude_to_codex(Kind.BRAINSTORM_REQUEST)

    for sender, to in (("claude", "codex"), ("codex", "claude")):
        reply = sent(reply_to(asked, "More.", Kind.BRAINSTORM_FOLLOWUP, sender=sender), asked)
        assert (reply.sender, reply.to, reply.kind) == (sender, (to,), Kind.BRAINSTORM_FOLLOWUP)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("task_request", marks=pytest.mark.requirement("S3-TASK-REQUEST-BODY")),
        pytest.param("question", marks=pytest.mark.requirement("S3-QUESTION-BODY")),
        pytest.param("notification", marks=pytest.mark.requirement("S3-NOTIFICATION-BODY")),
        pytest.param("brainstorm_request", marks=pytest.mark.requirement("S3-BRAINSTORM-REQUEST-BODY")),
        pytest.param("brainstorm_followup", marks=pytest.mark.requirement("S3-BRAINSTORM-FOLLOWUP-BODY")),
    ],
)
def test_a_free_form_body_is_any_text_that_says_something(kind: str) -> None:
    text = "Constraints:\n- key: value\n- [not yaml\n\n\tas it likes: # 日本語\n"

    assert sent(a_draft(Kind(kind), body=text)).body == text
    assert refusals(a_draft(Kind(kind), body=" \n")) == {("missing_field", "body")}
    assert Kind(kind) not in STRUCTURED


@pytest.mark.requirement("D-ANSWER-ACCEPT")
@pytest.mark.parametrize("question", ["question", "task_request"])
@pytest.mark.parametrize("answer", ["notification", "follow_up"])
def test_a_question_or_task_may_be_answered_by_notification_or_follow_up(question: str, answer: str) -> None:
    asked = from_claude_to_codex(Kind(question))

    reply = sent(reply_to(asked, "mTLS.", Kind(answer)), asked)

    assert (reply.kind.value, reply.in_reply_to, reply.body) == (answer, asked.id, "mTLS.")
    assert Kind(answer) in Kind(question).answers


@pytest.mark.requirement("D-ANSWER-EMIT")
@pytest.mark.parametrize("question", ["question", "task_request"])
def test_a_question_or_task_is_answered_by_a_notification_unless_said_otherwise(question: str) -> None:
    asked = from_claude_to_codex(Kind(question))

    reply = sent(reply_to(asked, "mTLS."), asked)

    assert (reply.kind, reply.in_reply_to) == (Kind.NOTIFICATION, asked.id)


@pytest.mark.requirement("D-REVIEW-REQUEST-ANSWER")
@pytest.mark.parametrize("answer", ["review_feedback", "review_lgtm"])
def test_a_review_request_is_answered_by_feedback_or_lgtm(answer: str) -> None:
    asked = from_claude_to_codex(Kind.REVIEW_REQUEST)

    reply = sent(reply_to(asked, a_body(Kind(answer)), Kind(answer)), asked)

    assert (reply.kind.value, reply.in_reply_to) == (answer, asked.id)
    assert Kind(answer) in Kind.REVIEW_REQUEST.answers


@pytest.mark.requirement("D-REVIEW-ADDRESSED-ACCEPT")
@pytest.mark.parametrize("answer", ["review_feedback", "review_lgtm", "review_request"])
def test_review_addressed_is_followed_by_feedback_lgtm_or_a_new_request(answer: str) -> None:
    asked = from_claude_to_codex(Kind.REVIEW_ADDRESSED)

    assert sent(reply_to(asked, a_body(Kind(answer)), Kind(answer)), asked).kind.value == answer
    assert Kind(answer) in Kind.REVIEW_ADDRESSED.answers
