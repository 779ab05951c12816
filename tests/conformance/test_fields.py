"""The fields of a message file, row by row."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from parley.domain.message.message import KINDS, Kind, Priority
from tests.conformance.oacp import FORMAT, accepted, doubted, fields_written, refusals, rejected, sent, written
from tests.samples.messages import NOW, a_draft, a_file, fields_of


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("id", marks=pytest.mark.requirement("S1-FIELD-ID", "S2-FIELD-ID")),
        pytest.param("from", marks=pytest.mark.requirement("S1-FIELD-FROM", "S2-FIELD-FROM")),
        pytest.param("to", marks=pytest.mark.requirement("S1-FIELD-TO", "S2-FIELD-TO")),
        pytest.param("type", marks=pytest.mark.requirement("S1-FIELD-TYPE", "S2-FIELD-TYPE", "S3-TYPE-REQUIRED")),
        pytest.param(
            "created_at_utc", marks=pytest.mark.requirement("S1-FIELD-CREATED-AT-UTC", "S2-FIELD-CREATED-AT-UTC")
        ),
        pytest.param("subject", marks=pytest.mark.requirement("S1-FIELD-SUBJECT", "S2-FIELD-SUBJECT")),
        pytest.param("body", marks=pytest.mark.requirement("S1-FIELD-BODY", "S2-FIELD-BODY")),
    ],
)
@pytest.mark.requirement("S2-REQUIRED-OMITTED-REJECTED")
def test_a_message_without_a_required_field_is_rejected_and_never_written(name: str) -> None:
    assert rejected(a_file(without=name)) == {("missing_field", name)}
    assert fields_written(a_draft())[name]


@pytest.mark.requirement("S1-FIELD-PRIORITY", "S2-FIELD-PRIORITY", "S2-REQUIRED-OMITTED-REJECTED")
def test_a_missing_priority_is_reported_by_validation_and_never_written() -> None:
    assert doubted(a_file(without="priority")) == {("missing_field", "priority")}
    assert fields_written(a_draft())["priority"] == "P2"


@pytest.mark.requirement("S1-FIELD-ID", "S2-FIELD-ID")
def test_an_id_is_read_as_any_text_and_written_in_the_pattern() -> None:
    uuid = "a1b2c3d4-5678-9abc-def0-1234567890ab"

    assert accepted(a_file(id=uuid)).id == uuid
    assert re.fullmatch(r"msg-\d{8}T\d{4}Z-claude-[a-z0-9]{4}", str(fields_written(a_draft())["id"]))


@pytest.mark.requirement("S1-FIELD-FROM", "S2-FIELD-FROM")
def test_the_sender_is_an_agent_name() -> None:
    assert accepted(a_file(from_="gemini")).sender == "gemini"
    assert rejected(a_file(from_="not/a/name")) == {("bad_agent_name", "from")}


@pytest.mark.requirement("S1-FIELD-TO", "S2-FIELD-TO")
def test_the_recipient_is_an_agent_name_or_a_list_of_at_most_ten() -> None:
    ten = tuple(f"agent{n}" for n in range(10))

    assert accepted(a_file(to="codex")).to == ("codex",)
    assert accepted(a_file(to="[codex, gemini]")).to == ("codex", "gemini")
    assert sent(a_draft(to=ten)).to == ten
    assert refusals(a_draft(to=(*ten, "agent10"))) == {("too_many_recipients", "to")}
    assert rejected(a_file(to="[codex, ../x]")) == {("bad_agent_name", "to")}


@pytest.mark.requirement("S1-FIELD-TYPE", "S2-FIELD-TYPE", "S3-TYPE-REQUIRED")
def test_the_type_is_one_of_the_twelve() -> None:
    for kind in Kind:
        assert accepted(a_file(type=kind.value)).kind is kind
    for other in ("chat", "TASK_REQUEST", "taskrequest", "reply"):
        assert rejected(a_file(type=other)) == {("bad_type", "type")}


@pytest.mark.requirement("S1-FIELD-PRIORITY", "S2-FIELD-PRIORITY")
def test_the_priority_is_p0_to_p3() -> None:
    for priority in ("P0", "P1", "P2", "P3"):
        assert accepted(a_file(priority=priority)).priority is Priority(priority)
    for other in ("P4", "p0", "0", "high"):
        assert rejected(a_file(priority=other)) == {("bad_priority", "priority")}


@pytest.mark.requirement("S1-FIELD-CREATED-AT-UTC", "S2-FIELD-CREATED-AT-UTC")
def test_the_time_of_creation_is_an_iso_8601_moment() -> None:
    assert accepted(a_file(created_at_utc='"2025-01-15T14:30:00Z"')).created_at == datetime(
        2025, 1, 15, 14, 30, tzinfo=UTC
    )
    assert rejected(a_file(created_at_utc="yesterday")) == {("bad_time", "created_at_utc")}
    assert fields_written(a_draft())["created_at_utc"] == "2026-03-13T14:30:00Z"


@pytest.mark.requirement("S1-FIELD-SUBJECT", "S2-FIELD-SUBJECT")
def test_the_subject_is_free_text_on_one_physical_line() -> None:
    subject = 'Übersicht: "quotes", #hash & 日本語'

    assert accepted(a_file(subject='"Review auth middleware PR"')).subject == "Review auth middleware PR"
    assert fields_written(a_draft(subject=subject))["subject"] == subject
    assert refusals(a_draft(subject="two\r\nlines")) == {("not_one_line", "subject")}
    assert doubted(a_file(subject=r'"two\nlines"')) == {("not_one_line", "subject")}


@pytest.mark.requirement("S1-FIELD-BODY", "S2-FIELD-BODY")
def test_the_body_is_free_text_or_structured_yaml() -> None:
    assert accepted(a_file(body='"free text"')).body == "free text"
    as_mapping = "\n  findings_packet: packets/x.yaml\n  round: 1\n  blocking_count: 0"
    as_text = "|" + as_mapping
    expected = {"findings_packet": "packets/x.yaml", "round": 1, "blocking_count": 0}

    assert accepted(a_file(type="review_feedback", body=as_mapping)).body == expected
    assert accepted(a_file(type="review_feedback", body=as_text)).body == expected
    assert rejected(a_file(body="[a, list]")) == {("bad_field", "body")}


@pytest.mark.requirement("S2-FIELD-OPTIONAL")
def test_a_message_with_none_of_the_optional_fields_is_complete() -> None:
    message = accepted(a_file())

    assert doubted(a_file()) == set()
    assert (message.expires_at, message.tag, message.related_packet, message.related_pr) == (None, "", "", "")
    assert (message.conversation_id, message.in_reply_to, message.context_keys) == ("", "", "")
    assert set(fields_written(a_draft())) == {
        "id", "from", "to", "type", "priority", "created_at_utc", "subject", "body"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        pytest.param("channel", "tag", "review", marks=pytest.mark.requirement("S1-FIELD-CHANNEL", "S2-FIELD-CHANNEL")),
        pytest.param(
            "related_packet",
            "related_packet",
            "packet-7",
            marks=pytest.mark.requirement("S1-FIELD-RELATED-PACKET", "S2-FIELD-RELATED-PACKET"),
        ),
        pytest.param(
            "related_pr",
            "related_pr",
            "42",
            marks=pytest.mark.requirement("S1-FIELD-RELATED-PR", "S2-FIELD-RELATED-PR"),
        ),
        pytest.param(
            "conversation_id",
            "conversation_id",
            "conv-20260313-claude-001",
            marks=pytest.mark.requirement("S1-FIELD-CONVERSATION-ID", "S2-FIELD-CONVERSATION-ID"),
        ),
        pytest.param(
            "parent_message_id",
            "in_reply_to",
            "msg-20260313T1400Z-codex-b2e1",
            marks=pytest.mark.requirement("S1-FIELD-PARENT-MESSAGE-ID", "S2-FIELD-PARENT-MESSAGE-ID"),
        ),
        pytest.param(
            "context_keys",
            "context_keys",
            "Key decisions from before.",
            marks=pytest.mark.requirement("S1-FIELD-CONTEXT-KEYS", "S2-FIELD-CONTEXT-KEYS"),
        ),
    ],
)
@pytest.mark.requirement("S2-FIELD-OPTIONAL")
def test_an_optional_text_is_read_when_present_and_written_when_given(name: str, attribute: str, value: str) -> None:
    assert getattr(accepted(a_file(**{name: f'"{value}"'})), attribute) == value
    assert fields_written(a_draft(**{attribute: value}))[name] == value
    assert rejected(a_file(**{name: "{a: mapping}"})) == {("bad_field", name)}


@pytest.mark.requirement("S1-FIELD-EXPIRES-AT", "S2-FIELD-EXPIRES-AT")
def test_an_expiry_is_an_iso_8601_moment_and_only_advice() -> None:
    message = accepted(a_file(expires_at='"2026-03-14T12:00:00Z"'))

    assert message.expires_at == datetime(2026, 3, 14, 12, tzinfo=UTC)
    assert message.expired(datetime(2026, 3, 14, 12, tzinfo=UTC))
    assert not message.expired(datetime(2026, 3, 14, 11, 59, 59, tzinfo=UTC))
    assert fields_written(a_draft(expires_at=NOW + timedelta(days=1)))["expires_at"] == "2026-03-14T14:30:00Z"
    # Advisory: a message that has expired, or whose expiry cannot be read, is a message all the same.
    assert accepted(a_file(expires_at='"2000-01-01T00:00:00Z"')).id
    assert doubted(a_file(expires_at="soon")) == {("bad_time", "expires_at")}


@pytest.mark.requirement("S2-FIELD-CHANNEL")
def test_a_channel_has_at_most_64_characters() -> None:
    assert sent(a_draft(tag="x" * 64)).tag == "x" * 64
    assert refusals(a_draft(tag="x" * 65)) == {("too_long", "channel")}
    assert doubted(a_file(channel="x" * 64)) == set()
    assert doubted(a_file(channel="x" * 65)) == {("too_long", "channel")}


@pytest.mark.requirement("S1-FIELD-RELATED-PR")
def test_a_pull_request_is_a_number_or_a_url() -> None:
    url = "https://github.com/kiloloop/oacp/pull/42"

    assert accepted(a_file(related_pr=f'"{url}"')).related_pr == url
    assert doubted(a_file(related_pr=f'"{url}"')) == doubted(a_file(related_pr="42")) == set()
    assert doubted(a_file(related_pr="no number")) == {("bad_related_pr", "related_pr")}


@pytest.mark.requirement("S1-FIELD-CONTEXT-KEYS", "S2-FIELD-CONTEXT-KEYS")
def test_context_is_a_list_of_references_or_text_of_at_most_500_words() -> None:
    as_list = a_file(context_keys='\n  - "pr:42"\n  - "file:src/auth.ts"')
    as_text = a_file(context_keys="|\n  Key decisions\n  and artifacts.")

    assert accepted(as_list).context_keys == "- pr:42\n- file:src/auth.ts"
    assert accepted(as_text).context_keys == "Key decisions\nand artifacts.\n"
    assert doubted(a_file(context_keys='"' + "word " * 500 + '"')) == set()
    assert doubted(a_file(context_keys='"' + "word " * 501 + '"')) == {("long_context", "context_keys")}


@pytest.mark.requirement("S1-FORMAT-SINGLE-FILE")
def test_a_message_is_one_yaml_document_in_one_file() -> None:
    text = written(a_draft(Kind.HANDOFF, body=fields_of(Kind.HANDOFF)))

    assert len(list(yaml.safe_load_all(text))) == 1
    assert FORMAT.decode(text.encode()).kind is KINDS["handoff"]
