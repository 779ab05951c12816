"""A subscription: which messages and events are pushed to which address, and what happens when a push fails.

active ──> active       an answer of 2xx moves the cursor on; any other waits for the next try
   │  ▲
   ▼  │                 a caller enables it again, or its agent registers an endpoint again
disabled                the last try failed, 410, the key or the endpoint is gone, or it was disabled by hand

When its time is up it is deleted, whatever its state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from parley.domain.channel.event import CHANNEL_MESSAGE
from parley.domain.exchange.notice import NoticeType
from parley.domain.record import UNSETTLED, Record
from parley.domain.times import stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.channel.feed import FeedItem

# How long to wait before each try, the first one included: ten over 75 hours, as Standard Webhooks proposes.
SCHEDULE = (
    timedelta(),
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
KEPT_ATTEMPTS = len(SCHEDULE)
# Failed tries are counted by the hour, for a day.
_COUNTED_HOURS = 24
# For how long a replaced secret still signs beside the new one.
OLD_SECRET_LASTS = timedelta(hours=24)
# Subscriptions that follow an agent's registered endpoint are listed apart: they count against no quota.
ENDPOINTS = "endpoint"
_GONE = 410


class SubscriptionState(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


class Reason(StrEnum):
    """Why a subscription is disabled."""

    NONE = ""
    FAILED = "failed"  # every try of the schedule
    GONE = "gone"  # the receiver said 410
    KEY_INVALID = "key_invalid"  # the key that made it
    NO_ENDPOINT = "no_endpoint"  # the agent left, or registered without one
    SWITCHED_OFF = "switched_off"


class Push(NamedTuple):
    """One push to one address; `id` stays the same over all tries, `at` is the moment of this one."""

    id: str
    url: str
    secrets: tuple[str, ...]
    at: datetime
    item: FeedItem
    tenant: str = ""


# Why there was no answer: the name of the address was not looked up in time, which says nothing about the other side.
LOOKUP_LATE = "lookup_late"
_LATE_LOOKUP_DELAY = timedelta(minutes=1)


class Answered(NamedTuple):
    """The result of a try: the status of the answer, or why there was none."""

    status: int = 0
    error: str = ""

    @property
    def accepted(self) -> bool:
        return not self.error and 200 <= self.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try, as its subscriber may look it up."""

    at: str
    item_id: str
    number: int
    status: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedHour:
    """How many tries failed within an hour, which is named by its beginning."""

    hour: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription(Record):
    """An address to which the messages and events of an agent, or notices, are pushed.

    All up to `cursor` was accepted there, or was not for it.
    """

    kind: ClassVar[str] = "subscription"

    # Empty: nothing is pushed, the subscriber reads a stream.
    url: str
    # Empty: made by a key that sees the whole tenant.
    subscriber_id: str = ""
    # The person who made it, with a key of its own.
    user_id: str = ""
    key_id: str = ""
    intent_id: str = ""
    event_types: tuple[str, ...] = ()
    # Whether it follows the endpoint in the registry instead of having been asked for.
    endpoint: bool = False
    secret: str
    old_secret: str = ""
    old_secret_until: str = ""
    created_at: str
    expires_at: str = ""
    state: SubscriptionState = SubscriptionState.ACTIVE
    reason: Reason = Reason.NONE
    cursor: int = UNSETTLED
    tries: int = 0
    next_try: str = ""
    attempts: tuple[Attempt, ...] = ()
    # The result of the last test that somebody sent.
    last_test: Attempt | None = None
    # The hours of the last day in which tries failed, the oldest first.
    failed_hours: tuple[FailedHour, ...] = ()

    @property
    def parent(self) -> str:
        return ENDPOINTS if self.endpoint else ""

    @property
    def due(self) -> str:
        return min(filter(None, (self.next_try, self.expires_at)), default="")

    @property
    def pushes(self) -> bool:
        return self.state is SubscriptionState.ACTIVE and self.url != ""

    @property
    def notices(self) -> bool:
        """Whether it is about approvals and exchanges, which have positions in the audit log."""
        return is_about_notices(self.event_types)

    def with_position(self, position: int) -> Self:
        return replace(self, cursor=position) if self.cursor == UNSETTLED else self

    def at_position(self, position: int) -> Self:
        """The subscription with its cursor at a position."""
        return replace(self, cursor=position)

    def secrets(self, now: str) -> tuple[str, ...]:
        """The secrets that sign now, newest first."""
        return (self.secret, self.old_secret) if self.old_secret_until > now else (self.secret,)


def endpoint_id(agent: str) -> str:
    """The id of the subscription that follows an agent's endpoint."""
    return f"sub_{ENDPOINTS}_{agent}"


def item_id(item: FeedItem) -> str:
    """The id of the message or event."""
    if item.post is not None:
        return item.post.id
    if item.notice is not None:
        return f"{item.notice.id}-{item.notice.type.value}"
    return item.event.id if item.event is not None else ""


def item_type(item: FeedItem) -> str:
    """The event type."""
    if item.notice is not None:
        return item.notice.type.value
    return item.event.event_type if item.event is not None else CHANNEL_MESSAGE


def push_id(subscription: Subscription, item: FeedItem) -> str:
    """The same for every try, another for every subscription: two agents may share an address."""
    return f"{subscription.id}-{item_id(item)}"


def wants(subscription: Subscription, item: FeedItem) -> bool:
    """Whether it was subscribed to; whether the subscriber may see it is another question."""
    if subscription.intent_id and item.intent_id != subscription.intent_id:
        return False
    if subscription.endpoint and item.post is None:
        return False
    types = subscription.event_types
    return not types or _plain(item_type(item)) in map(_plain, types)


def _plain(event_type: str) -> str:
    """Event types have two spellings: channel_message and channel.message are one."""
    return event_type.replace(".", "_").lower()


_NOTICES = frozenset([_plain(notice_type.value) for notice_type in NoticeType])


def is_about_notices(event_types: tuple[str, ...]) -> bool:
    """Whether these types are all of the kind that is told of approvals and exchanges."""
    return bool(event_types) and all(_plain(event_type) in _NOTICES for event_type in event_types)


def is_mixed(event_types: tuple[str, ...]) -> bool:
    """Whether these types are counted in two ways, so that no cursor fits both."""
    return any(_plain(event_type) in _NOTICES for event_type in event_types) and not is_about_notices(event_types)


def failed_since_yesterday(subscription: Subscription, now: datetime) -> int:
    """How many tries failed in the last 24 hours, to the hour."""
    since = _hour(now - timedelta(hours=_COUNTED_HOURS))
    return sum([failed.count for failed in subscription.failed_hours if failed.hour > since])


def _hour(moment: datetime) -> str:
    return stamp(moment.replace(minute=0, second=0, microsecond=0))


def _with_failure(subscription: Subscription, now: datetime) -> Subscription:
    hour, hours = _hour(now), subscription.failed_hours
    count = hours[-1].count + 1 if hours and hours[-1].hour == hour else 1
    earlier = [failed for failed in hours if failed.hour != hour]
    failed_hours = (*earlier, FailedHour(hour=hour, count=count))[-_COUNTED_HOURS:]
    return replace(subscription, failed_hours=failed_hours)


def noted(subscription: Subscription, position: int, attempt: Attempt, now: datetime) -> Subscription:
    """The subscription after a try to push what is at `position`."""
    attempts = (*subscription.attempts, attempt)[-KEPT_ATTEMPTS:]
    tried = replace(subscription, attempts=attempts)
    if Answered(attempt.status, attempt.error).accepted:
        return replace(tried, cursor=max(position, tried.cursor), tries=0, next_try="")
    tried = _with_failure(tried, now)
    if tried.state is not SubscriptionState.ACTIVE:
        return tried
    if attempt.error == LOOKUP_LATE:
        return replace(tried, next_try=stamp(now + _LATE_LOOKUP_DELAY))
    tries = tried.tries + 1
    if attempt.status == _GONE:
        return disabled(replace(tried, tries=tries), Reason.GONE)
    if tries >= len(SCHEDULE):
        return disabled(replace(tried, tries=tries), Reason.FAILED)
    return replace(tried, tries=tries, next_try=stamp(now + SCHEDULE[tries]))


def disabled(subscription: Subscription, reason: Reason) -> Subscription:
    """The subscription disabled; its cursor stays."""
    return replace(subscription, state=SubscriptionState.DISABLED, reason=reason, next_try="")


def enabled(subscription: Subscription) -> Subscription:
    """The subscription enabled again, at its cursor, with all tries."""
    return replace(subscription, state=SubscriptionState.ACTIVE, reason=Reason.NONE, tries=0, next_try="")


def with_secret(subscription: Subscription, secret: str, now: datetime) -> Subscription:
    """Signed by a new secret; for a while by the old one too, so that receivers can change over."""
    until = stamp(now + OLD_SECRET_LASTS)
    return replace(subscription, secret=secret, old_secret=subscription.secret, old_secret_until=until)
