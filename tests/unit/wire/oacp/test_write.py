"""Emit strictly: one spelling, one order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.message.message import Kind
from parley.wire.oacp.write import emit
from tests.samples.messages import NOW, a_message, fields_of


def test_a_full_message_is_written_in_the_one_order() -> None:
    message = a_message(
        to=("codex", "gemini"),
        expires_at=NOW + timedelta(days=1),
        tag="review",
        related_packet="p-1",
        related_pr="42",
        conversation_id="conv-20260313-claude-001",
        in_reply_to="msg-0",
        context_keys="- a\n- b\n",
        body="Line one.\nLine two.",
        extras={"turns": "3", "autonomy_hint": "high"},
    )

    assert emit(message, DEFAULT_LIMITS) == (
        'id: "msg-20260313T1430Z-claude-a8f3"\n'
        'from: "claude"\n'
        'to: ["codex", "gemini"]\n'
        'type: "task_request"\n'
        'priority: "P2"\n'
        'created_at_utc: "2026-03-13T14:30:00Z"\n'
        'expires_at: "2026-03-14T14:30:00Z"\n'
        'channel: "review"\n'
        'related_packet: "p-1"\n'
        'related_pr: "42"\n'
        'conversation_id: "conv-20260313-claude-001"\n'
        'parent_message_id: "msg-0"\n'
        "context_keys: |\n"
        "  - a\n"
        "  - b\n"
        'autonomy_hint: "high"\n'
        'turns: "3"\n'
        'subject: "Implement rate limiting"\n'
        "body: |-\n"
        "  Line one.\n"
        "  Line two.\n"
    )


def test_what_was_not_given_is_not_written() -> None:
    names = [line.split(":")[0] for line in emit(a_message(body="x"), DEFAULT_LIMITS).splitlines()]

    assert names == ["id", "from", "to", "type", "priority", "created_at_utc", "subject", "body"]


def test_fields_of_others_are_never_written() -> None:
    assert "secret" not in emit(a_message(extras={"secret": "secret", "auth": "secret"}), DEFAULT_LIMITS)


def test_a_structured_body_is_written_as_text_in_a_block() -> None:
    text = emit(a_message(Kind.REVIEW_FEEDBACK), DEFAULT_LIMITS)

    assert text.endswith(
        'body: |\n  findings_packet: "packets/review/pr-55-round-1.yaml"\n  round: 1\n  blocking_count: 2\n'
    )


def test_a_body_of_20000_characters_is_written_and_one_more_refused() -> None:
    emit(a_message(body="é" * 20_000), DEFAULT_LIMITS)

    with pytest.raises(Invalid, match="20001 characters, at most 20000") as refusal:
        emit(a_message(body="é" * 20_001), DEFAULT_LIMITS)

    assert [(one.code, one.field) for one in refusal.value.problems] == [("body_too_long", "body")]


def test_a_structured_body_counts_as_it_is_written() -> None:
    message = a_message(Kind.REVIEW_REQUEST, body=fields_of(Kind.REVIEW_REQUEST, diff_summary="x" * 500))
    written = 'pr: "#55"\nbranch: "feat/rate-limit"\ndiff_summary: "' + "x" * 500 + '"\n'

    emit(message, Limits(body_chars=len(written)))

    with pytest.raises(Invalid, match=f"{len(written)} characters"):
        emit(message, Limits(body_chars=len(written) - 1))
