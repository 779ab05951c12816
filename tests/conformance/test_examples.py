"""Every example of the specifications is read as what it says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parley.domain.message.message import Kind, Priority
from tests.conformance.oacp import accepted, doubted, example
from tests.samples.messages import STRUCTURED


@pytest.mark.requirement("S1-EXAMPLE-REVIEW-REQUEST")
def test_the_first_example_is_read_with_its_uuid_its_url_and_its_free_text() -> None:
    message = accepted(example("s1-example"))

    assert (message.id, message.sender, message.to) == ("a1b2c3d4-5678-9abc-def0-1234567890ab", "claude", ("codex",))
    assert (message.kind, message.priority) == (Kind.REVIEW_REQUEST, Priority.P1)
    assert message.created_at == datetime(2025, 1, 15, 14, 30, tzinfo=UTC)
    assert (
        message.body == "PR #42 adds JWT validation middleware.\nFocus areas: token expiry handling, error responses.\n"
    )
    assert message.related_pr == "https://github.com/kiloloop/oacp/pull/42"
    assert message.conversation_id == "review-pr-42"
    assert doubted(example("s1-example")) == {("body_not_structured", "body")}


@pytest.mark.requirement("S1-EXAMPLE-THREADING")
def test_the_threading_example_is_read_with_both_its_context_keys() -> None:
    message = accepted(example("s1-threading"))

    assert message.conversation_id == "review-pr-42"
    assert message.in_reply_to == "a1b2c3d4-5678-9abc-def0-1234567890ab"
    assert message.context_keys == "- pr:42\n- file:src/middleware/auth.ts"
    assert doubted(example("s1-threading")) == set()


@pytest.mark.requirement("S1-EXAMPLE-BROADCAST")
def test_the_broadcast_example_is_read_with_its_three_recipients() -> None:
    assert accepted(example("s1-broadcast")).to == ("codex", "gemini", "claude")
    assert doubted(example("s1-broadcast")) == set()


@pytest.mark.requirement("S2-EXAMPLE-ANNOTATED")
def test_the_annotated_example_is_read_with_all_its_fields_and_none_of_its_comments() -> None:
    message = accepted(example("s2-annotated"))

    assert message._replace(body="") == message._replace(
        id="msg-20260313T1430Z-claude-a8f3",
        sender="claude",
        to=("codex",),
        kind=Kind.TASK_REQUEST,
        priority=Priority.P2,
        created_at=datetime(2026, 3, 13, 14, 30, tzinfo=UTC),
        subject="Implement rate limiting",
        body="",
        expires_at=datetime(2026, 3, 14, 12, tzinfo=UTC),
        tag="review",
        related_packet="",
        related_pr="42",
        conversation_id="conv-20260313-claude-001",
        in_reply_to="msg-20260313T1400Z-codex-b2e1",
        context_keys="Key decisions and artifacts from prior conversation.\n",
        extras={},
    )
    assert (
        message.body == "Add rate limiting to the /api/v1/* routes.\nToken bucket algorithm, 100 req/min per API key.\n"
    )
    assert doubted(example("s2-annotated")) == set()


@pytest.mark.requirement("S2-EXAMPLE-REVIEW-REQUEST")
def test_the_review_request_whose_body_is_yaml_inside_text_is_read_as_fields() -> None:
    message = accepted(example("s2-review-request"))

    assert isinstance(message.body, dict)
    assert (message.body["pr"], message.body["branch"]) == ("42", "feat/auth-middleware")
    assert str(message.body["diff_summary"]).startswith("Adds JWT validation middleware to the API gateway.\n- RS256")
    assert (message.body["max_turns_reviewer"], message.body["max_runtime_s_reviewer"]) == (8, 600)
    assert doubted(example("s2-review-request")) == set()


@pytest.mark.parametrize(
    ("name", "kind", "priority", "words"),
    [
        pytest.param(
            "s2-task-request",
            "task_request",
            "P2",
            "- Username length check (3-30 chars, alphanumeric + underscore)\n",
            marks=pytest.mark.requirement("S2-EXAMPLE-TASK-REQUEST"),
        ),
        pytest.param(
            "s2-notification",
            "notification",
            "P3",
            "- Coverage: 94% (above 90% threshold)\n",
            marks=pytest.mark.requirement("S2-EXAMPLE-NOTIFICATION"),
        ),
        pytest.param(
            "s3-task_request",
            "task_request",
            "P2",
            "- Return 429 with Retry-After header\n",
            marks=pytest.mark.requirement("S3-EXAMPLE-TASK-REQUEST"),
        ),
        pytest.param(
            "s3-question",
            "question",
            "P1",
            "Should we use mTLS or signed JWTs",
            marks=pytest.mark.requirement("S3-EXAMPLE-QUESTION"),
        ),
        pytest.param(
            "s3-notification",
            "notification",
            "P3",
            "All 142 tests pass.",
            marks=pytest.mark.requirement("S3-EXAMPLE-NOTIFICATION"),
        ),
        pytest.param(
            "s3-brainstorm_request",
            "brainstorm_request",
            "P2",
            "Constraints:\n- Must work",
            marks=pytest.mark.requirement("S3-EXAMPLE-BRAINSTORM-REQUEST"),
        ),
        pytest.param(
            "s3-brainstorm_followup",
            "brainstorm_followup",
            "P2",
            "10M cached queries\n",
            marks=pytest.mark.requirement("S3-EXAMPLE-BRAINSTORM-FOLLOWUP"),
        ),
    ],
)
def test_an_example_in_free_form_is_read_word_by_word(name: str, kind: str, priority: str, words: str) -> None:
    message = accepted(example(name))

    assert (message.kind.value, message.priority.value) == (kind, priority)
    assert words in str(message.body)
    assert doubted(example(name)) == set()


@pytest.mark.parametrize(
    ("name", "some_fields"),
    [
        pytest.param(
            "follow_up",
            {**STRUCTURED[Kind.FOLLOW_UP], "tracking_issue": "#56", "due_hint": "next sprint"},
            marks=pytest.mark.requirement("S3-EXAMPLE-FOLLOW-UP"),
        ),
        pytest.param(
            "handoff",
            {
                "source_agent": "claude",
                "target_agent": "codex",
                "definition_of_done": ["All review findings addressed", "PR merged to main"],
            },
            marks=pytest.mark.requirement("S3-EXAMPLE-HANDOFF"),
        ),
        pytest.param(
            "handoff_complete",
            STRUCTURED[Kind.HANDOFF_COMPLETE],
            marks=pytest.mark.requirement("S3-EXAMPLE-HANDOFF-COMPLETE"),
        ),
        pytest.param(
            "review_request",
            {
                "pr": "#55",
                "diff_summary": "Adds token bucket rate limiter to API routes.\n"
                "3 new files, 1 modified. 280 lines added.\n",
                "max_turns_reviewer": 3,
                "max_runtime_s_reviewer": 600,
            },
            marks=pytest.mark.requirement("S3-EXAMPLE-REVIEW-REQUEST"),
        ),
        pytest.param(
            "review_feedback",
            STRUCTURED[Kind.REVIEW_FEEDBACK],
            marks=pytest.mark.requirement("S3-EXAMPLE-REVIEW-FEEDBACK"),
        ),
        pytest.param(
            "review_addressed",
            {
                "commit_sha": "a1b2c3d",
                "round": 1,
                "touched_files": ["src/middleware/rate-limit.ts", "tests/middleware/rate-limit.test.ts"],
                "addressed_finding_ids": ["finding-001", "finding-002"],
            },
            marks=pytest.mark.requirement("S3-EXAMPLE-REVIEW-ADDRESSED"),
        ),
        pytest.param(
            "review_lgtm",
            {
                "quality_gate_result": "pass",
                "merge_ready": True,
                "nits": ["Consider renaming `rl` to `rateLimiter` for readability"],
            },
            marks=pytest.mark.requirement("S3-EXAMPLE-REVIEW-LGTM"),
        ),
    ],
)
def test_a_structured_example_is_read_field_by_field(name: str, some_fields: dict[str, object]) -> None:
    message = accepted(example(f"s3-{name}"))

    assert message.kind.value == name
    assert isinstance(message.body, dict)
    assert {key: message.body[key] for key in some_fields} == some_fields
    assert doubted(example(f"s3-{name}")) == set()
