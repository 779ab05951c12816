"""Push to one subscription: the visible items after its cursor, in order, at least once.

The cursor moves only after the receiver has accepted, so a crash repeats the last push and loses none.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels import streams
from parley.app.team.channels.streams import Followed
from parley.app.team.decisions import notices
from parley.app.team.state.suspended import check_not_suspended
from parley.app.team.team import ATTEMPTS
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.event import Event, quoted
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.subscription import (
    Attempt,
    Push,
    Reason,
    Subscription,
    disabled,
    item_id,
    noted,
    push_id,
    wants,
)
from parley.domain.directory.callers import NO_TENANT, SYSTEM, Caller, Key, KeyKind
from parley.domain.errors.errors import NotFound, Stale
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import TargetForbidden
from parley.domain.mailbox.ledger import Entry
from parley.domain.record import UNSETTLED
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.app.team.team import Team
    from parley.domain.channel.subscription import Answered
    from parley.ports.outside import Outbound

_log = logging.getLogger("parley.webhooks")
PAGE = 500
# Pushes in one pass, before other subscriptions have their turn.
AT_ONCE = 100
# Counting of what waits ends here.
WAITING_MAX = 1_000
# The type of a webhook that is only sent to see whether it arrives.
TEST = "webhook.test"


class PushOutcome(Enum):
    """The state of a subscription after a pass."""

    IDLE = "idle"  # it has everything there is
    MORE = "more"  # there may be more for it
    WAITS = "waits"  # for the time of its next try
    OVER = "over"  # it is disabled
    GONE = "gone"  # it is deleted
    SKIPPED = "skipped"
    PUSHED = "pushed"


class Progress(NamedTuple):
    """An outcome, and the position up to which nothing is left to push; 0: what the cursor says."""

    outcome: PushOutcome
    after: int = 0


async def deliver(team: Team, outbound: Outbound, tenant: str, subscription_id: str, after: int = 0) -> Progress:
    """Push the next items of a subscription: after its cursor, or a later position known to be done."""
    ready = await _ready(team, tenant, subscription_id)
    if isinstance(ready, PushOutcome):
        return Progress(ready)
    subscription, _ = ready
    after = max(after, subscription.cursor)
    page, reached = await _page_after(team, subscription, after)
    left = AT_ONCE
    for item in page:
        if wants(subscription, item):
            outcome = await _hand_over(team, outbound, tenant, subscription_id, item)
            if outcome not in (PushOutcome.PUSHED, PushOutcome.SKIPPED):
                return Progress(outcome, after)
            left -= outcome is PushOutcome.PUSHED
        after = item.position
        if not left:
            return Progress(PushOutcome.MORE, after)
    # A short page may have been cut by size.
    more = len(page) == PAGE or (reached and (await _page_after(team, subscription, reached, 1))[1])
    return Progress(PushOutcome.MORE if more else PushOutcome.IDLE, reached or after)


async def _page_after(
    team: Team, subscription: Subscription, after: int, limit: int = PAGE
) -> tuple[Sequence[FeedItem], int]:
    """The items after a position, and the position reached; 0 for none."""
    if subscription.notices:
        return await notices.list_after(team, subscription.tenant_id, after, limit)
    page = await team.store.feed(subscription.tenant_id, after, limit)
    return page, page[-1].position if page else 0


async def send_test(team: Team, subscription: Subscription) -> Attempt:
    """Push a test to the address of a subscription, signed like everything else. Its cursor and tries stay."""
    if team.outbound is None:
        raise TargetForbidden("this server sends no webhooks")
    at = team.at()
    document = quoted({"subscription_id": subscription.id, "created_at": at})
    event = Event(UNSETTLED, subscription.intent_id, 0, team.new_id("test"), TEST, SYSTEM, at, "", document, "")
    item = FeedItem.of_event(event)
    push = Push(
        push_id(subscription, item),
        subscription.url,
        subscription.secrets(at),
        team.now(),
        item,
        subscription.tenant_id,
    )
    answered = await team.outbound.push(push)
    return Attempt(at=at, item_id=event.id, number=1, status=answered.status, error=answered.error)


async def count_waiting(team: Team, subscription: Subscription) -> int:
    """How many items a subscription has not accepted yet, up to `WAITING_MAX`."""
    caller = await _subscriber(team, subscription, team.at()) if subscription.url else None
    if caller is None or subscription.cursor == UNSETTLED:
        return 0
    tenant, types = subscription.tenant_id, subscription.event_types
    if subscription.notices or not (subscription.intent_id or subscription.subscriber_id):
        page, _ = await _page_after(team, subscription, subscription.cursor, WAITING_MAX)
        wanted = [item for item in page if wants(subscription, item)]
        return sum([1 for item in wanted if await _may_see(team, caller, subscription, item)])
    followed = Followed(intent_id=subscription.intent_id) if subscription.intent_id else Followed(agent=caller.agent)
    try:
        scope = await streams.scope_of(team, caller, followed)
    except NotFound:
        return 0  # it may no longer read this intent
    head = await team.store.head(tenant)
    positions, _ = await team.store.find_positions(tenant, scope, subscription.cursor, head, WAITING_MAX)
    if not positions or not (types or subscription.endpoint):
        return len(positions)
    items, _ = await team.store.read_positions(tenant, positions)
    return sum([1 for item in items if wants(subscription, item)])


async def move_on(team: Team, tenant: str, subscription_id: str, position: int) -> None:
    """Advance the cursor over items that are not for this subscription, to skip them after a restart."""
    subscription = await team.store.get(Subscription, tenant, subscription_id)
    if subscription is None or subscription.cursor >= position or subscription.next_try:
        return
    try:
        await team.store.commit(TeamChanges(tenant, puts=(subscription.at_position(position),)))
    except Stale:
        return  # changed concurrently: next time


async def _ready(team: Team, tenant: str, subscription_id: str) -> tuple[Subscription, Caller] | PushOutcome:
    """The subscription and its caller, if a push is possible now; else the outcome."""
    subscription = await team.store.get(Subscription, tenant, subscription_id)
    now = team.at()
    if subscription is None:
        return PushOutcome.GONE
    if subscription.expires_at and subscription.expires_at <= now:
        return await _drop(team, subscription)
    if not subscription.pushes:
        return PushOutcome.OVER
    caller = await _subscriber(team, subscription, now)
    if caller is None:
        gone = subscription.endpoint and not await _endpoint_key(team, subscription)
        return await _disable(team, subscription, Reason.NO_ENDPOINT if gone else Reason.KEY_INVALID)
    return PushOutcome.WAITS if subscription.next_try > now else (subscription, caller)


async def _subscriber(team: Team, subscription: Subscription, now: str) -> Caller | None:
    """The current caller of a subscription; None when its key or endpoint is no longer valid."""
    tenant, agent = subscription.tenant_id, subscription.subscriber_id
    if subscription.endpoint:
        record = await team.store.get(AgentRecord, tenant, agent)
        if record is None or record.gone or record.endpoint != subscription.url:
            return None
        key = await team.store.get(Key, NO_TENANT, record.endpoint_key) if record.endpoint_key else None
        ended = record.endpoint_key and (key is None or not key.valid(now))
        return None if ended else Caller(tenant, agent, KeyKind.AGENT, "")
    key = await team.store.get(Key, NO_TENANT, subscription.key_id)
    if key is None or not key.valid(now) or key.owner != tenant:
        return None
    if key.agent_id and key.agent_id != agent:
        return None
    return Caller(tenant, agent, key.key_kind, key.id, key.user_id)


async def _endpoint_key(team: Team, subscription: Subscription) -> str:
    """The key that registered the endpoint of this subscription; "" when it is registered no more."""
    record = await team.store.get(AgentRecord, subscription.tenant_id, subscription.subscriber_id)
    there = record is not None and not record.gone and record.endpoint == subscription.url
    return record.endpoint_key if record is not None and there else ""


async def _drop(team: Team, subscription: Subscription) -> PushOutcome:
    entry = Entry("subscription_expired", team.at(), SYSTEM, subscription.id, "", {})
    try:
        await team.store.commit(TeamChanges(subscription.tenant_id, drops=(subscription,), entries=(entry,)))
    except Stale:
        return PushOutcome.MORE  # changed concurrently: check again
    return PushOutcome.GONE


async def _disable(team: Team, subscription: Subscription, reason: Reason) -> PushOutcome:
    try:
        await team.store.commit(_changes(team, subscription, disabled(subscription, reason)))
    except Stale:
        return PushOutcome.MORE
    return PushOutcome.OVER


def _changes(team: Team, before: Subscription, after: Subscription) -> TeamChanges:
    """The changes of an automatic update; the ledger records why a subscription was disabled."""
    if not after.reason or after.reason is before.reason:
        return TeamChanges(after.tenant_id, puts=(after,))
    facts = {"reason": after.reason.value, "tries": str(after.tries)}
    _log.warning("a webhook was disabled", extra={"action": "push", "subscription_id": after.id, **facts})
    entry = Entry("subscription_disabled", team.at(), SYSTEM, after.id, "", facts)
    return TeamChanges(after.tenant_id, puts=(after,), entries=(entry,))


async def _hand_over(team: Team, outbound: Outbound, tenant: str, subscription_id: str, item: FeedItem) -> PushOutcome:
    """Push one item, by the current rights and time."""
    ready = await _ready(team, tenant, subscription_id)
    if isinstance(ready, PushOutcome):
        return ready
    subscription, caller = ready
    fresh = await _fresh(team, tenant, item)
    if fresh is None or not await _may_see(team, caller, subscription, fresh):
        return PushOutcome.SKIPPED
    moment = team.now()
    secrets = subscription.secrets(team.at())
    push = Push(push_id(subscription, fresh), subscription.url, secrets, moment, fresh, tenant)
    answered = await outbound.push(push)
    updated = await _noted(team, subscription, fresh, answered)
    if updated is None:
        return PushOutcome.GONE
    if not updated.pushes:
        return PushOutcome.OVER
    if answered.accepted:
        return PushOutcome.PUSHED
    return PushOutcome.WAITS if updated.next_try else PushOutcome.MORE


async def _fresh(team: Team, tenant: str, item: FeedItem) -> FeedItem | None:
    """The item as stored now; None when it was evicted meanwhile."""
    if item.post is None:
        return item
    post = await team.store.post(tenant, item.post.id)
    return FeedItem.of_post(post) if post is not None and post.position == item.position else None


async def _may_see(team: Team, caller: Caller, subscription: Subscription, item: FeedItem) -> bool:
    try:
        await check_not_suspended(team.store, caller)
    except Suspended:
        return False  # as if it read it: it can read what is left when the suspension is lifted
    if item.notice is not None:
        return await notices.can_see(team, caller, item.notice)
    if subscription.intent_id or not subscription.subscriber_id:
        followed = Followed(intent_id=subscription.intent_id or item.intent_id)
    else:
        followed = Followed(agent=subscription.subscriber_id)
    return await streams.is_visible(team, caller, followed, item)


async def _noted(team: Team, before: Subscription, item: FeedItem, answered: Answered) -> Subscription | None:
    """Store the result of an attempt; None when the subscription was deleted meanwhile."""
    at = team.at()
    for _ in range(ATTEMPTS):
        attempt = Attempt(
            at=at, item_id=item_id(item), number=before.tries + 1, status=answered.status, error=answered.error
        )
        after = noted(before, item.position, attempt, team.now())
        try:
            committed = await team.store.commit(_changes(team, before, after))
        except Stale:
            now = await team.store.get(Subscription, before.tenant_id, before.id)
            if now is None or now.cursor >= item.position:
                return now
            before = now
            continue
        record = committed.puts[0]
        assert isinstance(record, Subscription)  # noqa: S101  # what was put
        return record
    return before
