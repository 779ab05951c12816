"""Webhooks: signed so that a receiver can tell who sent what, and when."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta

import pytest

from parley.domain.channel.event import Event
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post, PostState
from parley.domain.channel.subscription import Attempt, Push, Reason, Subscription, disabled, noted
from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import WebhookInvalid, WebhookReplayed
from parley.domain.message.message import Pattern
from parley.domain.times import stamp
from parley.wire.api import webhooks as webhook
from parley.wire.api.webhooks import Memory, verify

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"another key").decode()


def a_post() -> FeedItem:
    post = Post(
        id="msg_1",
        channel_id="chan_1",
        sender="alice",
        to="bob",
        pattern=Pattern.REQUEST,
        in_reply_to="",
        payload=b'{"question":"\xc3\xa4?"}',
        metadata=b"{}",
        created_at=stamp(NOW),
        expires_at="",
        state=PostState.DELIVERED,
        recipients=("bob",),
        intent_id="intent_1",
        position=6,
        seq=2,
    )
    return FeedItem.of_post(post)


def received(*secrets: str, at: datetime = NOW) -> tuple[dict[str, str], bytes]:
    push = Push("sub_1-msg_1", "https://example.com", secrets or (SECRET,), at, a_post())
    content = webhook.body(push.item)
    return dict(webhook.headers(push, content)), content


def test_the_signature_is_the_one_of_the_standard() -> None:
    # From the vectors of the Standard Webhooks libraries.
    signed = webhook.sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_message_is_told_with_its_type_its_time_and_itself() -> None:
    document = json.loads(webhook.body(a_post()))

    assert (document["type"], document["timestamp"]) == ("channel_message", stamp(NOW))
    data = document["data"]
    assert (data["id"], data["sender"], data["to"], data["intent_id"]) == ("msg_1", "alice", "bob", "intent_1")
    assert (data["message_type"], data["payload"], data["status"]) == ("request", {"question": "ä?"}, "delivered")


def test_an_event_is_told_as_the_log_has_it() -> None:
    event = Event(7, "intent_1", 1, "evt_1", "task.done", "alice", stamp(NOW), "", b'{"id":"evt_1"}', "sha256:x")

    document = json.loads(webhook.body(FeedItem.of_event(event)))

    assert document == {"type": "task.done", "timestamp": stamp(NOW), "data": {"id": "evt_1"}}


def test_an_event_type_cannot_break_out_of_the_document() -> None:
    event = Event(7, "intent_1", 1, "evt_1", 'x","data":"y', "alice", stamp(NOW), "", b"{}", "")

    assert json.loads(webhook.body(FeedItem.of_event(event)))["type"] == 'x","data":"y'


def test_a_receiver_accepts_what_was_sent() -> None:
    headers, content = received()

    assert verify(SECRET, headers, content, NOW)["data"]["id"] == "msg_1"


def test_header_names_may_be_spelled_in_any_case() -> None:
    headers, content = received()

    assert verify(SECRET, {name.title(): value for name, value in headers.items()}, content, NOW)


@pytest.mark.parametrize("secret", [SECRET, OTHER])
def test_while_a_secret_is_replaced_both_are_accepted(secret: str) -> None:
    headers, content = received(OTHER, SECRET)

    assert verify(secret, headers, content, NOW)


def test_a_secret_without_its_prefix_is_the_same_secret() -> None:
    headers, content = received()

    assert verify(SECRET.removeprefix("whsec_"), headers, content, NOW)


def test_another_secret_does_not_fit() -> None:
    headers, content = received()

    with pytest.raises(WebhookInvalid, match="no signature fits"):
        verify(OTHER, headers, content, NOW)


@pytest.mark.parametrize("altered", ["body", "webhook-id", "webhook-timestamp", "webhook-signature"])
def test_whatever_is_altered_the_signature_no_longer_fits(altered: str) -> None:
    headers, content = received()
    if altered == "body":
        content = content.replace(b"msg_1", b"msg_2")
    elif altered == "webhook-timestamp":
        headers[altered] = str(int(headers[altered]) + 1)
    else:
        headers[altered] = headers[altered][:-3] + "xyz"

    with pytest.raises(WebhookInvalid):
        verify(SECRET, headers, content, NOW)


@pytest.mark.parametrize("away", [timedelta(minutes=5, seconds=1), -timedelta(minutes=5, seconds=1)])
def test_what_is_not_of_these_five_minutes_is_refused(away: timedelta) -> None:
    headers, content = received(at=NOW + away)

    with pytest.raises(WebhookInvalid, match="not of this moment"):
        verify(SECRET, headers, content, NOW)


@pytest.mark.parametrize("away", [timedelta(minutes=5), -timedelta(minutes=5)])
def test_what_is_just_within_five_minutes_is_accepted(away: timedelta) -> None:
    headers, content = received(at=NOW + away)

    assert verify(SECRET, headers, content, NOW)


def test_a_replay_of_the_same_id_is_refused_by_a_memory() -> None:
    headers, content = received()
    memory = Memory()

    verify(SECRET, headers, content, NOW, memory=memory)

    with pytest.raises(WebhookReplayed):
        verify(SECRET, headers, content, NOW + timedelta(minutes=4), memory=memory)


def test_without_a_memory_a_repeat_is_accepted() -> None:
    headers, content = received()

    assert verify(SECRET, headers, content, NOW) == verify(SECRET, headers, content, NOW)


def test_a_forgery_leaves_no_trace_in_the_memory() -> None:
    headers, content = received()
    memory = Memory()
    with pytest.raises(WebhookInvalid):
        verify(OTHER, headers, content, NOW, memory=memory)

    assert verify(SECRET, headers, content, NOW, memory=memory)


def test_a_memory_forgets_what_its_time_refuses_anyway_and_is_bounded() -> None:
    memory = Memory(most=2)
    memory.add("a", NOW, NOW + timedelta(minutes=10))
    memory.add("b", NOW, NOW + timedelta(minutes=10))
    memory.add("c", NOW, NOW + timedelta(minutes=10))
    assert ("a" in memory, "b" in memory, "c" in memory) == (False, True, True)

    later = NOW + timedelta(minutes=11)
    memory.add("d", later, later)
    assert ("b" in memory, "c" in memory, "d" in memory) == (False, False, True)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_every_header_is_needed(missing: str) -> None:
    headers, content = received()
    del headers[missing]

    with pytest.raises(WebhookInvalid):
        verify(SECRET, headers, content, NOW)


@pytest.mark.parametrize("spelled", ["", "now", "-1", "1e9", "٣", "9" * 20])
def test_a_timestamp_is_a_plain_number(spelled: str) -> None:
    headers, content = received()

    with pytest.raises(WebhookInvalid):
        verify(SECRET, {**headers, "webhook-timestamp": spelled}, content, NOW)


@pytest.mark.parametrize("spelled", ["v1", "v1,", "ü", "v1a,abc", "v2," + "A" * 44])
def test_what_is_no_signature_of_ours_fits_nothing(spelled: str) -> None:
    headers, content = received()

    with pytest.raises(WebhookInvalid):
        verify(SECRET, {**headers, "webhook-signature": spelled}, content, NOW)


def test_a_signed_body_that_is_no_object_is_refused() -> None:
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    seconds = str(int(NOW.timestamp()))
    digest = hmac.new(key, f"a.{seconds}.[]".encode(), hashlib.sha256).digest()
    headers = {
        "webhook-id": "a",
        "webhook-timestamp": seconds,
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }

    with pytest.raises(WebhookInvalid, match="no object"):
        verify(SECRET, headers, b"[]", NOW)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "whsec_abc"])
def test_what_is_no_secret_is_said_so(secret: str) -> None:
    headers, content = received()

    with pytest.raises(Invalid, match="no webhook secret"):
        verify(secret, headers, content, NOW)


def a_subscription() -> Subscription:
    return Subscription(
        id="sub_1",
        tenant_id="default",
        url="https://example.com/hook",
        subscriber_id="bob",
        intent_id="intent_1",
        event_types=("channel_message",),
        secret=SECRET,
        created_at=stamp(NOW),
        expires_at=stamp(NOW + timedelta(days=1)),
        cursor=5,
    )


def test_times_are_shown_in_both_spellings() -> None:
    shown = webhook.subscription_of(a_subscription(), 0, 0)

    assert shown["createdAt"] == shown["created_at"] == stamp(NOW)
    assert shown["expiresAt"] == shown["expires_at"] == stamp(NOW + timedelta(days=1))


def test_the_secret_is_shown_only_where_it_was_asked_for() -> None:
    assert SECRET not in repr(webhook.subscription_of(a_subscription(), 0, 0).to_dict())
    assert webhook.new_subscription_of(a_subscription()).secret == SECRET


def test_the_last_attempt_and_the_reason_are_shown() -> None:
    attempt = Attempt(at=stamp(NOW), item_id="msg_1", number=1, status=0, error="timeout")
    tried = noted(a_subscription(), 6, attempt, NOW)

    shown = webhook.subscription_of(disabled(tried, Reason.FAILED), 1, 1)

    assert (shown["active"], shown["state"], shown["disabled_reason"], shown["tries"]) == (
        False,
        "disabled",
        "failed",
        1,
    )
    expected = {"at": stamp(NOW), "item_id": "msg_1", "number": 1, "status": None, "error": "timeout"}
    assert shown["last_attempt"].to_dict() == expected
    assert [attempt.to_dict() for attempt in webhook.attempts_of(tried)] == [expected]


@pytest.mark.parametrize(
    "text", ["2026-03-14T14:30:00Z", "2026-03-14T14:30:00", "2026-03-14T14:30:00.000000", "2026-03-14T15:30:00+01:00"]
)
def test_a_time_without_an_offset_is_utc(text: str) -> None:
    assert webhook.moment(text) == stamp(NOW + timedelta(days=1))


@pytest.mark.parametrize("text", ["tomorrow", "", "2026-13-01T00:00:00", "2026-03-14T14:30:00ZZ"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="expires_at"):
        webhook.moment(text)


def test_no_time_is_never() -> None:
    assert webhook.moment(None) == ""
