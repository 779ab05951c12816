"""How messages belong together, and who may be addressed at once."""

from __future__ import annotations

import re

import pytest
import yaml

from parley.domain import names
from parley.domain.hashes import digest
from parley.domain.message.compose import warnings
from parley.domain.message.message import Kind
from tests.conformance.oacp import (
    FORMAT,
    accepted,
    doubted,
    fields_written,
    refusals,
    rejected,
    reply_to,
    sent,
    written,
)
from tests.samples.messages import NOW, a_draft, a_file

CONVERSATION = "conv-20260313-claude-001"
FIRST = sent(a_draft(Kind.QUESTION, conversation_id=CONVERSATION))


@pytest.mark.requirement("S1-LIFECYCLE-CREATE")
def test_a_message_is_created_as_yaml_with_an_id_of_its_own() -> None:
    one, other = (FORMAT.encode(sent(a_draft(), suffix=suffix)) for suffix in ("a8f3", "b2e1"))

    assert yaml.safe_load(one)["id"] == "msg-20260313T1430Z-claude-a8f3"
    assert yaml.safe_load(other)["id"] == "msg-20260313T1430Z-claude-b2e1"


@pytest.mark.requirement("S1-LIFECYCLE-REPLY-IS-NEW")
def test_a_reply_is_a_new_message_and_leaves_the_old_one_as_it_was() -> None:
    before = FORMAT.encode(FIRST)

    reply = sent(reply_to(FIRST, "Signed JWTs."), FIRST, suffix="b2e1")

    assert reply.id != FIRST.id
    assert digest(FORMAT.encode(FIRST)) == digest(before)
    with pytest.raises(AttributeError):
        FIRST.body = "edited"  # type: ignore[misc]


@pytest.mark.requirement("S1-THREAD-CONVERSATION-ID", "S1-THREAD-CONTINUE-CONVERSATION", "D-CONVERSATION-ID-EMIT")
@pytest.mark.parametrize("conversation", [CONVERSATION, "review-pr-42", "Anything at all: 7"])
def test_every_reply_in_a_thread_carries_the_conversation_of_its_first_message(conversation: str) -> None:
    first = FIRST._replace(conversation_id=conversation)
    second = sent(reply_to(first), first, suffix="b2e1")
    third = sent(reply_to(second), second, suffix="c4d7")

    assert {one.conversation_id for one in (first, second, third)} == {conversation}


@pytest.mark.requirement("D-CONVERSATION-ID-EMIT")
def test_a_minted_conversation_is_named_by_day_agent_and_number() -> None:
    assert names.conversation_id(NOW, "claude", 1) == CONVERSATION
    assert re.fullmatch(r"conv-\d{8}-codex-\d{3,}", names.conversation_id(NOW, "codex", 1_000))


@pytest.mark.requirement("D-CONVERSATION-ID-ACCEPT")
def test_a_conversation_of_others_is_opaque_and_at_most_200_characters() -> None:
    for opaque in ("review-pr-42", "ü/../7", "x" * 200):
        assert accepted(a_file(conversation_id=f'"{opaque}"')).conversation_id == opaque
    assert rejected(a_file(conversation_id="x" * 201)) == {("too_long", "conversation_id")}


@pytest.mark.requirement("S1-THREAD-PARENT-MESSAGE-ID", "S1-THREAD-CONTINUE-PARENT")
def test_a_reply_names_the_message_it_answers() -> None:
    second = sent(reply_to(FIRST), FIRST, suffix="b2e1")
    third = sent(reply_to(second), second, suffix="c4d7")

    assert (second.in_reply_to, third.in_reply_to) == (FIRST.id, second.id)
    assert yaml.safe_load(FORMAT.encode(second))["parent_message_id"] == FIRST.id


@pytest.mark.requirement("S1-THREAD-START")
def test_a_thread_starts_with_a_conversation_and_without_a_parent() -> None:
    fields = yaml.safe_load(FORMAT.encode(FIRST))

    assert fields["conversation_id"] == CONVERSATION
    assert "parent_message_id" not in fields


@pytest.mark.requirement("S1-THREAD-CONTEXT-KEYS", "S1-THREAD-CONTINUE-CONTEXT", "D-CONTEXT-KEYS-ACCEPT")
def test_references_are_read_from_a_list_or_a_text_and_added_to_a_reply() -> None:
    references = "- src/middleware/auth.ts\n- https://example.org/x\n- msg-20260313T1400Z-codex-b2e1"
    as_list = "\n  - src/middleware/auth.ts\n  - https://example.org/x\n  - msg-20260313T1400Z-codex-b2e1"

    assert accepted(a_file(context_keys=as_list)).context_keys == references
    assert accepted(a_file(context_keys='"any text"')).context_keys == "any text"
    reply = sent(reply_to(FIRST)._replace(context_keys=references), FIRST)
    assert accepted(FORMAT.encode(reply)).context_keys == references


@pytest.mark.requirement("D-CONTEXT-KEYS-EMIT")
def test_references_are_written_as_text_with_a_warning_above_500_words() -> None:
    text = written(a_draft(context_keys="- pr:42\n- file:src/auth.ts\n"))

    assert "context_keys: |\n  - pr:42\n  - file:src/auth.ts\n" in text
    assert warnings(sent(a_draft(context_keys="word " * 500))) == []
    assert [one.code for one in warnings(sent(a_draft(context_keys="word " * 501)))] == ["long_context"]


@pytest.mark.requirement("S1-BROADCAST-LIST", "D-TO-ACCEPT")
def test_a_list_of_recipients_is_read_in_every_spelling_and_folded() -> None:
    for to in ("[codex, gemini, codex]", '["codex", "gemini"]', "\n  - codex\n  - gemini\n  - gemini"):
        assert accepted(a_file(to=to)).to == ("codex", "gemini")
    assert accepted(a_file(to="codex")).to == ("codex",)


@pytest.mark.requirement("D-TO-EMIT", "S1-BROADCAST-LIST")
def test_recipients_are_written_as_one_text_or_a_list_without_the_sender() -> None:
    assert 'to: "codex"\n' in written(a_draft(to=("codex",)))
    assert 'to: ["codex", "gemini"]\n' in written(a_draft(to=("codex", "gemini", "codex")))
    assert fields_written(a_draft(to=("claude",)))["to"] == "claude"
    assert refusals(a_draft(to=("codex", "claude"))) == {("sender_in_list", "to")}


@pytest.mark.requirement("S1-BROADCAST-MAX-10", "D-TO-EMIT")
def test_a_broadcast_has_at_most_ten_recipients() -> None:
    ten = [f"agent{n}" for n in range(10)]

    assert fields_written(a_draft(to=tuple(ten)))["to"] == ten
    assert refusals(a_draft(to=(*ten, "agent10"))) == {("too_many_recipients", "to")}
    assert doubted(a_file(to=f"[{', '.join([*ten, 'agent10'])}]")) == {("too_many_recipients", "to")}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("handoff", marks=pytest.mark.requirement("S1-BROADCAST-NO-HANDOFF")),
        pytest.param("handoff_complete", marks=pytest.mark.requirement("S1-BROADCAST-NO-HANDOFF-COMPLETE")),
    ],
)
def test_a_handoff_cannot_be_broadcast(kind: str) -> None:
    assert refusals(a_draft(Kind(kind), to=("codex", "gemini"))) == {("point_to_point", "to")}
    assert sent(a_draft(Kind(kind), to=("codex", "codex"))).to == ("codex",)


@pytest.mark.requirement("S1-BROADCAST-LIST")
@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.HANDOFF, Kind.HANDOFF_COMPLETE}))
def test_every_other_type_can_be_broadcast(kind: Kind) -> None:
    assert sent(a_draft(kind, to=("codex", "gemini"))).to == ("codex", "gemini")
