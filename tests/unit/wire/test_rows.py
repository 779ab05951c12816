from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from parley.domain.channel.channel import Channel, Member, MemberPolicy, Options
from parley.domain.channel.event import Event
from parley.domain.channel.post import Post, PostState
from parley.domain.directory.access import Access, Assignment, Grant, Permission
from parley.domain.directory.callers import Holder, Key, KeyKind, Role
from parley.domain.mailbox.ledger import Entry, canonical
from parley.domain.message.message import Pattern
from parley.domain.record import Record
from parley.wire import rows
from tests.contract.team_store import a_channel, a_post, an_intent

NUMBER = 5 << rows.SHIFT | 9


def read_back(post: Post) -> Post:
    row = rows.post_to_row(post, 5, 7)
    joined = (row[0], post.channel_id, *row[2:15], post.intent_id, *row[15:])
    return rows.post_from_row(joined)


@pytest.mark.parametrize(
    "post",
    [
        a_post(position=9, seq=3),
        a_post(position=9, seq=3, recipients=(), state=PostState.PENDING, to="role:r"),
        a_post(position=9, seq=3, recipients=("bob",), pattern=Pattern.REQUEST, answered=True, expires_at="x"),
        a_post(position=9, seq=3, recipients=("bob", "carol"), state=PostState.EXPIRED, in_reply_to="msg_0"),
        a_post(position=9, seq=3, recipients=("bob",), exchange_id="exch_1"),
    ],
)
def test_a_post_is_the_same_after_its_row(post: Post) -> None:
    assert rows.post_to_row(post, 5, 7)[:2] == (NUMBER, 7)
    assert read_back(post) == post


def test_recipients_stand_between_commas_so_that_each_can_be_looked_for() -> None:
    assert rows.joined(None) is None
    assert rows.joined(()) == ",,"
    assert rows.joined(("a", "b")) == ",a,b,"


def test_an_event_is_the_same_after_its_row() -> None:
    event = Event(9, "intent_1", 1, "evt_1", "comment", "alice", "at", "trace", b"{}", "sha256:x")

    row = rows.event_to_row(event, 5)

    assert row[0] == NUMBER
    assert rows.event_from_row(row) == event


@pytest.mark.parametrize(
    "record",
    [
        a_channel(policy=MemberPolicy.EXPLICIT, options=Options(audit=True, ttl_seconds=5), open_since=4),
        a_channel(members=(Member(agent="a", since=7),)),
        an_intent(state={"a": {"b": [1, 2.5, None]}}, constraints=[{"x": 1}]),
        Role(id="r", tenant_id="t", holders=(Holder(agent="a", since=3),)),
        Key(id="k", tenant_id="", owner="t", key_kind=KeyKind.ADMIN, digest="d", created_at="", operator=True),
        Access(
            id="i",
            tenant_id="t",
            created_by="a",
            grants=(Grant(id="g", principal_id="b", permission=Permission.READ, granted_by="a", granted_at="x"),),
            assignments=(Assignment(agent_id="b", assigned_at="x", since=2),),
        ),
    ],
)
def test_a_record_is_the_same_after_its_row_but_for_its_version(record: Record) -> None:
    tenant, kind, record_id, version, parent, name, due, document = rows.record_to_row(record, 4)

    assert (tenant, kind, record_id, version) == (record.tenant_id, record.kind, record.id, 4)
    assert (parent, name, due) == (record.parent, record.name, record.due)
    assert rows.record_from_row(type(record), 4, document) == replace(record, version=4)


def test_a_record_of_an_older_version_of_us_gets_the_defaults_of_what_is_new() -> None:
    document = msgspec.json.decode(msgspec.json.encode(a_channel()))
    del document["open_since"]

    kept = rows.record_from_row(Channel, 1, msgspec.json.encode(document))

    assert kept == replace(a_channel(), version=1)


def test_an_entry_is_the_same_after_its_row() -> None:
    entry = Entry("channel_created", "at", "alice", "chan_1", "", {"name": "ü"})

    assert rows.entry_from_row(canonical(3, entry).decode()) == entry
