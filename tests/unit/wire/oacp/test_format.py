"""A message file as a whole: what is written is read back, and nothing but a Parley error ever comes out."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid, NotText, ParleyError, SignatureInvalid, TooLarge, Unreadable
from parley.domain.limits import DEFAULT_LIMITS, HARD_FILE_BYTES, Limits
from parley.domain.message.message import Heading, Kind, Message
from parley.domain.times import format_time
from parley.wire.oacp.format import OacpFormat
from tests.samples.messages import NOW, PROPERTY, a_file, a_message, messages
from tests.unit.wire.oacp.test_auth import GOOD

FORMAT = OacpFormat()
SIGNED = a_file() + f'auth: "{GOOD}"\n'.encode()


def heading_of(message: Message) -> Heading:
    return Heading(
        message.id,
        message.sender,
        message.to,
        message.kind,
        message.priority,
        format_time(message.created_at),
        message.subject,
        format_time(message.expires_at) if message.expires_at else "",
        message.conversation_id,
        message.in_reply_to,
    )


def padded(size: int) -> bytes:
    """A valid message file of exactly `size` bytes."""
    empty = a_file(body='""')
    return a_file(body='"' + "x" * (size - len(empty)) + '"')


@PROPERTY
@given(messages())
def test_any_message_comes_back_as_it_was_sent(message: Message) -> None:
    content = FORMAT.encode(message)

    assert FORMAT.decode(content) == FORMAT.settle(message)


@PROPERTY
@given(messages())
def test_every_yaml_reader_sees_the_same_scalars_in_what_we_write(message: Message) -> None:
    content = FORMAT.encode(message)

    fields = yaml.load(content, Loader=yaml.CBaseLoader)

    assert yaml.load(content, Loader=yaml.BaseLoader) == fields
    assert FORMAT.packet(content) == fields
    assert (fields["id"], fields["subject"]) == (message.id, message.subject)
    if isinstance(message.body, str):
        assert fields["body"] == message.body


@PROPERTY
@given(messages())
def test_a_listing_shows_what_the_message_says(message: Message) -> None:
    content = FORMAT.encode(message)

    assert FORMAT.heading(content) == heading_of(message)


def outcome(content: bytes) -> tuple[Heading | str, Heading | str]:
    """What a listing and a full reading make of a file: a heading or the code of a refusal."""
    found: list[Heading | str] = []
    for verb in (FORMAT.heading, lambda data: heading_of(FORMAT.decode(data))):
        try:
            found.append(verb(content))
        except ParleyError as error:
            found.append(error.code)
    return found[0], found[1]


VALUES = (
    "claude", '"x"', '""', "null", "[a, b]", '["a", "a"]', "[]", "{a: b}", "P9", "p1", "P0", "handoff", "Handoff",
    "../x", "con", '"' + "x" * 200 + '"', '"' + "x" * 201 + '"', "2026-03-13T14:30:00Z", '"2026-03-13T14:30:00Z"',
    "2026-03-13T14:30:00+02:00", "2026-W11-5T14:30:00Z", "2026-03-13T143000.0Z", "2026-02-30T14:30:00Z",
    "2026-03-13T24:00:00Z", "2026-03-13T14:30:60Z", "2026-03-13t14:30:00z", "2026-03-13 14:30:00Z",
    "0000-01-01T00:00:00Z", '"2026-03-13T14:30:00\\u0660"', "|\n  two\n  lines", "now", "|\n  x",
)  # fmt: skip
NAMES = (
    "id", "from_", "to", "type", "priority", "created_at_utc", "subject", "body", "expires_at", "channel",
    "related_packet", "related_pr", "conversation_id", "parent_message_id", "context_keys", "unknown",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_listing_takes_and_refuses_exactly_what_a_full_reading_does(name: str) -> None:
    for value in VALUES:
        listed, read = outcome(a_file(**{name: value}))
        assert listed == read, value


@pytest.mark.parametrize("name", NAMES[:8])
def test_a_listing_misses_a_field_like_a_full_reading(name: str) -> None:
    listed, read = outcome(a_file(without=name.rstrip("_")))

    assert listed == read


@PROPERTY
@given(st.data())
def test_a_damaged_file_is_read_or_refused_alike_and_never_a_crash(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([a_file(), SIGNED, FORMAT.encode(data.draw(messages()))])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(
                st.binary(max_size=4), st.sampled_from([b"\n", b": ", b"#", b"&a ", b"!!x ", b"---\n", b"\xc2\x85"])
            )
        )

    listed, read = outcome(bytes(content))

    assert listed == read


@PROPERTY
@given(st.binary())
def test_random_bytes_are_refused_and_never_a_crash(content: bytes) -> None:
    for verb in (FORMAT.decode, FORMAT.heading):
        with pytest.raises(Invalid):
            verb(content)
    # What can be read but is no message, as {} is, comes back with its problems.
    with suppress(Invalid):
        reading = FORMAT.inspect(content)
        assert reading.message is None
        assert reading.problems


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        pytest.param(DEFAULT_LIMITS, 256 * 1024, id="default"),
        pytest.param(Limits(file_bytes=1_000), 1_000, id="configured"),
        pytest.param(Limits(file_bytes=2 * HARD_FILE_BYTES), 1024 * 1024, id="never above the hard limit"),
    ],
)
def test_a_file_of_the_largest_size_is_read_and_one_byte_more_refused(limits: Limits, size: int) -> None:
    """A65: the reader refuses by size before it looks at a single character."""
    form = OacpFormat(limits)

    assert form.decode(padded(size)).id
    assert form.heading(padded(size)).id
    for verb in (form.decode, form.heading, form.inspect, form.packet):
        with pytest.raises(TooLarge, match=str(size)) as refusal:
            verb(padded(size + 1))
        assert refusal.value.code == "too_large"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(a_file(subject='"caf\xe9"').replace(b"\xc3\xa9", b"\xe9"), id="Latin-1"),
        pytest.param(a_file().decode().encode("utf-16"), id="UTF-16"),
        pytest.param(a_file() + b"\xed\xa0\x80", id="a surrogate"),
        pytest.param(a_file(body='"a\0b"'), id="NUL"),
    ],
)
def test_what_is_not_utf_8_text_is_refused(content: bytes) -> None:
    with pytest.raises(NotText) as refusal:
        FORMAT.decode(content)

    assert refusal.value.code == "not_text"


def test_all_problems_of_a_file_are_named_at_once() -> None:
    with pytest.raises(Invalid) as refusal:
        FORMAT.decode(a_file(type="chat", priority="P7", created_at_utc="now", from_="../x", to="[a, /b]"))

    assert [(one.code, one.field) for one in refusal.value.problems] == [
        ("bad_type", "type"),
        ("bad_priority", "priority"),
        ("bad_time", "created_at_utc"),
        ("bad_agent_name", "from"),
        ("bad_agent_name", "to"),
    ]


def test_a_signed_file_is_read_with_its_trailer() -> None:
    assert FORMAT.decode(SIGNED).extras == {"auth": GOOD}
    assert FORMAT.heading(SIGNED) == FORMAT.heading(a_file())


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(SIGNED + b"channel: x\n", id="a field behind"),
        pytest.param(SIGNED + b"\n", id="a blank line behind"),
        pytest.param(SIGNED[:-1], id="no final newline"),
        pytest.param(a_file(auth="abc"), id="a trailer of another form"),
        pytest.param(SIGNED.replace(b'auth: "', b"auth: '").replace(b'"\n', b"'\n"), id="other quotes"),
    ],
)
def test_a_signed_file_that_was_touched_is_refused(content: bytes) -> None:
    """A11: listing and reading alike."""
    for verb in (FORMAT.decode, FORMAT.heading):
        with pytest.raises((SignatureInvalid, Unreadable)) as refusal:
            verb(content)
        assert refusal.value.code in {"signature_invalid", "not_yaml"}


def test_a_second_document_behind_a_signed_one_is_refused() -> None:
    """A11"""
    for verb in (FORMAT.decode, FORMAT.heading):
        with pytest.raises(Unreadable) as refusal:
            verb(SIGNED + b"---\nid: other\n")
        assert refusal.value.code == "multi_document"


def test_type_surprises_stay_text_until_the_schema_speaks() -> None:
    """A64"""
    message = FORMAT.decode(a_file(to="no", id="12_3", subject="12:30:45", channel="2026-03-13"))

    assert (message.to, message.id, message.subject, message.tag) == (("no",), "12_3", "12:30:45", "2026-03-13")


def test_a_message_that_would_be_read_otherwise_is_not_written() -> None:
    with pytest.raises(Unreadable, match="would not be read back"):
        FORMAT.encode(a_message(extras={"unknown": "x"}))


@pytest.mark.parametrize("body", ["Note: done", "Done.\nNext: deploy\n", "owner: me\n"])
def test_a_continuation_that_looks_like_fields_stays_text(body: str) -> None:
    message = a_message(Kind.FOLLOW_UP, body=body, in_reply_to="m0")

    assert FORMAT.decode(FORMAT.encode(message)).body == body


def test_the_shown_fields_are_those_of_the_specification() -> None:
    full = a_message(
        to=("a", "b"),
        expires_at=NOW + timedelta(days=1),
        tag="t",
        related_packet="p",
        related_pr="42",
        conversation_id="c",
        in_reply_to="m0",
        context_keys="k",
        extras={"model": "x"},
    )

    assert list(FORMAT.fields(full)) == [
        "id", "from", "to", "type", "priority", "created_at_utc", "expires_at", "channel", "related_packet",
        "related_pr", "conversation_id", "parent_message_id", "context_keys", "subject", "body", "model",
    ]  # fmt: skip
    assert FORMAT.fields(full)["to"] == ["a", "b"]
    assert FORMAT.fields(full)["expires_at"] == "2026-03-14T14:30:00Z"
    assert FORMAT.fields(a_message())["to"] == "codex"
    assert "channel" not in FORMAT.fields(a_message())


def test_a_packet_is_read_under_the_same_bounds_as_a_message() -> None:
    assert FORMAT.packet(b"findings:\n  - id: f1\n") == {"findings": [{"id": "f1"}]}
    with pytest.raises(Unreadable):
        FORMAT.packet(b"findings: &a [*a]\n")
