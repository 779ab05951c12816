"""Webhook delivery: a worker runs the subscriptions that have something to push, independently of each other.

    commit ──> the worker hears of it ──> a task for each subscription that wants it ──> `pushing.deliver`
    a second passes ──> those whose next try, or whose end, has come

The worker only remembers who has to be looked at; where each one stands is in the store. So a restart costs a look at
all of them, and loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from parley.app.team.state.tail import of_agent, of_intent
from parley.app.team.webhooks import pushing
from parley.app.team.webhooks.pushing import Progress, PushOutcome
from parley.app.team.webhooks.subscriptions import follow_endpoint, follows
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.subscription import ENDPOINTS, Subscription, endpoint_id, wants
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, Tenant
from parley.domain.errors.errors import ParleyError
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange
from parley.domain.record import UNSETTLED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from parley.app.team.state.tail import Topic
    from parley.app.team.team import Team
    from parley.domain.store.changes import Committed
    from parley.ports.outside import Outbound

_log = logging.getLogger("parley.webhooks")
TICK_SECONDS = 1.0
_MOST_AT_ONCE = 256
_MOST_OF_A_TENANT = 64
# How far a cursor may lie behind what its subscription is known not to want, before that is written down.
_FAR_BEHIND = 10_000
_WRITTEN_AT_ONCE = 50
_LISTED = 1_000

# Tenant and id.
Ref = tuple[str, str]


async def deliver_forever(team: Team, outbound: Outbound) -> None:
    """Push what is due, until cancelled."""
    await Worker(team, outbound).run()


async def _tenants(team: Team) -> list[str]:
    tenants = await team.store.children(Tenant, NO_TENANT, "")
    return list(dict.fromkeys((DEFAULT_TENANT, *(tenant.id for tenant in tenants))))


async def _all(team: Team, tenants: Iterable[str]) -> AsyncIterator[Subscription]:
    for tenant in tenants:
        for parent in ("", ENDPOINTS):
            after = ""
            while page := await team.store.children(Subscription, tenant, parent, after=after, limit=_LISTED):
                for subscription in page:
                    yield subscription
                after = page[-1].id


async def _unfollowed(team: Team, tenants: Iterable[str]) -> AsyncIterator[Ref]:
    """Agents whose registered endpoint and subscription differ."""
    for tenant in tenants:
        after = ""
        while page := await team.store.children(AgentRecord, tenant, "", after=after, limit=_LISTED):
            for record in page:
                if not follows(record, await team.store.get(Subscription, tenant, endpoint_id(record.id))):
                    yield tenant, record.id
            after = page[-1].id


class Worker:
    """Keeps which subscriptions must be checked. All of its state can be rebuilt from the store."""

    def __init__(self, team: Team, outbound: Outbound) -> None:
        self._team = team
        self._outbound = outbound
        self._known: dict[Ref, Subscription] = {}
        self._wanting: dict[Topic, set[Ref]] = {}
        # To be looked at, in this order.
        self._ready: dict[Ref, None] = {}
        self._running: dict[Ref, asyncio.Task[Progress]] = {}
        self._tenants: Counter[str] = Counter()
        # Those that have all there is. Only for these it is known that nothing before the next item is theirs.
        self._idle: set[Ref] = set()
        self._after: dict[Ref, int] = {}
        # Agents whose endpoint changed, and where; tenants and how far they were heard of.
        self._moved: dict[Ref, int] = {}
        self._heads: dict[str, int] = {}
        # What went wrong here, to be tried again in a while.
        self._stumbled: set[Ref] = set()
        self._wake = asyncio.Event()
        self._next_tick = 0.0
        # Tenants that began since.
        self._new: set[str] = set()
        # Whose messages are pushed to somebody; and of whom we heard that something was written, and not what.
        self._pushed: dict[str, set[Ref]] = {}
        self._stirred: set[str] = set()
        self._unwatch = team.store.watch(self._heard, needs=lambda tenant: bool(self._pushed.get(tenant)))

    async def run(self) -> None:
        """Work until cancelled."""
        loaded = False
        try:
            while True:
                try:
                    if not loaded:
                        await self._load()
                        loaded = True
                    await self._round()
                except ParleyError as error:
                    _log.warning("webhooks were interrupted", extra={"action": "push", "code": error.code})
                    await asyncio.sleep(TICK_SECONDS)
        finally:
            self._unwatch()
            tasks = list(self._running.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _load(self) -> None:
        await self._load_tenants(await _tenants(self._team))

    async def _load_tenants(self, tenants: Iterable[str]) -> None:
        async for tenant, agent in _unfollowed(self._team, tenants):
            self._moved.setdefault((tenant, agent), UNSETTLED)
        async for subscription in _all(self._team, tenants):
            self._learn(subscription)

    async def _round(self) -> None:
        self._wake.clear()
        if self._new:
            # From here on the store follows them, too; what they had before is found by looking.
            new, self._new = self._new, set()
            await self._load_tenants(new)
        for ref, position in list(self._moved.items()):
            await follow_endpoint(self._team, *ref, position)
            if self._moved[ref] == position:
                del self._moved[ref]
        self._start()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(self._next_tick):
                await self._wake.wait()
        except TimeoutError:
            pass
        # However much there is to do, a second is a second: who waits for its next try is not forgotten.
        if loop.time() >= self._next_tick:
            self._next_tick = loop.time() + TICK_SECONDS
            await self._tick()

    async def _tick(self) -> None:
        now = self._team.at()
        if self._stirred:
            # Somebody may have subscribed, or registered an endpoint: then we are told.
            stirred, self._stirred = self._stirred, set()
            await self._team.store.catch_up(*stirred)
        stumbled, self._stumbled = self._stumbled, set()
        for ref, subscription in self._known.items():
            if ref in stumbled or (subscription.due and subscription.due <= now):
                self._look(ref)
        behind = [ref for ref in self._idle if self._known_to(ref) - self._known[ref].cursor > _FAR_BEHIND]
        for ref in behind[:_WRITTEN_AT_ONCE]:
            # Looked up at the last moment: what came meanwhile may be for it, and then it is not idle any more.
            if ref in self._idle:
                await pushing.move_on(self._team, *ref, self._known_to(ref))

    def _known_to(self, ref: Ref) -> int:
        """Up to where nothing is left for a subscription that is idle."""
        return self._after.get(ref, 0) if self._known[ref].notices else self._heads.get(ref[0], 0)

    # ------------------------------------------------------------------ hearing

    def _heard(self, tenant: str, committed: Committed) -> None:
        self._heads[tenant] = committed.position
        if not (committed.puts or committed.posts or committed.events):
            self._stirred.add(tenant)
        for record in committed.puts:
            if isinstance(record, Subscription):
                self._learn(record)
            elif isinstance(record, Tenant):
                self._new.add(record.id)
                self._wake.set()
            elif isinstance(record, AgentRecord) and not follows(record, self._endpoint_of(record)):
                self._moved[tenant, record.id] = committed.position
                self._wake.set()
        if not self._known:
            return
        if any(
            isinstance(record, Approval) or (isinstance(record, Exchange) and record.over) for record in committed.puts
        ):
            for ref in self._wanting.get(_notices(tenant), ()):
                if ref in self._idle or ref in self._running:
                    self._idle.discard(ref)
                    self._look(ref)
        for post in committed.posts:
            item = FeedItem.of_post(post)
            topics: list[Topic] = [of_intent(tenant, post.intent_id), _everything(tenant)]
            if post.recipients is None:
                topics += [_agents(tenant), _endpoints(tenant)]
            else:
                topics += [of_agent(tenant, agent) for agent in post.recipients]
            self._mark(topics, item)
        for event in committed.events:
            topics = [of_intent(tenant, event.intent_id), _everything(tenant), _agents(tenant)]
            self._mark(topics, FeedItem.of_event(event))

    def _endpoint_of(self, record: AgentRecord) -> Subscription | None:
        return self._known.get((record.tenant_id, endpoint_id(record.id)))

    def _mark(self, topics: Iterable[Topic], item: FeedItem) -> None:
        for ref in {ref for topic in topics for ref in self._wanting.get(topic, ())}:
            if not wants(self._known[ref], item):
                continue
            if ref in self._idle:
                self._idle.discard(ref)
                self._after[ref] = item.position - 1
                self._look(ref)
            elif ref in self._running:
                self._look(ref)  # again, when it is through

    def _look(self, ref: Ref) -> None:
        self._ready[ref] = None
        self._wake.set()

    def _learn(self, subscription: Subscription) -> None:
        """Take in a subscription as it now is."""
        ref = (subscription.tenant_id, subscription.id)
        before = self._known.get(ref)
        if before is not None and before.version >= subscription.version:
            return
        self._known[ref] = subscription
        pushed = self._pushed.setdefault(subscription.tenant_id, set())
        (pushed.add if subscription.pushes else pushed.discard)(ref)
        for topic in _topics(subscription):
            if subscription.pushes:
                self._wanting.setdefault(topic, set()).add(ref)
            else:
                self._wanting.get(topic, set()).discard(ref)
        if not subscription.pushes:
            self._rest(ref)
        elif (
            before is None
            or not before.pushes
            or before.url != subscription.url
            or (before.tries and not subscription.tries)
        ):
            self._rest(ref)
            self._look(ref)

    def _rest(self, ref: Ref) -> None:
        """Forget how far it was looked at: its cursor says it."""
        self._idle.discard(ref)
        self._after.pop(ref, None)
        self._ready.pop(ref, None)

    def _forget(self, ref: Ref) -> None:
        subscription = self._known.pop(ref, None)
        self._pushed.get(ref[0], set()).discard(ref)
        self._rest(ref)
        for topic in _topics(subscription) if subscription else ():
            self._wanting.get(topic, set()).discard(ref)

    # ------------------------------------------------------------------ working

    def _start(self) -> None:
        for ref in list(self._ready):
            if len(self._running) >= _MOST_AT_ONCE:
                return
            if ref in self._running or self._tenants[ref[0]] >= _MOST_OF_A_TENANT:
                continue
            del self._ready[ref]
            self._idle.discard(ref)
            work = pushing.deliver(self._team, self._outbound, *ref, self._after.pop(ref, 0))
            task = asyncio.get_running_loop().create_task(work)
            self._running[ref] = task
            self._tenants[ref[0]] += 1
            task.add_done_callback(partial(self._finished, ref))

    def _finished(self, ref: Ref, task: asyncio.Task[Progress]) -> None:
        del self._running[ref]
        self._tenants[ref[0]] -= 1
        self._wake.set()
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("a webhook could not be handled", exc_info=error, extra={"action": "push", "id": ref[1]})
            self._stumbled.add(ref)
            return
        outcome, after = task.result()
        if outcome is PushOutcome.GONE:
            self._forget(ref)
        if outcome in (PushOutcome.GONE, PushOutcome.OVER, PushOutcome.WAITS):
            return
        self._after[ref] = after
        if outcome is PushOutcome.MORE:
            self._look(ref)
        elif ref not in self._ready:
            self._idle.add(ref)


def _topics(subscription: Subscription) -> tuple[Topic, ...]:
    """The topics of a subscription."""
    tenant = subscription.tenant_id
    if subscription.notices:
        return (_notices(tenant),)
    if subscription.intent_id:
        return (of_intent(tenant, subscription.intent_id),)
    if not subscription.subscriber_id:
        return (_everything(tenant),)
    return (
        of_agent(tenant, subscription.subscriber_id),
        _endpoints(tenant) if subscription.endpoint else _agents(tenant),
    )


def _everything(tenant: str) -> Topic:
    return (tenant, "everything", "")


def _agents(tenant: str) -> Topic:
    return (tenant, "agents", "")


def _endpoints(tenant: str) -> Topic:
    return (tenant, "endpoints", "")


def _notices(tenant: str) -> Topic:
    return (tenant, "notices", "")
