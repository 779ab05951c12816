"""Channels, messages and webhooks as the API answers with them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parley.wire.api.records.channels import ChannelMessage, NewSubscription, SubscriptionSecret
from parley.wire.api.records.record import Record


def a_message(**fields: Any) -> ChannelMessage:  # noqa: ANN401  # whatever JSON holds
    document = {
        "id": "msg_1",
        "channel_id": "chan_1",
        "sender": "bob",
        "message_type": "response",
        "payload": {},
        "created_at": "2026-03-13T14:30:00Z",
        **fields,
    }
    return msgspec.convert(document, ChannelMessage)


def test_an_answer_says_why_it_is_none() -> None:
    failed = a_message(payload={"error": {"code": "failed", "message": "no such table"}}, metadata={"error": True})

    assert failed.error == "no such table"
    assert a_message(payload={"error": "plain"}, metadata={"error": True}).error == "plain"
    assert a_message(payload={"error": "an answer about errors"}).error == ""
    assert a_message(metadata={"error": True}).error == ""


def test_a_message_says_its_kind() -> None:
    assert a_message(metadata={"kind": "question"}).kind == "question"
    assert a_message(metadata={"kind": 7}).kind == a_message().kind == ""


@pytest.mark.parametrize("kind", [NewSubscription, SubscriptionSecret])
def test_a_secret_is_not_in_what_is_printed_of_a_record(kind: type[Record]) -> None:
    fields: dict[str, Any] = dict.fromkeys(kind.__struct_fields__)
    printed = repr(kind(**fields | {"id": "the-id", "secret": "hunter2"}))

    assert "hunter2" not in printed
    assert printed.startswith(f"{kind.__name__}(")
    assert "id='the-id'" in printed
