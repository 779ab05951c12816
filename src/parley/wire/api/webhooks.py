"""Webhooks as Standard Webhooks has them: what is sent, how it is signed, and how a receiver checks it; pure.

POST <url>
webhook-id: sub_01...-msg_01...        the same over all tries
webhook-timestamp: 1794792358          of this try
webhook-signature: v1,<base64>         HMAC-SHA256 over id.timestamp.body; one for each valid secret
{"type": ..., "timestamp": ..., "data": {...}}
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections import OrderedDict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from parley.domain.channel.post import PostState
from parley.domain.channel.subscription import SubscriptionState, item_type
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.team import WebhookInvalid, WebhookReplayed
from parley.domain.exchange.notice import facts_of
from parley.domain.times import parse_time, stamp
from parley.wire.api import channels as rfc0021
from parley.wire.api.channels import Name
from parley.wire.api.records.channels import Attempt, NewSubscription, Subscription, SubscriptionSecret
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from parley.domain.channel.feed import FeedItem
    from parley.domain.channel.subscription import Attempt as StoredAttempt
    from parley.domain.channel.subscription import Push
    from parley.domain.channel.subscription import Subscription as StoredSubscription

SECRET_PREFIX = "whsec_"  # noqa: S105  # what a secret begins with
TOLERANCE = timedelta(minutes=5)
_VERSION = "v1"
_REMEMBERED = 100_000


# ---------------------------------------------------------------- what is sent


def body(item: FeedItem) -> bytes:
    """The document of a webhook."""
    if item.post is not None:
        at, data = item.post.created_at, rfc0021.posted(item.post, PostState.DELIVERED.value)
        # A receiver of many intents has to tell them apart.
        data = data[:-1] + f',"intent_id":"{item.post.intent_id}"}}'.encode()
    elif item.notice is not None:
        at, data = item.notice.at, msgspec.json.encode(facts_of(item.notice))
    else:
        assert item.event is not None  # noqa: S101  # an item is one of the three
        at, data = item.event.created_at, item.event.document
    return b'{"type":%b,"timestamp":"%b","data":%b}' % (msgspec.json.encode(item_type(item)), at.encode(), data)


def headers(push: Push, content: bytes) -> tuple[tuple[str, str], ...]:
    """The three headers that make it a webhook."""
    seconds = int(push.at.timestamp())
    return (
        ("webhook-id", push.id),
        ("webhook-timestamp", str(seconds)),
        ("webhook-signature", " ".join(sign(secret, push.id, seconds, content) for secret in push.secrets)),
    )


def sign(secret: str, webhook_id: str, seconds: int, content: bytes) -> str:
    """One signature, with its version before it."""
    signed = b"%b.%d.%b" % (webhook_id.encode(), seconds, content)
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return f"{_VERSION},{base64.b64encode(digest).decode()}"


def _key(secret: str) -> bytes:
    spelled = secret.removeprefix(SECRET_PREFIX)
    try:
        key = base64.b64decode(spelled, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise Invalid("this is no webhook secret", hint=f"it begins with {SECRET_PREFIX} and goes on in base64")
    return key


# ---------------------------------------------------------------- what a receiver does


class Memory:
    """The ids of recently received webhooks. Older ones are refused by their timestamp."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._until: OrderedDict[str, datetime] = OrderedDict()

    def __contains__(self, webhook_id: str) -> bool:
        return webhook_id in self._until

    def add(self, webhook_id: str, now: datetime, until: datetime) -> None:
        """Remember one, and forget what can no longer come again."""
        while self._until and (len(self._until) >= self._most or next(iter(self._until.values())) < now):
            self._until.popitem(last=False)
        self._until[webhook_id] = until


def verify(
    secret: str,
    received: Mapping[str, str],
    content: bytes,
    now: datetime,
    *,
    memory: Memory | None = None,
    tolerance: timedelta = TOLERANCE,
) -> dict[str, Any]:
    """The document of a webhook, if this secret signed exactly this body within the last five minutes.

    `received` are the headers, in any case. Raises `WebhookInvalid`; with a `memory`, `WebhookReplayed` for an id that
    was accepted before: nothing is to be done then, and the answer is 2xx, because the sender missed the first one.
    """
    fields = {name.lower(): value for name, value in received.items()}
    webhook_id, spelled = fields.get("webhook-id", ""), fields.get("webhook-timestamp", "")
    if not webhook_id or not (spelled.isascii() and spelled.isdigit() and len(spelled) <= 12):
        raise WebhookInvalid("the webhook has no id or no timestamp")
    seconds = int(spelled)
    if abs(now.timestamp() - seconds) > tolerance.total_seconds():
        raise WebhookInvalid("the webhook is not of this moment")
    expected = sign(secret, webhook_id, seconds, content).encode()
    signatures = fields.get("webhook-signature", "").encode("utf-8", "replace").split()
    # Every one is compared to its end, whichever fits.
    if sum([hmac.compare_digest(signature, expected) for signature in signatures]) == 0:
        raise WebhookInvalid("no signature fits the webhook")
    if memory is not None:
        if webhook_id in memory:
            raise WebhookReplayed
        memory.add(webhook_id, now, now + 2 * tolerance)
    document = msgspec.json.decode(content)
    if not isinstance(document, dict):
        raise WebhookInvalid("the webhook holds no object")
    return document


# ---------------------------------------------------------------- subscriptions as JSON


class SubscriptionIn(Struct, forbid_unknown_fields=True):
    """What to push, and where. Without `intent_id`: messages to the subscriber; without types: all of them.

    `approval.pending`, `approval.reminder`, `approval.decided` and `exchange.ended` are subscribed to by name, in a
    subscription of their own.
    """

    webhook_url: Annotated[str, Meta(min_length=1, max_length=2048)] | None = None
    intent_id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    portfolio_id: Annotated[str, Meta(max_length=64)] | None = None
    subscriber_id: Name | None = None
    event_types: Annotated[list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(max_length=100)] | None = None
    expires_at: Annotated[str, Meta(description="RFC 3339; without an offset it is UTC.")] | None = None


class SubscriptionPatch(Struct, forbid_unknown_fields=True):
    """Enable a subscription, which resets its attempts, or disable it."""

    active: bool


def subscription_of(stored: StoredSubscription, waiting: int, failed: int) -> Subscription:
    """A subscription, how many items wait behind it, and how many tries failed in a day."""
    return fill_record(Subscription, stored, waiting=waiting, failed_24h=failed, **_different(stored))


def new_subscription_of(stored: StoredSubscription) -> NewSubscription:
    return fill_record(NewSubscription, stored, waiting=0, failed_24h=0, **_different(stored))


def _different(stored: StoredSubscription) -> dict[str, Any]:
    """The fields of a subscription that the store has not, or not by this name."""
    return {
        "portfolio_id": None,
        "webhook_url": stored.url,
        "active": stored.state is SubscriptionState.ACTIVE,
        "disabled_reason": stored.reason,
        "follows_endpoint": stored.endpoint,
        "next_try_at": stored.next_try,
        "last_attempt": attempts_of(stored)[-1] if stored.attempts else None,
        "last_test": _attempt_of(stored.last_test) if stored.last_test is not None else None,
        "createdAt": stored.created_at,
        "expiresAt": stored.expires_at,
    }


def attempts_of(stored: StoredSubscription) -> list[Attempt]:
    """The last tries, the oldest first."""
    return [_attempt_of(attempt) for attempt in stored.attempts]


def _attempt_of(attempt: StoredAttempt) -> Attempt:
    return fill_record(Attempt, attempt, status=attempt.status or None)


def test_of(stored: StoredSubscription) -> Attempt:
    """The result of the last test."""
    assert stored.last_test is not None  # noqa: S101  # it was sent just now
    return _attempt_of(stored.last_test)


def secret_of(stored: StoredSubscription) -> SubscriptionSecret:
    return fill_record(SubscriptionSecret, stored)


def moment(text: str | None) -> str:
    """A time as a stamp, "" for none. The SDK sends times without an offset: they are UTC."""
    if text is None:
        return ""
    for spelled in (text, f"{text}Z"):
        try:
            return stamp(parse_time(spelled))
        except Invalid:
            continue
    raise Invalid.because([Problem("invalid", "expires_at", "is not a time like 2026-03-13T14:30:00Z")])
