"""Who takes part in an intent: table by table, without a store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.domain.channel.channel import Channel, Member, MemberPolicy, View
from parley.domain.channel.participation import Participant, heard_since, joining, participant_id, takes_part
from parley.domain.directory.access import (
    AGENT,
    ORG_UNIT,
    USER,
    Access,
    AccessPolicy,
    Assignment,
    Grant,
    Permission,
)

NOW, LATER = "2026-03-13T14:30:00.000000Z", "2026-03-14T14:30:00.000000Z"
OPEN = Access(id="intent_1", tenant_id="t", created_by="ines", policy=AccessPolicy.OPEN, reaches_all=False)
CLOSED = replace(OPEN, policy=AccessPolicy.CLOSED)
CHANNEL = Channel(id="chan_1", tenant_id="t", intent_id="intent_1", label="talk", created_by="ines", created_at=NOW)


def a_grant(principal: str, kind: str = AGENT, *, expires_at: str = "", since: int = 3) -> Grant:
    return Grant(
        id="acl_1",
        principal_id=principal,
        principal_type=kind,
        permission=Permission.READ,
        granted_by="ines",
        granted_at=NOW,
        expires_at=expires_at,
        since=since,
    )


LISTED = {
    "its creator": (OPEN, CHANNEL, "ines"),
    "an assigned agent": (replace(OPEN, assignments=(Assignment(agent_id="bob", assigned_at=NOW),)), CHANNEL, "bob"),
    "an agent with an entry of its own": (replace(CLOSED, grants=(a_grant("bob"),)), CHANNEL, "bob"),
    "a member of the channel": (OPEN, replace(CHANNEL, members=(Member(agent="bob", since=0),)), "bob"),
    "a member of an explicit channel": (
        OPEN,
        replace(CHANNEL, members=(Member(agent="bob", since=0),), policy=MemberPolicy.EXPLICIT),
        "bob",
    ),
    "any agent, on an open intent from before 0.7": (replace(OPEN, reaches_all=True), CHANNEL, "bob"),
}
UNLISTED = {
    "an agent that may only read and write": (OPEN, CHANNEL, "bob"),
    "an agent of a unit with access": (replace(CLOSED, grants=(a_grant("sales", ORG_UNIT),)), CHANNEL, "bob"),
    "a person of the same name": (replace(OPEN, grants=(a_grant("bob", USER),)), CHANNEL, "bob"),
    "an agent whose entry has run out": (replace(OPEN, grants=(a_grant("bob", expires_at=NOW),)), CHANNEL, "bob"),
}
APART = {
    "an agent without access": (CLOSED, CHANNEL, "bob"),
    "an agent without access, on an intent from before 0.7": (replace(CLOSED, reaches_all=True), CHANNEL, "bob"),
    "an agent that is no member of an explicit channel": (
        OPEN,
        replace(CHANNEL, policy=MemberPolicy.EXPLICIT),
        "bob",
    ),
    "a member that lost its access": (CLOSED, replace(CHANNEL, members=(Member(agent="bob", since=0),)), "bob"),
}


@pytest.mark.parametrize(("access", "channel", "agent"), LISTED.values(), ids=LISTED)
def test_who_is_listed_takes_part_without_joining(access: Access, channel: Channel, agent: str) -> None:
    assert takes_part(channel, access, agent, NOW, "sales")


@pytest.mark.parametrize(("access", "channel", "agent"), UNLISTED.values(), ids=UNLISTED)
def test_who_has_access_without_being_named_takes_part_once_it_joined(
    access: Access, channel: Channel, agent: str
) -> None:
    assert not takes_part(channel, access, agent, NOW, "sales")
    assert takes_part(channel, access, agent, NOW, "sales", joined=True)


@pytest.mark.parametrize(("access", "channel", "agent"), APART.values(), ids=APART)
def test_who_has_no_access_takes_no_part_even_if_it_joined_before(access: Access, channel: Channel, agent: str) -> None:
    assert not takes_part(channel, access, agent, NOW, joined=True)


def test_who_joined_gets_what_is_said_from_then_on_and_who_is_listed_what_it_may_read() -> None:
    reader = View("bob", 2, takes_part=True, may_write=True)
    joined = Participant(id="p", tenant_id="t", intent_id="intent_1", agent="bob", since=7)

    assert heard_since(CHANNEL, OPEN, None, reader, NOW) is None
    assert heard_since(CHANNEL, OPEN, joined, reader, NOW) == 7
    assert heard_since(CHANNEL, OPEN, joined, reader._replace(since=9), NOW) == 9
    assert heard_since(CHANNEL, replace(OPEN, grants=(a_grant("bob"),)), joined, reader, NOW) == 2


def test_a_participation_is_found_by_intent_and_agent_and_begins_where_it_was_written() -> None:
    record = joining(OPEN, "bob")

    assert (record.id, record.parent, record.tenant_id) == (participant_id("intent_1", "bob"), "bob", "t")
    assert record.with_position(5).since == 5
    assert record.with_position(5).with_position(9).since == 5
