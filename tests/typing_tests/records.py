"""Records: attributes with their types, keys as in a mapping."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type

import parley


def shown(channel: parley.Channel, message: parley.ChannelMessage, exchange: parley.Exchange) -> None:
    assert_type(channel.id, str)
    assert_type(channel.members, list[str])
    assert_type(channel.created_at, datetime)
    assert_type(channel.options.ttl_seconds, int | None)
    assert_type(channel["name"], Any)
    assert_type(channel.get("name", ""), Any)
    assert_type("name" in channel, bool)
    assert_type(channel.to_dict(), dict[str, Any])
    assert_type(message.correlation_id, str | None)
    assert_type(exchange.exchange_id, str)
    assert_type([turn.summary for turn in exchange.transcript], list[str])
    as_mapping: dict[str, Any] = dict(channel)
    print(as_mapping, repr(message))


def any_of_them(record: parley.Record) -> str:
    return ", ".join(f"{name}={record[name]}" for name in record.keys())


def made_by_hand() -> parley.ChannelOptions:
    return parley.ChannelOptions(audit=True, max_messages=7)


def the_mailbox_has_its_own(message: parley.Message) -> str:
    return message.id
