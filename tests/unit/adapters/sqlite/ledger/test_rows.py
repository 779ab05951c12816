"""What goes into a JSON column comes out equal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from parley.adapters.sqlite.ledger import rows
from parley.domain.mailbox.delivery import Lease
from parley.domain.mailbox.ledger import Entry, canonical
from parley.domain.message.message import Message
from tests.samples.messages import NOW, PROPERTY, a_message, messages, texts


@PROPERTY
@given(messages())
def test_any_message_comes_back_equal(message: Message) -> None:
    assert rows.message_from_row(rows.message_to_row(message)) == message


def test_kinds_and_priorities_come_back_as_what_they_are() -> None:
    message = a_message()

    read = rows.message_from_row(rows.message_to_row(message))

    assert (type(read.kind), type(read.priority), type(read.to)) == (type(message.kind), type(message.priority), tuple)


def test_a_moment_keeps_its_fraction_and_comes_back_in_utc() -> None:
    eastern = timezone(timedelta(hours=2))
    message = a_message(created_at=datetime(2026, 3, 13, 16, 30, 0, 250_000, tzinfo=eastern), expires_at=NOW)

    read = rows.message_from_row(rows.message_to_row(message))

    assert read.created_at == datetime(2026, 3, 13, 14, 30, 0, 250_000, tzinfo=UTC)
    assert read.expires_at == NOW


def test_foreign_fields_of_any_shape_come_back_equal() -> None:
    message = a_message(extras={"a": None, "b": ["x", {"y": "z"}], "c": True, "d": 7})

    assert rows.message_from_row(rows.message_to_row(message)) == message


@PROPERTY
@given(texts, st.dictionaries(texts, texts))
def test_any_entry_comes_back_equal(text: str, facts: dict[str, str]) -> None:
    entry = Entry(text, text, text, text, text, facts)

    assert rows.entry_from_row(canonical(7, entry).decode()) == entry


def test_a_lease_comes_back_equal_and_none_stays_none() -> None:
    bound, timed = Lease("t", "", "boot", None), Lease("t", "2026-03-13T14:30:00Z", "boot", 1.5)

    assert rows.lease_from_row(rows.lease_to_row(bound)) == bound
    assert rows.lease_from_row(rows.lease_to_row(timed)) == timed
    assert rows.lease_from_row(rows.lease_to_row(None)) is None
