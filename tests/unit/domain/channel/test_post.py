from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from parley.domain.channel.channel import Channel, Member, MemberPolicy, View, closed
from parley.domain.channel.post import Post, PostDraft, PostState, check_answerable, expiry, holders, place, status_of
from parley.domain.directory.access import Access, AccessPolicy
from parley.domain.directory.callers import Holder, Role
from parley.domain.errors.errors import Invalid, ParleyError
from parley.domain.errors.team import (
    BadCorrelation,
    ChannelClosed,
    MessageExpired,
    NotAddressee,
    NotARequest,
    NotMember,
)
from parley.domain.message.message import Pattern
from parley.domain.times import stamp

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
AT = stamp(NOW)
LATER = stamp(NOW + timedelta(minutes=5))
OPEN = Access(id="i", tenant_id="t", created_by="alice")
CHANNEL = Channel(
    id="c",
    tenant_id="t",
    intent_id="i",
    label="talk",
    created_by="alice",
    created_at=AT,
    members=(Member(agent="alice", since=0), Member(agent="bob", since=0)),
)
EXPLICIT = replace(CHANNEL, policy=MemberPolicy.EXPLICIT)
WRITES = View("alice", 0, takes_part=True, may_write=True)


def said(draft: PostDraft, **given: Any) -> Post:  # noqa: ANN401  # whatever `place` takes
    about = {"view": WRITES, "channel": CHANNEL, "access": OPEN, "sender": "alice", **given}
    return place(draft, "msg_1", NOW, **about)


def refusal(draft: PostDraft, **given: Any) -> type[ParleyError]:  # noqa: ANN401  # whatever `place` takes
    with pytest.raises(ParleyError) as refused:
        said(draft, **given)
    return type(refused.value)


def draft(pattern: Pattern = Pattern.NOTIFY, to: str = "", in_reply_to: str = "") -> PostDraft:
    return PostDraft(pattern, b'{"n":1}', to, in_reply_to)


def a_request(**changes: Any) -> Post:  # noqa: ANN401  # whatever a post has
    return said(draft(Pattern.REQUEST, "bob"))._replace(id="msg_0", **changes)


def test_a_place_changes_nothing_else_of_a_message() -> None:
    request = a_request(answered=True, exchange_id="exch_1", partial=True, expires_at=LATER)

    assert request.at_place(7, 3, LATER) == request._replace(position=7, seq=3, created_at=LATER)


def test_a_post_is_its_draft_at_its_place() -> None:
    post = said(
        PostDraft(Pattern.NOTIFY, b'{"n":1}', "bob", metadata=b'{"m":1}', expires_at=NOW + timedelta(minutes=5))
    )

    assert post == Post(
        id="msg_1",
        channel_id="c",
        sender="alice",
        to="bob",
        pattern=Pattern.NOTIFY,
        in_reply_to="",
        payload=b'{"n":1}',
        metadata=b'{"m":1}',
        created_at=AT,
        expires_at=LATER,
        state=PostState.DELIVERED,
        recipients=("bob",),
        intent_id="i",
    )


@pytest.mark.parametrize(
    ("pattern", "to", "addressed", "recipients"),
    [
        (Pattern.NOTIFY, "", "", None),
        (Pattern.NOTIFY, "*", "*", None),
        (Pattern.NOTIFY, "bob", "bob", ("bob",)),
        (Pattern.BROADCAST, "", "*", None),
        (Pattern.BROADCAST, "*", "*", None),
        (Pattern.REQUEST, "bob", "bob", ("bob",)),
        (Pattern.NOTIFY, "role:r", "role:r", ()),
        (Pattern.REQUEST, "role:r", "role:r", ()),
    ],
)
def test_whom_a_message_is_for(pattern: Pattern, to: str, addressed: str, recipients: tuple[str, ...] | None) -> None:
    post = said(draft(pattern, to))

    assert (post.to, post.recipients) == (addressed, recipients)
    assert post.state is (PostState.PENDING if recipients == () else PostState.DELIVERED)


@pytest.mark.parametrize(
    "wrong",
    [
        draft(Pattern.REQUEST),
        draft(Pattern.REQUEST, "*"),
        draft(Pattern.BROADCAST, "bob"),
        draft(Pattern.NOTIFY, "bob", "msg_0"),
        draft(Pattern.REQUEST, "bob", "msg_0"),
        draft(Pattern.RESPONSE, "bob"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: PostDraft) -> None:
    assert refusal(wrong) is Invalid


def test_a_closed_channel_takes_nothing() -> None:
    assert refusal(draft(), channel=closed(CHANNEL, AT, timedelta())) is ChannelClosed


@pytest.mark.parametrize(("takes_part", "may_write"), [(True, False), (False, True), (False, False)])
def test_who_may_not_write_does_not(takes_part: bool, may_write: bool) -> None:  # the cases
    assert refusal(draft(), view=View("alice", 0, takes_part, may_write)) is NotMember


def test_who_could_not_read_it_is_not_written_to() -> None:
    assert refusal(draft(to="carol"), channel=EXPLICIT) is NotMember
    assert refusal(draft(to="carol"), access=replace(OPEN, policy=AccessPolicy.CLOSED)) is NotMember


def test_a_role_is_those_of_its_holders_who_take_part() -> None:
    role = Role(id="r", tenant_id="t", holders=(Holder(agent="bob"), Holder(agent="carol")))

    assert said(draft(to="role:r"), role=role).recipients == ("bob", "carol")
    assert said(draft(to="role:r"), role=role, channel=EXPLICIT).recipients == ("bob",)
    assert holders(None, CHANNEL, OPEN, AT) == ()


# ---------------------------------------------------------------- answers


def test_a_response_goes_to_who_asked() -> None:
    for to in ("", "alice"):
        post = said(draft(Pattern.RESPONSE, to, "msg_0"), sender="bob", request=a_request())
        assert (post.to, post.recipients, post.in_reply_to) == ("alice", ("alice",), "msg_0")


@pytest.mark.parametrize(
    ("request_", "sender", "to", "error"),
    [
        (None, "bob", "", BadCorrelation),
        (a_request(channel_id="other"), "bob", "", BadCorrelation),
        (a_request(pattern=Pattern.NOTIFY), "bob", "", BadCorrelation),
        (a_request(), "bob", "carol", Invalid),
        (a_request(), "carol", "", NotAddressee),
        (a_request(recipients=()), "bob", "", NotAddressee),
        (a_request(expires_at=AT), "bob", "", MessageExpired),
        (a_request(state=PostState.EXPIRED), "bob", "", MessageExpired),
        (a_request(state=PostState.EXPIRED), "carol", "", NotAddressee),
    ],
)
def test_a_response_that_answers_nothing_is_refused(
    request_: Post | None, sender: str, to: str, error: type[ParleyError]
) -> None:
    assert refusal(draft(Pattern.RESPONSE, to, "msg_0"), sender=sender, request=request_) is error


def test_only_a_request_is_answered() -> None:
    with pytest.raises(NotARequest):
        check_answerable(a_request(pattern=Pattern.NOTIFY), "bob", AT)
    check_answerable(a_request(), "bob", AT)
    check_answerable(a_request(expires_at=LATER), "bob", AT)


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    ("span", "fits"),
    [
        (timedelta(0), False),
        (timedelta(microseconds=-1), False),
        (timedelta(microseconds=1), True),
        (timedelta(days=30), True),
        (timedelta(days=30, microseconds=1), False),
    ],
)
def test_a_message_expires_in_the_future_and_not_too_far_away(span: timedelta, fits: bool) -> None:
    if fits:
        assert expiry(NOW + span, NOW, timedelta(days=30)) == stamp(NOW + span)
    else:
        with pytest.raises(Invalid):
            expiry(NOW + span, NOW, timedelta(days=30))


def test_a_message_without_an_end_has_none() -> None:
    assert expiry(None, NOW, timedelta(days=30)) == ""


@pytest.mark.parametrize(
    ("changes", "now", "over", "expired"),
    [
        ({}, AT, False, False),
        ({"expires_at": LATER}, AT, False, False),
        ({"expires_at": LATER}, LATER, True, True),
        ({"expires_at": LATER, "answered": True}, LATER, True, False),
        ({"state": PostState.EXPIRED}, AT, True, True),
    ],
)
def test_an_answer_before_the_end_wins(changes: dict[str, Any], now: str, over: bool, expired: bool) -> None:
    post = a_request(**changes)

    assert (post.over(now), post.expired(now)) == (over, expired)


def test_what_was_read_stays_read() -> None:
    post = a_request(expires_at=LATER)

    assert status_of(post, "", AT) == "delivered"
    assert status_of(post, "", LATER) == "expired"
    assert status_of(post, AT, LATER) == "read"
    assert status_of(post._replace(state=PostState.PENDING), "", AT) == "pending"


# ---------------------------------------------------------------- who sees it


@pytest.mark.parametrize(
    ("recipients", "agent", "since", "visible"),
    [
        (("bob",), "bob", 0, True),
        (("bob",), "bob", 99, True),
        (("bob",), "alice", 0, True),
        (("bob",), "carol", 0, False),
        (("bob",), "", 0, True),
        ((), "carol", 0, False),
        (None, "carol", 4, True),
        (None, "carol", 5, False),
        (None, "alice", 99, True),
    ],
)
def test_a_message_is_seen_by_its_two_sides_and_by_who_sees_all(
    recipients: tuple[str, ...] | None,
    agent: str,
    since: int,
    visible: bool,
) -> None:
    post = a_request(recipients=recipients, position=5)

    assert post.visible_to(View(agent, since, takes_part=True, may_write=True)) is visible
