"""The body schema of each structured type, field by field."""

from __future__ import annotations

import pytest

from parley.domain.message.bodies import check_body, shape_body
from parley.domain.message.message import Kind, Value
from tests.samples.messages import fields_of


def said_of(kind: Kind, body: dict[str, Value]) -> list[tuple[str, str]]:
    """What the schema finds after the reader has given each field its type."""
    return [(problem.code, problem.field) for problem in check_body(kind, shape_body(kind, body))]


def with_field(kind: Kind, name: str, value: Value) -> dict[str, Value]:
    """A complete body of `kind` with one field, possibly inside `context_bundle`, changed; None takes it away."""
    if "." not in name:
        return fields_of(kind, **{name: value})
    outer, inner = name.split(".")
    body = fields_of(kind)
    bundle = body[outer]
    assert isinstance(bundle, dict)
    body[outer] = {key: item for key, item in {**bundle, inner: value}.items() if item is not None}
    return body


TEXT: tuple[list[Value], list[Value]] = (["any text", "42"], [["a"], {"a": "b"}])
FULL_LIST: tuple[list[Value], list[Value]] = ([["one"], ["one", "two"]], ["text", []])
LIST: tuple[list[Value], list[Value]] = ([["one"], []], ["text", {"a": "b"}])
FROM_ONE: tuple[list[Value], list[Value]] = ([1, "1", 7], [0, "0", -1, "one", "1.5", ["1"]])
FROM_ZERO: tuple[list[Value], list[Value]] = ([0, "0", 2], [-1, "none", ["1"]])
BOOLEAN: tuple[list[Value], list[Value]] = ([True, False, "true", "no"], ["maybe", "1", ["true"]])


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        pytest.param("follow_up", "source_ref", TEXT, marks=pytest.mark.requirement("S3-FOLLOW-UP-BODY-SOURCE-REF")),
        pytest.param("follow_up", "summary", TEXT, marks=pytest.mark.requirement("S3-FOLLOW-UP-BODY-SUMMARY")),
        pytest.param("follow_up", "next_action", TEXT, marks=pytest.mark.requirement("S3-FOLLOW-UP-BODY-NEXT-ACTION")),
        pytest.param("follow_up", "owner", TEXT, marks=pytest.mark.requirement("S3-FOLLOW-UP-BODY-OWNER")),
        pytest.param(
            "follow_up",
            "source_type",
            (["review", "task", "deploy", "incident", "other"], ["meeting", "Review", ["review"]]),
            marks=pytest.mark.requirement("S3-FOLLOW-UP-BODY-SOURCE-TYPE"),
        ),
        pytest.param(
            "follow_up",
            "risk_tier",
            (["P2", "P3"], ["P0", "P1", "low", ["P2"]]),
            marks=pytest.mark.requirement("S3-FOLLOW-UP-BODY-RISK-TIER"),
        ),
        pytest.param("handoff", "source_agent", TEXT, marks=pytest.mark.requirement("S3-HANDOFF-BODY-SOURCE-AGENT")),
        pytest.param("handoff", "target_agent", TEXT, marks=pytest.mark.requirement("S3-HANDOFF-BODY-TARGET-AGENT")),
        pytest.param("handoff", "intent", TEXT, marks=pytest.mark.requirement("S3-HANDOFF-BODY-INTENT")),
        pytest.param(
            "handoff",
            "artifacts_to_review",
            FULL_LIST,
            marks=pytest.mark.requirement("S3-HANDOFF-BODY-ARTIFACTS-TO-REVIEW"),
        ),
        pytest.param(
            "handoff",
            "definition_of_done",
            FULL_LIST,
            marks=pytest.mark.requirement("S3-HANDOFF-BODY-DEFINITION-OF-DONE"),
        ),
        pytest.param(
            "handoff",
            "context_bundle.files_touched",
            FULL_LIST,
            marks=pytest.mark.requirement("S3-HANDOFF-BODY-CONTEXT-BUNDLE-FILES-TOUCHED"),
        ),
        pytest.param(
            "handoff",
            "context_bundle.decisions_made",
            FULL_LIST,
            marks=pytest.mark.requirement("S3-HANDOFF-BODY-CONTEXT-BUNDLE-DECISIONS-MADE"),
        ),
        pytest.param(
            "handoff",
            "context_bundle.blockers_hit",
            FULL_LIST,
            marks=pytest.mark.requirement("S3-HANDOFF-BODY-CONTEXT-BUNDLE-BLOCKERS-HIT"),
        ),
        pytest.param(
            "handoff",
            "context_bundle.suggested_next_steps",
            FULL_LIST,
            marks=pytest.mark.requirement("S3-HANDOFF-BODY-CONTEXT-BUNDLE-SUGGESTED-NEXT-STEPS"),
        ),
        pytest.param(
            "handoff_complete", "issue", TEXT, marks=pytest.mark.requirement("S3-HANDOFF-COMPLETE-BODY-ISSUE")
        ),
        pytest.param("handoff_complete", "pr", TEXT, marks=pytest.mark.requirement("S3-HANDOFF-COMPLETE-BODY-PR")),
        pytest.param(
            "handoff_complete", "branch", TEXT, marks=pytest.mark.requirement("S3-HANDOFF-COMPLETE-BODY-BRANCH")
        ),
        pytest.param(
            "handoff_complete",
            "tests_run",
            BOOLEAN,
            marks=pytest.mark.requirement("S3-HANDOFF-COMPLETE-BODY-TESTS-RUN"),
        ),
        pytest.param(
            "handoff_complete", "next_owner", TEXT, marks=pytest.mark.requirement("S3-HANDOFF-COMPLETE-BODY-NEXT-OWNER")
        ),
        pytest.param("review_request", "pr", TEXT, marks=pytest.mark.requirement("S3-REVIEW-REQUEST-BODY-PR")),
        pytest.param("review_request", "branch", TEXT, marks=pytest.mark.requirement("S3-REVIEW-REQUEST-BODY-BRANCH")),
        pytest.param(
            "review_request", "diff_summary", TEXT, marks=pytest.mark.requirement("S3-REVIEW-REQUEST-BODY-DIFF-SUMMARY")
        ),
        pytest.param(
            "review_feedback",
            "findings_packet",
            TEXT,
            marks=pytest.mark.requirement("S3-REVIEW-FEEDBACK-BODY-FINDINGS-PACKET"),
        ),
        pytest.param(
            "review_feedback", "round", FROM_ONE, marks=pytest.mark.requirement("S3-REVIEW-FEEDBACK-BODY-ROUND")
        ),
        pytest.param(
            "review_feedback",
            "blocking_count",
            FROM_ZERO,
            marks=pytest.mark.requirement("S3-REVIEW-FEEDBACK-BODY-BLOCKING-COUNT"),
        ),
        pytest.param(
            "review_addressed", "commit_sha", TEXT, marks=pytest.mark.requirement("S3-REVIEW-ADDRESSED-BODY-COMMIT-SHA")
        ),
        pytest.param(
            "review_addressed",
            "changes_summary",
            TEXT,
            marks=pytest.mark.requirement("S3-REVIEW-ADDRESSED-BODY-CHANGES-SUMMARY"),
        ),
        pytest.param(
            "review_addressed", "round", FROM_ONE, marks=pytest.mark.requirement("S3-REVIEW-ADDRESSED-BODY-ROUND")
        ),
        pytest.param(
            "review_addressed",
            "touched_files",
            LIST,
            marks=pytest.mark.requirement("S3-REVIEW-ADDRESSED-BODY-TOUCHED-FILES"),
        ),
        pytest.param(
            "review_addressed",
            "addressed_finding_ids",
            LIST,
            marks=pytest.mark.requirement("S3-REVIEW-ADDRESSED-BODY-ADDRESSED-FINDING-IDS"),
        ),
        pytest.param(
            "review_lgtm",
            "quality_gate_result",
            (["pass", "fail"], ["passed", "PASS", ["pass"]]),
            marks=pytest.mark.requirement("S3-REVIEW-LGTM-BODY-QUALITY-GATE-RESULT"),
        ),
        pytest.param(
            "review_lgtm", "merge_ready", BOOLEAN, marks=pytest.mark.requirement("S3-REVIEW-LGTM-BODY-MERGE-READY")
        ),
    ],
)
def test_a_required_field_is_missed_and_has_its_type(
    kind: str, name: str, values: tuple[list[Value], list[Value]]
) -> None:
    good, bad = values

    assert said_of(Kind(kind), with_field(Kind(kind), name, None)) == [("missing_body_field", f"body.{name}")]
    for value in good:
        assert said_of(Kind(kind), with_field(Kind(kind), name, value)) == []
    for value in bad:
        assert said_of(Kind(kind), with_field(Kind(kind), name, value)) == [("bad_body_field", f"body.{name}")]


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        pytest.param(
            "follow_up", "tracking_issue", TEXT, marks=pytest.mark.requirement("S3-FOLLOW-UP-BODY-TRACKING-ISSUE")
        ),
        pytest.param("follow_up", "due_hint", TEXT, marks=pytest.mark.requirement("S3-FOLLOW-UP-BODY-DUE-HINT")),
        pytest.param(
            "review_request",
            "max_turns_reviewer",
            FROM_ONE,
            marks=pytest.mark.requirement("S3-REVIEW-REQUEST-BODY-MAX-TURNS-REVIEWER"),
        ),
        pytest.param(
            "review_request",
            "max_runtime_s_reviewer",
            FROM_ONE,
            marks=pytest.mark.requirement("S3-REVIEW-REQUEST-BODY-MAX-RUNTIME-S-REVIEWER"),
        ),
        pytest.param("review_lgtm", "nits", LIST, marks=pytest.mark.requirement("S3-REVIEW-LGTM-BODY-NITS")),
    ],
)
def test_an_optional_field_may_be_left_out_and_has_its_type(
    kind: str, name: str, values: tuple[list[Value], list[Value]]
) -> None:
    good, bad = values

    assert name not in fields_of(Kind(kind))
    assert said_of(Kind(kind), fields_of(Kind(kind))) == []
    for value in good:
        assert said_of(Kind(kind), with_field(Kind(kind), name, value)) == []
    for value in bad:
        assert said_of(Kind(kind), with_field(Kind(kind), name, value)) == [("bad_body_field", f"body.{name}")]
