"""File names, ids and times in the spelling of the specification."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from parley.adapters.process import SystemIds
from parley.app.mailbox.kernel import drive
from parley.domain import names
from parley.domain.errors.errors import Duplicate, Invalid
from parley.domain.hashes import digest
from parley.domain.mailbox.ledger import MailboxChanges, StoredMessage
from parley.domain.message.message import Kind
from parley.domain.times import format_time, parse_time
from tests.conformance.oacp import FORMAT, accepted, sent
from tests.rigs.memory_store import MemoryStore
from tests.samples.messages import NOW, a_draft, a_file

AT = datetime(2026, 2, 11, 14, 30, 59, tzinfo=UTC)


@pytest.mark.requirement("S2-FILE-NAME-PATTERN", "S2-FILE-NAME-EXAMPLE")
def test_a_file_is_named_by_minute_sender_and_type() -> None:
    assert names.file_name(AT, "codex", "task_request") == "20260211T1430Z_codex_task_request.yaml"
    for kind in Kind:
        name = names.file_name(AT, "claude", kind)
        assert re.fullmatch(r"\d{8}T\d{4}Z_claude_[a-z_]+\.yaml", name)
        assert name.removesuffix(".yaml").split("_", 2) == ["20260211T1430Z", "claude", kind.value]


@pytest.mark.requirement("S2-FILE-NAME-TIMESTAMP", "S2-TIME-COMPACT")
def test_the_time_in_a_file_name_is_compact_to_the_minute_and_utc() -> None:
    assert names.file_name(NOW, "codex", "question").split("_")[0] == "20260313T1430Z"
    assert names.compact(datetime(2026, 1, 2, 3, 4, 59, tzinfo=UTC)) == "20260102T0304Z"


@pytest.mark.requirement("S2-FILE-NAME-FROM")
@pytest.mark.parametrize("sender", ["codex", "claude-2", "my_agent"])
def test_the_second_part_of_a_file_name_is_the_sender(sender: str) -> None:
    assert names.file_name(AT, sender, "question") == f"20260211T1430Z_{sender}_question.yaml"


@pytest.mark.requirement("S2-FILE-NAME-TYPE")
@pytest.mark.parametrize("kind", Kind)
def test_the_third_part_of_a_file_name_is_the_type(kind: Kind) -> None:
    assert names.file_name(AT, "codex", kind) == f"20260211T1430Z_codex_{kind.value}.yaml"


@pytest.mark.requirement("S2-ID-PATTERN", "S2-ID-EXAMPLE")
def test_an_id_is_made_of_time_sender_and_chance() -> None:
    assert names.message_id(NOW, "claude", "a8f3") == "msg-20260313T1430Z-claude-a8f3"
    assert sent(a_draft()).id == "msg-20260313T1430Z-claude-a8f3"


@pytest.mark.requirement("S2-ID-PREFIX")
def test_an_id_begins_with_msg() -> None:
    assert names.message_id(AT, "codex", "zzzz").startswith("msg-")


@pytest.mark.requirement("S2-ID-TIMESTAMP")
def test_an_id_carries_the_compact_time() -> None:
    assert names.message_id(AT, "codex", "zzzz").split("-")[1] == "20260211T1430Z"


@pytest.mark.requirement("S2-ID-SENDER")
def test_an_id_carries_its_sender() -> None:
    assert names.message_id(AT, "codex", "zzzz").split("-")[2] == "codex"
    assert sent(a_draft(sender="gemini")).id.split("-")[2] == "gemini"


@pytest.mark.requirement("S2-ID-RAND")
def test_an_id_ends_in_four_alphanumeric_characters() -> None:
    suffixes = {names.time_ordered(AT + timedelta(milliseconds=n), SystemIds().token()[:4])[:4] for n in range(100)}

    assert all(re.fullmatch(r"[a-z0-9]{4}", suffix) for suffix in suffixes | {SystemIds().suffix(4)})
    assert len(suffixes) == 100
    assert names.message_id(AT, "claude", "b2e1").endswith("-b2e1")


@pytest.mark.requirement("D-ID-EMIT")
def test_a_minted_id_is_never_given_to_two_messages() -> None:
    store = MemoryStore()
    first, second = (FORMAT.encode(sent(a_draft(subject=subject))) for subject in ("one", "two"))
    drive(store.commit(MailboxChanges((StoredMessage(accepted(first), first, digest(first), minted=True),))))

    with pytest.raises(Duplicate):
        drive(store.commit(MailboxChanges((StoredMessage(accepted(second), second, digest(second), minted=True),))))

    longer = names.message_id(NOW, "claude", SystemIds().suffix(10))
    assert re.fullmatch(r"msg-20260313T1430Z-claude-[a-z0-9]{10}", longer)


@pytest.mark.requirement("D-FILE-NAME-ACCEPT")
def test_any_yaml_file_is_a_message_and_its_facts_come_from_within() -> None:
    for name in ("note.yaml", ".hidden.yaml", "19700101T0000Z_mallory_handoff.yaml"):
        assert names.is_message_file(name)
    assert not names.is_message_file("note.yaml.tmp")
    message, heading = accepted(a_file(from_="gemini", type="question")), FORMAT.heading(a_file(from_="gemini"))

    assert (message.sender, message.kind, heading.sender) == ("gemini", Kind.QUESTION, "gemini")


@pytest.mark.requirement("S2-TIME-FORMAT", "D-TIME-EMIT")
def test_times_are_written_in_one_form_with_ascii_digits() -> None:
    text = FORMAT.encode(sent(a_draft(expires_at=NOW + timedelta(hours=1)))).decode()

    assert 'created_at_utc: "2026-03-13T14:30:00Z"\n' in text
    assert 'expires_at: "2026-03-13T15:30:00Z"\n' in text
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", format_time(NOW))


@pytest.mark.requirement("S2-TIME-UTC")
def test_local_times_are_written_as_utc_and_never_read() -> None:
    away = datetime(2026, 3, 13, 16, 30, tzinfo=timezone(timedelta(hours=2)))

    assert format_time(away) == "2026-03-13T14:30:00Z"
    assert parse_time("2026-03-13T14:30:00Z") == NOW
    with pytest.raises(Invalid):
        parse_time("2026-03-13T14:30:00")


@pytest.mark.requirement("S2-TIME-EXAMPLES")
@pytest.mark.parametrize("text", ["2026-03-13T14:30:00Z", "2026-01-15T09:00:00Z", "2026-12-31T23:59:59Z"])
def test_the_examples_of_times_are_read_and_written_alike(text: str) -> None:
    assert format_time(parse_time(text)) == text


@pytest.mark.requirement("D-TIME-ACCEPT")
@pytest.mark.parametrize(
    "text",
    ["2026-03-13T14:30:00Z", "2026-03-13T16:30:00+02:00", "2026-03-13T08:30:00-06:00", "2026-03-13T14:30:00.000Z"],
)
def test_times_with_an_offset_or_a_fraction_are_read(text: str) -> None:
    assert accepted(a_file(created_at_utc=f'"{text}"')).created_at == NOW
