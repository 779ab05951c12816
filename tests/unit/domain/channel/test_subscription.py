"""A subscription: what it wants, how it tries again, and how it ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from parley.domain.channel.event import Event
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post, PostState
from parley.domain.channel.subscription import (
    KEPT_ATTEMPTS,
    SCHEDULE,
    Answered,
    Attempt,
    Reason,
    Subscription,
    SubscriptionState,
    disabled,
    enabled,
    is_about_notices,
    is_mixed,
    item_id,
    item_type,
    noted,
    push_id,
    wants,
    with_secret,
)
from parley.domain.exchange.notice import Notice, NoticeType
from parley.domain.message.message import Pattern
from parley.domain.times import stamp

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)


def a_subscription(**fields: object) -> Subscription:
    made = Subscription(
        id="sub_1",
        tenant_id="default",
        url="https://example.com/",
        secret="whsec_AAAA",
        created_at=stamp(NOW),
        cursor=5,
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # whatever a test is about


def a_post(position: int = 6, intent_id: str = "intent_1") -> FeedItem:
    post = Post(
        id="msg_1",
        channel_id="chan_1",
        sender="alice",
        to="",
        pattern=Pattern.NOTIFY,
        in_reply_to="",
        payload=b"{}",
        metadata=b"{}",
        created_at=stamp(NOW),
        expires_at="",
        state=PostState.DELIVERED,
        recipients=None,
        intent_id=intent_id,
        position=position,
    )
    return FeedItem.of_post(post)


def an_event(event_type: str = "state_patched", position: int = 7) -> FeedItem:
    event = Event(position, "intent_1", 1, "evt_1", event_type, "alice", stamp(NOW), "", b"{}", "")
    return FeedItem.of_event(event)


def a_try(number: int = 1, status: int = 500, error: str = "") -> Attempt:
    return Attempt(at=stamp(NOW), item_id="msg_1", number=number, status=status, error=error)


def failed(subscription: Subscription, times: int) -> Subscription:
    for number in range(1, times + 1):
        subscription = noted(subscription, 6, a_try(number), NOW)
    return subscription


def test_ten_tries_are_spread_over_75_hours() -> None:
    assert len(SCHEDULE) == 10
    assert timedelta(hours=75) <= sum(SCHEDULE, timedelta()) < timedelta(hours=76)
    assert list(SCHEDULE) == sorted(SCHEDULE)


def test_what_was_accepted_moves_the_cursor_and_clears_the_tries() -> None:
    after = noted(failed(a_subscription(), 3), 6, a_try(4, 204), NOW)

    assert (after.cursor, after.tries, after.next_try, after.state) == (6, 0, "", SubscriptionState.ACTIVE)


@pytest.mark.parametrize("tries", range(1, 10))
def test_each_failure_waits_as_long_as_the_schedule_says(tries: int) -> None:
    after = failed(a_subscription(), tries)

    assert (after.cursor, after.tries) == (5, tries)
    assert after.next_try == after.due == stamp(NOW + SCHEDULE[tries])


def test_the_tenth_failure_disables() -> None:
    after = failed(a_subscription(), 10)

    assert (after.state, after.reason, after.next_try, after.due) == (SubscriptionState.DISABLED, Reason.FAILED, "", "")
    assert after.cursor == 5


def test_a_receiver_that_is_gone_disables_at_once() -> None:
    after = noted(a_subscription(), 6, a_try(1, 410), NOW)

    assert (after.state, after.reason, after.tries) == (SubscriptionState.DISABLED, Reason.GONE, 1)


def test_a_failure_that_arrives_after_it_was_switched_off_plans_no_try() -> None:
    after = noted(disabled(a_subscription(), Reason.SWITCHED_OFF), 6, a_try(), NOW)

    assert (after.reason, after.next_try, len(after.attempts)) == (Reason.SWITCHED_OFF, "", 1)


def test_a_success_that_arrives_after_it_was_switched_off_still_counts() -> None:
    after = noted(disabled(a_subscription(), Reason.SWITCHED_OFF), 6, a_try(1, 200), NOW)

    assert (after.cursor, after.state) == (6, SubscriptionState.DISABLED)


def test_the_cursor_never_goes_back() -> None:
    assert noted(a_subscription(cursor=9), 6, a_try(1, 200), NOW).cursor == 9


def test_only_the_last_attempts_are_kept() -> None:
    subscription = a_subscription()
    for position in range(6, 6 + KEPT_ATTEMPTS + 3):
        subscription = noted(subscription, position, a_try(1, 200), NOW)

    assert len(subscription.attempts) == KEPT_ATTEMPTS


def test_enabled_again_it_has_all_its_tries_and_stands_where_it_stood() -> None:
    again = enabled(failed(a_subscription(), 10))

    assert (again.pushes, again.tries, again.reason, again.cursor) == (True, 0, Reason.NONE, 5)


@pytest.mark.parametrize(
    ("status", "error", "accepted"),
    [(200, "", True), (204, "", True), (299, "", True), (302, "", False), (500, "", False), (200, "timeout", False)],
)
def test_only_a_whole_answer_of_2xx_is_an_acceptance(status: int, error: str, accepted: bool) -> None:
    assert Answered(status, error).accepted is accepted


def test_without_types_everything_is_wanted() -> None:
    assert wants(a_subscription(), a_post())
    assert wants(a_subscription(), an_event())


@pytest.mark.parametrize("spelled", ["channel_message", "channel.message", "CHANNEL_MESSAGE"])
def test_event_types_are_one_in_every_spelling(spelled: str) -> None:
    subscription = a_subscription(event_types=(spelled,))

    assert wants(subscription, a_post())
    assert not wants(subscription, an_event())


def test_another_intent_is_not_wanted() -> None:
    subscription = a_subscription(intent_id="intent_1")

    assert wants(subscription, a_post())
    assert not wants(subscription, a_post(intent_id="intent_2"))


def test_an_endpoint_is_sent_messages_and_no_events() -> None:
    subscription = a_subscription(endpoint=True, subscriber_id="bob")

    assert wants(subscription, a_post())
    assert not wants(subscription, an_event())


def test_a_push_is_named_after_subscription_and_item() -> None:
    assert push_id(a_subscription(), a_post()) == "sub_1-msg_1"
    assert push_id(a_subscription(id="sub_2"), an_event()) == "sub_2-evt_1"


def test_an_item_has_an_id_and_a_type() -> None:
    assert (item_id(a_post()), item_type(a_post())) == ("msg_1", "channel_message")
    assert (item_id(an_event()), item_type(an_event())) == ("evt_1", "state_patched")


def test_it_begins_where_its_commit_ends() -> None:
    made = Subscription(id="sub_1", tenant_id="default", url="", secret="s", created_at=stamp(NOW))

    assert made.with_position(41).cursor == 41
    assert made.with_position(41).with_position(50).cursor == 41


def test_it_is_due_at_its_next_try_or_its_end_whichever_comes_first() -> None:
    ends, tries = stamp(NOW + timedelta(hours=1)), stamp(NOW + timedelta(minutes=1))

    assert a_subscription().due == ""
    assert a_subscription(expires_at=ends).due == ends
    assert a_subscription(expires_at=ends, next_try=tries).due == tries
    assert disabled(a_subscription(expires_at=ends, next_try=tries), Reason.FAILED).due == ends


def test_without_an_address_nothing_is_pushed() -> None:
    assert not a_subscription(url="").pushes
    assert a_subscription().pushes


def test_a_replaced_secret_signs_for_one_more_day() -> None:
    after = with_secret(a_subscription(secret="old"), "new", NOW)

    assert after.secrets(stamp(NOW)) == ("new", "old")
    assert after.secrets(stamp(NOW + timedelta(hours=24))) == ("new",)


@pytest.mark.parametrize(
    ("types", "about_notices", "mixed"),
    [
        ((), False, False),
        (("channel_message",), False, False),
        (("approval.pending",), True, False),
        (("approval_pending", "Exchange.Ended"), True, False),
        (("approval.pending", "channel.message"), False, True),
    ],
)
def test_notices_are_asked_for_by_name_and_alone(types: tuple[str, ...], about_notices: bool, mixed: bool) -> None:
    assert (is_about_notices(types), is_mixed(types)) == (about_notices, mixed)
    assert a_subscription(event_types=types).notices is about_notices


def test_two_notices_of_one_entry_have_two_ids() -> None:
    entry = "aud_1"
    ids = {push_id(a_subscription(), FeedItem.of_notice(1, Notice(entry, one, stamp(NOW)))) for one in NoticeType}

    assert ids == {f"sub_1-aud_1-{one.value}" for one in NoticeType}
    assert item_type(FeedItem.of_notice(1, Notice(entry, NoticeType.ENDED, stamp(NOW)))) == "exchange.ended"


def test_a_late_lookup_is_no_failed_try() -> None:
    before = failed(a_subscription(), 3)
    late = before
    for number in range(50):
        late = noted(late, 6, replace(a_try(number), status=0, error="lookup_late"), NOW)

    assert (late.state, late.tries, late.cursor) == (before.state, before.tries, before.cursor)
    assert late.next_try > stamp(NOW)
