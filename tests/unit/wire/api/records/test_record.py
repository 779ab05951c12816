"""Records: declared once for the server, the client and the published schemas."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import get_type_hints

import msgspec
import pytest

from parley.wire.api.records import audit, channels, directory, intents, rules
from parley.wire.api.records.channels import Channel, ChannelOptions
from parley.wire.api.records.record import Record, fill_record
from tests.unit.sdk.record_samples import CHANNEL, an_approval

STAMP = "2026-03-13T14:30:00.000000+00:00"
TIMES = {"at", "made_at", "old_secret_until", "server_timestamp"}


def a_channel() -> Channel:
    return msgspec.convert(CHANNEL, Channel)


def an_entry() -> SimpleNamespace:
    return SimpleNamespace(number=1, side="", seq=1, id="aud_1", at=STAMP, exchange_id="", entry_hash="h")


def records() -> Iterator[type[Record]]:
    for module in (audit, channels, directory, intents, rules):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Record):
                yield kind


def test_a_record_has_attributes_and_keys() -> None:
    channel = a_channel()

    assert channel.name == channel["name"] == channel.get("name") == "questions"
    assert channel.created_at == datetime(2026, 3, 13, 14, 30, 0, 1, tzinfo=UTC)
    assert channel["options"]["audit"] is True
    assert "name" in channel
    assert "nothing" not in channel
    assert channel.get("nothing") is None
    assert channel.get("nothing", 7) == 7
    with pytest.raises(KeyError, match="nothing"):
        channel["nothing"]
    assert dict(channel) == {name: channel[name] for name in channel.keys()}  # noqa: SIM118  # it is no dict


def test_a_field_has_the_name_of_python_and_that_of_the_json() -> None:
    approval = an_approval()

    assert approval.detected_keywords == approval["detected_keywords"] == approval["detectedKeywords"] == ["promise"]
    assert "detectedKeywords" in approval
    assert approval.to_dict()["detectedKeywords"] == ["promise"]


def test_what_a_newer_server_says_is_left_aside() -> None:
    assert "said_by_a_newer_server" not in a_channel()


def test_a_value_that_only_a_newer_server_knows_is_read_as_it_is() -> None:
    assert msgspec.convert({**CHANNEL, "status": "frozen"}, Channel).status == "frozen"


def test_a_record_never_changes() -> None:
    with pytest.raises(AttributeError):
        a_channel().name = "another"  # type: ignore[misc]


def test_a_record_goes_back_to_json() -> None:
    document = a_channel().to_dict()

    assert document["options"] == {"audit": True, "ttl_seconds": None, "max_messages": 7}
    assert msgspec.convert(document, Channel) == a_channel()


def test_a_record_is_made_by_hand_with_what_matters() -> None:
    assert ChannelOptions(max_messages=7).to_dict() == {"audit": False, "ttl_seconds": None, "max_messages": 7}


def test_a_time_is_a_datetime() -> None:
    for record in records():
        for field, kind in get_type_hints(record).items():
            if (record.__name__, field) == ("AuditLogState", "broken_at"):
                continue  # the number of an entry
            if field in TIMES or field.endswith("_at"):
                signed = (record.__name__, field) == ("AuditCheckpoint", "at")  # a signature covers its letters
                assert kind in ((str,) if signed else (datetime, datetime | None)), (record, field)


def test_stored_times_and_documents_are_sent_as_they_are() -> None:
    entry = fill_record(audit.AuditEntry, an_entry(), document=msgspec.Raw(b'{"b": 1,  "a":2}'))

    content = msgspec.json.encode(entry)

    assert f'"at":"{STAMP}"'.encode() in content
    assert b'"document":{"b": 1,  "a":2}' in content
    assert msgspec.json.decode(content, type=audit.AuditEntry).at == datetime(2026, 3, 13, 14, 30, tzinfo=UTC)


def test_an_empty_text_is_null_where_the_record_allows_it() -> None:
    entry = fill_record(audit.AuditEntry, an_entry(), document=None)

    assert (entry.exchange_id, entry.side) == (None, "")


def test_a_record_takes_each_field_from_the_first_that_has_it() -> None:
    entry = fill_record(audit.AuditEntry, SimpleNamespace(side="bob"), an_entry(), document=None, number=7)

    assert (entry.side, entry.number, entry.seq) == ("bob", 7, 1)


def test_a_field_without_a_value_is_an_error_even_where_it_may_be_null() -> None:
    with pytest.raises(AttributeError, match="document"):
        fill_record(audit.AuditEntry, an_entry())


def test_every_name_is_of_one_record() -> None:
    names = [record.__name__ for record in set(records())]

    assert sorted(names) == sorted(set(names))
