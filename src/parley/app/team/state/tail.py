"""The hot tail: what was just committed, handed to whoever listens. Nothing gets here that is not durable.

Each listener has a queue of its own, bounded: who falls behind reads from the store after its cursor, so a lost wake-up
or a full queue costs time, never a message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from parley.domain.channel.channel import Channel
from parley.domain.channel.feed import FeedItem
from parley.domain.directory.access import Access
from parley.domain.directory.callers import NO_TENANT, Key
from parley.domain.rules.suspension import Suspensions

if TYPE_CHECKING:
    from parley.domain.channel.post import Post
    from parley.domain.errors.errors import ParleyError
    from parley.domain.store.changes import Committed

_QUEUED = 1_000
Topic = tuple[str, str, str]


class Listener:
    """One stream's share of the tail. `behind` says that its queue overflowed."""

    __slots__ = ("behind", "event", "lost", "queue", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.queue: deque[FeedItem] = deque()
        self.event = asyncio.Event()
        self.behind = False
        # Why nothing will come any more.
        self.lost: ParleyError | None = None

    def offer(self, item: FeedItem) -> None:
        """Queue what was committed, or note that there was too much of it."""
        if len(self.queue) >= _QUEUED:
            self.behind = True
            self.queue.clear()
        elif not self.behind:
            self.queue.append(item)
        self.event.set()

    def take(self) -> list[FeedItem]:
        """All that is queued; the listener is awake until it finds nothing."""
        if self.lost is not None:
            raise self.lost
        items = list(self.queue)
        self.queue.clear()
        self.event.clear()
        return items


def of_channel(tenant: str, channel_id: str) -> Topic:
    """What is said in a channel."""
    return (tenant, "channel", channel_id)


def of_intent(tenant: str, intent_id: str) -> Topic:
    """What is said and happens on an intent."""
    return (tenant, "intent", intent_id)


def of_agent(tenant: str, agent: str) -> Topic:
    """What is said to an agent, and what happens."""
    return (tenant, "agent", agent)


class Tail:
    """Who listens to what."""

    def __init__(self) -> None:
        self._listeners: dict[Topic, set[Listener]] = {}
        self._agents: dict[str, set[Listener]] = {}
        self._tenants: dict[str, set[Listener]] = {}
        # The server is about to stop: who waits for something to come should not.
        self.closing = False

    def listen(self, topic: Topic) -> Listener:
        """Hear everything on a topic from now on."""
        listener = Listener(topic)
        self._listeners.setdefault(topic, set()).add(listener)
        self._tenants.setdefault(topic[0], set()).add(listener)
        if topic[1] == "agent":
            self._agents.setdefault(topic[0], set()).add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Hear nothing any more."""
        tenant, kind, _ = listener.topic
        _discard(self._listeners, listener.topic, listener)
        _discard(self._tenants, tenant, listener)
        if kind == "agent":
            _discard(self._agents, tenant, listener)

    def publish(self, tenant: str, committed: Committed) -> None:
        """Hand out a commit; its items are encoded by whoever shows them."""
        for record in committed.puts:
            if isinstance(record, Access | Suspensions):
                self.wake(tenant)
            elif isinstance(record, Key):
                self.wake(record.owner)
            elif isinstance(record, Channel):
                self._wake_channel(tenant, record.id)
        for channel_id in committed.ended:
            self._wake_channel(tenant, channel_id)
        if tenant not in self._tenants:
            return
        for post in committed.posts:
            item = FeedItem.of_post(post)
            for listener in self._hearing(tenant, post):
                listener.offer(item)
        for event in committed.events:
            item = FeedItem.of_event(event)
            for listener in self._listeners.get(of_intent(tenant, event.intent_id), ()):
                listener.offer(item)
            for listener in self._agents.get(tenant, ()):
                listener.offer(item)

    def cares(self, tenant: str) -> bool:
        """Whether anybody listens to anything of a tenant. Keys belong to none, and every stream must hear of them."""
        return tenant == NO_TENANT or tenant in self._tenants

    def __len__(self) -> int:
        return sum([len(listeners) for listeners in self._tenants.values()])

    def lose(self, error: ParleyError) -> None:
        """Nothing can be heard any more: everyone who listens ends with this error."""
        for listeners in self._tenants.values():
            for listener in listeners:
                listener.lost = error
                listener.event.set()

    def close(self) -> None:
        """Have everyone who listens look up, and wait no more."""
        self.closing = True
        for tenant in self._tenants:
            self.wake(tenant)

    def wake(self, tenant: str) -> None:
        """Have every listener of a tenant look whether it may go on."""
        for listener in self._tenants.get(tenant, ()):
            listener.event.set()

    def _wake_channel(self, tenant: str, channel_id: str) -> None:
        """Only who follows the channel itself: the others look at each message whether they may see it."""
        for listener in self._listeners.get(of_channel(tenant, channel_id), ()):
            listener.event.set()

    def _hearing(self, tenant: str, post: Post) -> set[Listener]:
        listeners: set[Listener] = set()
        listeners |= self._listeners.get(of_channel(tenant, post.channel_id), listeners)
        listeners |= self._listeners.get(of_intent(tenant, post.intent_id), listeners)
        if post.recipients is None:
            listeners |= self._agents.get(tenant, listeners)
        else:
            for agent in (post.sender, *post.recipients):
                listeners |= self._listeners.get(of_agent(tenant, agent), listeners)
        return listeners


def _discard(listeners: dict[Topic, set[Listener]] | dict[str, set[Listener]], key: object, listener: Listener) -> None:
    group = listeners.get(key)  # type: ignore[call-overload]  # a topic or a tenant, as the table has it
    if group is not None:
        group.discard(listener)
        if not group:
            del listeners[key]  # type: ignore[arg-type]
