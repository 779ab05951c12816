from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from parley.domain.channel.channel import (
    Channel,
    ChannelStatus,
    Member,
    MemberPolicy,
    Options,
    Tally,
    View,
    check_manages,
    check_takes_part,
    closed,
    lifetime_end,
    reaches,
    view,
    with_members,
    with_policy,
    without_member,
)
from parley.domain.directory.access import Access, AccessPolicy, Assignment, Grant, Permission
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import NotManager, NotMember
from parley.domain.record import UNSETTLED
from parley.domain.times import from_stamp, stamp

AT = "2026-03-13T14:30:00.000000+00:00"
OPEN = Access(id="i", tenant_id="t", created_by="ines")
CLOSED = replace(OPEN, policy=AccessPolicy.CLOSED)
CHANNEL = Channel(
    id="c",
    tenant_id="t",
    intent_id="i",
    label="talk",
    created_by="alice",
    created_at=AT,
    members=(Member(agent="alice", since=3), Member(agent="bob", since=5)),
)
EXPLICIT = replace(CHANNEL, policy=MemberPolicy.EXPLICIT)


def caller(agent: str = "", kind: KeyKind = KeyKind.AGENT) -> Caller:
    return Caller("t", agent, kind, "key_1")


def granted(permission: Permission, since: int = 0, expires_at: str = "") -> Access:
    grant = Grant(
        id="g",
        principal_id="bob",
        permission=permission,
        granted_by="ines",
        granted_at=AT,
        expires_at=expires_at,
        since=since,
    )
    return replace(CLOSED, grants=(grant,))


def coordinated(access: Access) -> Access:
    return replace(access, assignments=(Assignment(agent_id="carla", role="coordinator", assigned_at=AT, since=0),))


def names(channel: Channel) -> list[str]:
    return [one.agent for one in channel.members]


def test_a_channel_is_found_by_its_label_on_its_intent() -> None:
    assert (CHANNEL.parent, CHANNEL.name) == ("i", "talk")


def test_a_channel_is_due_when_its_time_runs_out_and_when_it_is_to_be_purged() -> None:
    living = replace(CHANNEL, expires=AT)

    assert (CHANNEL.due, living.due) == ("", AT)
    assert closed(living, AT, timedelta(days=7)).due == stamp(from_stamp(AT) + timedelta(days=7))


def test_members_that_just_joined_are_settled_at_the_position_of_the_commit() -> None:
    joined = with_members(CHANNEL, ("bob", "carol"))

    settled = joined.with_position(9)

    assert [(one.agent, one.since) for one in settled.members] == [("alice", 3), ("bob", 5), ("carol", 9)]
    assert settled.with_position(10) is settled


# ---------------------------------------------------------------- who sees what


def test_everyone_with_access_takes_part_where_the_policy_is_the_intents() -> None:
    assert view(CHANNEL, OPEN, caller("dave"), AT) == View("dave", 0, takes_part=True, may_write=True)
    assert view(CHANNEL, granted(Permission.READ, 7), caller("bob"), AT) == View(
        "bob", 7, takes_part=True, may_write=False
    )


@pytest.mark.parametrize("access", [CLOSED, granted(Permission.ADMIN, expires_at=AT)])
def test_without_access_to_the_intent_there_is_no_channel(access: Access) -> None:
    for channel in (CHANNEL, EXPLICIT):
        with pytest.raises(NotFound):
            view(channel, access, caller("bob"), AT)


def test_an_explicit_channel_is_its_members() -> None:
    assert view(EXPLICIT, OPEN, caller("bob"), AT) == View("bob", 5, takes_part=True, may_write=True)
    assert view(EXPLICIT, granted(Permission.WRITE, 8), caller("bob"), AT).since == 8
    with pytest.raises(NotFound):
        view(EXPLICIT, OPEN, caller("dave"), AT)
    with pytest.raises(NotFound):
        view(EXPLICIT, OPEN, caller("ines"), AT)


def test_a_coordinator_knows_of_an_explicit_channel_and_takes_no_part() -> None:
    seen = view(EXPLICIT, coordinated(CLOSED), caller("carla"), AT)

    assert seen == View("carla", 0, takes_part=False, may_write=False)
    with pytest.raises(NotMember):
        check_takes_part(seen)


@pytest.mark.parametrize("kind", [KeyKind.SERVICE, KeyKind.ADMIN])
def test_a_key_of_the_whole_tenant_sees_all_and_speaks_for_nobody(kind: KeyKind) -> None:
    assert view(EXPLICIT, CLOSED, caller(kind=kind), AT) == View("", 0, takes_part=True, may_write=False)


@pytest.mark.parametrize("kind", [KeyKind.AGENT, KeyKind.HUMAN])
def test_a_key_without_an_agent_sees_nothing(kind: KeyKind) -> None:
    with pytest.raises(NotFound):
        view(CHANNEL, OPEN, caller(kind=kind), AT)


def test_what_was_said_among_members_stays_among_them_when_the_channel_is_opened() -> None:
    opened = with_policy(EXPLICIT, MemberPolicy.INTENT).with_position(20)

    assert view(opened, OPEN, caller("dave"), AT).since == 20
    assert view(opened, OPEN, caller("bob"), AT).since == 5
    assert with_policy(opened, MemberPolicy.INTENT) is opened


def test_a_channel_that_was_open_from_the_start_is_open_from_the_start() -> None:
    assert view(CHANNEL, OPEN, caller("bob"), AT).since == 0


# ---------------------------------------------------------------- who manages, who is reached


def test_creator_coordinator_and_the_tenants_keys_manage() -> None:
    for one in (caller("alice"), caller("carla"), caller(kind=KeyKind.ADMIN), caller(kind=KeyKind.SERVICE)):
        check_manages(CHANNEL, coordinated(OPEN), one)
    for other in (caller("bob"), caller("ines"), caller(kind=KeyKind.HUMAN)):
        with pytest.raises(NotManager):
            check_manages(CHANNEL, coordinated(OPEN), other)


def test_a_message_reaches_who_could_read_it() -> None:
    assert reaches(CHANNEL, OPEN, "dave", AT)
    assert not reaches(CHANNEL, CLOSED, "dave", AT)
    assert reaches(EXPLICIT, OPEN, "bob", AT)
    assert not reaches(EXPLICIT, OPEN, "dave", AT)
    assert not reaches(EXPLICIT, CLOSED, "bob", AT)


# ---------------------------------------------------------------- changes


def test_the_creator_stays_a_member_unless_it_has_left() -> None:
    assert names(with_members(CHANNEL, ("carol",))) == ["alice", "carol"]
    assert names(with_members(without_member(CHANNEL, "alice"), ("carol",))) == ["carol"]


def test_who_stays_keeps_what_it_saw_and_who_returns_begins_anew() -> None:
    gone = with_members(CHANNEL, ())
    back = with_members(gone, ("bob",))

    assert back.member("bob") == Member(agent="bob", since=UNSETTLED)
    assert back.member("alice") == Member(agent="alice", since=3)
    assert back.member("carol") is None


def test_a_life_is_counted_from_the_last_message_or_from_the_beginning() -> None:
    mortal = replace(CHANNEL, options=Options(ttl_seconds=60))
    later = "2026-03-13T15:00:00.000000+00:00"

    assert lifetime_end(CHANNEL, Tally()) == ""
    assert lifetime_end(mortal, Tally()) == "2026-03-13T14:31:00.000000+00:00"
    assert lifetime_end(mortal, Tally(1, later)) == "2026-03-13T15:01:00.000000+00:00"


def test_a_closed_channel_says_when_and_for_how_long_it_is_kept() -> None:
    shut = closed(replace(CHANNEL, expires=AT), AT, timedelta(days=7))

    assert (shut.status, shut.closed_at, shut.expires) == (ChannelStatus.CLOSED, AT, "")
    assert shut.purge_at == "2026-03-20T14:30:00.000000+00:00"
    assert not shut.is_open
    assert CHANNEL.is_open
