"""Emit strictly: what Parley writes, and the YAML form that every reader understands."""

from __future__ import annotations

import re

import pytest
import yaml

from parley.domain.errors.errors import Unreadable
from parley.domain.message.compose import EMITTED_EXTRAS
from parley.domain.message.message import Kind, Priority
from tests.conformance.oacp import FORMAT, accepted, fields_written, refusals, sent, written
from tests.samples.messages import STRUCTURED, a_draft, a_file, fields_of
from tests.unit.wire.oacp.test_auth import GOOD
from tests.unit.wire.yaml.test_write import AWKWARD


@pytest.mark.requirement("D-BODY-EMIT")
@pytest.mark.parametrize("kind", STRUCTURED)
def test_a_structured_body_is_written_as_yaml_text_in_a_literal_block(kind: Kind) -> None:
    text = written(a_draft(kind))
    body = fields_written(a_draft(kind))["body"]

    assert "\nbody: |\n  " in text
    assert isinstance(body, str)
    assert yaml.safe_load(body) == STRUCTURED[kind]


@pytest.mark.requirement("D-BODY-EMIT-LIMIT")
def test_a_body_above_20000_characters_is_a_clear_error() -> None:
    assert fields_written(a_draft(body="x" * 20_000))["body"] == "x" * 20_000
    assert refusals(a_draft(body="x" * 20_001)) == {("body_too_long", "body")}
    long = fields_of(Kind.REVIEW_REQUEST, diff_summary="x" * 20_000)
    assert refusals(a_draft(Kind.REVIEW_REQUEST, body=long)) == {("body_too_long", "body")}


@pytest.mark.requirement("D-RELATED-PR-EMIT")
@pytest.mark.parametrize(
    ("given", "expected"),
    [("42", "42"), ("#42", "42"), *[(url, url) for url in ("https://github.com/kiloloop/oacp/pull/42",)]],
)
def test_a_pull_request_is_written_in_digits_or_as_the_url_that_was_given(given: str, expected: str) -> None:
    assert fields_written(a_draft(related_pr=given))["related_pr"] == expected
    assert refusals(a_draft(related_pr="the big one")) == {("bad_related_pr", "related_pr")}


@pytest.mark.requirement("D-CHANNEL-EMIT")
def test_a_channel_is_written_in_letters_digits_underscore_and_hyphen() -> None:
    assert fields_written(a_draft(tag="Deploy_2-b"))["channel"] == "Deploy_2-b"
    for odd in ("two words", "a.b", "a/b", "über", "a\n"):
        assert refusals(a_draft(tag=odd)) == {("bad_channel", "channel")}


@pytest.mark.requirement("D-UNKNOWN-FIELDS-EMIT")
def test_unknown_fields_are_never_written() -> None:
    assert refusals(a_draft(extras={"custom": "x"})) == {("unknown_field", "custom")}
    with pytest.raises(Unreadable):
        FORMAT.encode(accepted(a_file(custom="x")))


@pytest.mark.requirement("D-TELEMETRY-EMIT")
def test_hints_and_telemetry_are_written_only_as_given() -> None:
    given = {name: f"{name} 1.50" for name in EMITTED_EXTRAS}

    assert {name: fields_written(a_draft(extras=given))[name] for name in given} == given
    assert not set(EMITTED_EXTRAS) & set(fields_written(a_draft()))
    assert fields_written(a_draft(extras={"turns": 3}))["turns"] == "3"


@pytest.mark.requirement("D-AUTH-KEPT")
def test_a_signed_file_is_kept_and_never_rendered_anew() -> None:
    signed = a_file() + f'auth: "{GOOD}"\n'.encode()

    message = accepted(signed)

    assert message.extras["auth"] == GOOD
    with pytest.raises(Unreadable):
        FORMAT.encode(message)
    for touched in (signed + b"channel: x\n", signed.replace(b'"\n', b'" \n'), signed[:-1]):
        with pytest.raises(Unreadable):
            accepted(touched)


@pytest.mark.requirement("D-FOLLOW-UP-EMIT")
def test_a_follow_up_is_written_with_its_schema_and_its_risk_as_priority() -> None:
    fields = fields_written(a_draft(Kind.FOLLOW_UP, body=fields_of(Kind.FOLLOW_UP, risk_tier="P3")))

    assert fields["priority"] == "P3"
    assert set(yaml.safe_load(str(fields["body"]))) == set(STRUCTURED[Kind.FOLLOW_UP])
    assert refusals(a_draft(Kind.FOLLOW_UP, body="Later.")) == {("body_not_structured", "body")}
    assert refusals(a_draft(Kind.FOLLOW_UP, priority=Priority.P1)) == {("bad_priority", "priority")}


@pytest.mark.requirement("D-HANDOFF-COMPLETE-EMIT")
def test_a_finished_handoff_is_written_with_a_boolean_and_a_hash() -> None:
    body = fields_of(Kind.HANDOFF_COMPLETE, tests_run="yes", pr="42")

    text = written(a_draft(Kind.HANDOFF_COMPLETE, body=body))

    assert '  pr: "#42"\n' in text
    assert "  tests_run: true\n" in text


@pytest.mark.requirement("D-HANDOFF-LISTS-EMIT")
def test_the_lists_of_a_handoff_are_written_as_strings() -> None:
    body = fields_of(Kind.HANDOFF, artifacts_to_review=[{"path": "src/auth.ts", "why": "core"}, 42])

    fields = yaml.safe_load(str(fields_written(a_draft(Kind.HANDOFF, body=body))["body"]))

    assert fields["artifacts_to_review"] == ["path: src/auth.ts; why: core", "42"]


FULL = a_draft(
    to=("codex", "gemini"),
    expires_at=sent(a_draft()).created_at.replace(year=2027),
    tag="review",
    related_packet="p-1",
    related_pr="42",
    conversation_id="conv-20260313-claude-001",
    in_reply_to="msg-0",
    context_keys="- a\n- b\n",
    body="one\ntwo",
)


@pytest.mark.requirement("D-YAML-KEY-ORDER")
def test_keys_are_written_in_the_one_order() -> None:
    assert list(fields_written(FULL)) == [
        "id", "from", "to", "type", "priority", "created_at_utc", "expires_at", "channel", "related_packet",
        "related_pr", "conversation_id", "parent_message_id", "context_keys", "subject", "body",
    ]  # fmt: skip


@pytest.mark.requirement("D-YAML-QUOTED")
def test_each_scalar_is_double_quoted_on_one_line() -> None:
    draft = FULL._replace(body="one line", context_keys="one", subject='say "hi"\t\\ \x1b end')

    for line in written(draft).splitlines():
        assert re.fullmatch(r'[a-z_]+: ("(?:[^"\\]|\\.)*"|\["codex", "gemini"\])', line), line


@pytest.mark.requirement("D-YAML-LITERAL")
@pytest.mark.parametrize(("end", "mark"), [("\n", "|"), ("", "|-")])
def test_several_lines_are_a_literal_block_indented_by_two(end: str, mark: str) -> None:
    text = written(a_draft(body=f"one\n\n  two{end}", context_keys=f"- a\n- b{end}"))

    assert text.endswith(f"body: {mark}\n  one\n\n    two\n")
    assert f"context_keys: {mark}\n  - a\n  - b\n" in text


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(" one\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-VISIBLE-START")),
        pytest.param("\none\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-VISIBLE-START")),
        pytest.param("\u3000one\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-VISIBLE-START")),
        pytest.param("one\ttwo\n3", marks=pytest.mark.requirement("D-YAML-LITERAL-NO-CONTROL")),
        pytest.param("\x1b[31m\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-NO-CONTROL")),
        pytest.param("one\x7f\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-NO-CONTROL")),
        pytest.param("one\x85\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-NO-CONTROL")),
        pytest.param("one\u2028\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-NO-CONTROL")),
        pytest.param("one\u2029\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-NO-CONTROL")),
        pytest.param("one\ufeff\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-NO-CONTROL")),
        pytest.param("one\r\ntwo", marks=pytest.mark.requirement("D-YAML-LITERAL-NO-CONTROL")),
        pytest.param("one\ntwo\n\n", marks=pytest.mark.requirement("D-YAML-LITERAL-END")),
    ],
)
def test_what_a_block_would_not_keep_is_double_quoted(body: str) -> None:
    text = written(a_draft(body=body))

    assert re.fullmatch(r'body: ".*"', text.split("\n")[-2])
    assert fields_written(a_draft(body=body))["body"] == body


@pytest.mark.requirement("D-YAML-ROUND-TRIP")
def test_forty_awkward_bodies_come_back_unchanged_from_every_reader() -> None:
    bodies = [body for body in AWKWARD if body.strip()]
    assert len(bodies) >= 40

    for body in bodies:
        text = written(a_draft(body=body))
        for loader in (yaml.CBaseLoader, yaml.BaseLoader, yaml.CSafeLoader, yaml.SafeLoader):
            assert yaml.load(text, Loader=loader)["body"] == body
        assert accepted(text.encode()).body == body


@pytest.mark.requirement("D-YAML-FLOW-LISTS")
def test_lists_are_written_in_flow_style() -> None:
    text = written(FULL._replace(kind=Kind.REVIEW_ADDRESSED, body=fields_of(Kind.REVIEW_ADDRESSED)))

    assert 'to: ["codex", "gemini"]\n' in text
    assert '  addressed_finding_ids: ["finding-001", "finding-002"]\n' in text


@pytest.mark.requirement("D-YAML-PLAIN-SYNTAX")
@pytest.mark.parametrize("kind", Kind)
def test_no_anchor_tag_folding_or_document_mark_is_written(kind: Kind) -> None:
    text = written(a_draft(kind, context_keys="&a *b !c\n--- > |\n"))

    for event in yaml.parse(text):
        assert getattr(event, "anchor", None) is None
        assert getattr(event, "tag", None) is None
        assert getattr(event, "style", None) in {None, '"', "|"}
        assert not getattr(event, "explicit", False) or not isinstance(event, yaml.DocumentStartEvent)


@pytest.mark.requirement("D-YAML-ENCODING")
def test_files_are_utf_8_with_line_feeds() -> None:
    content = FORMAT.encode(sent(a_draft(subject="日本語 ü", body="one\r\ntwo\r\n")))

    assert "日本語 ü".encode() in content
    assert b"\r" not in content
    assert not content.startswith(b"\xef\xbb\xbf")
    assert content.endswith(b"\n")
