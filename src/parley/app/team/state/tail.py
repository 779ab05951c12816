"""The newest commits, passed to the streams and long polls of this process. Everything here is durable already.

Each listener has a bounded queue. When the queue overflows, the listener reads from the store after its cursor, so a
lost wake-up or a full queue costs time, never a message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.channel import Channel
from parley.domain.channel.feed import FeedItem
from parley.domain.directory.access import Access
from parley.domain.directory.callers import NO_TENANT, Key
from parley.domain.directory.session import LoginSession
from parley.domain.rules.suspension import Suspensions

if TYPE_CHECKING:
    from parley.domain.channel.post import Post
    from parley.domain.errors.errors import ParleyError
    from parley.domain.store.changes import Committed

_QUEUE_MAX = 1_000
Topic = tuple[str, str, str]


class Listener:
    """The queue of one stream or long poll. When `behind` is set, it overflowed."""

    __slots__ = ("_agents", "behind", "error", "event", "queue", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.queue: deque[FeedItem] = deque()
        self.event = asyncio.Event()
        self.behind = False
        # Set when the store cannot be reached any more.
        self.error: ParleyError | None = None
        # Of a listener to a tenant: the agents whose records changed.
        self._agents: set[str] = set()

    def note_agent(self, agent: str) -> None:
        """Note that the record of an agent has changed."""
        self._agents.add(agent)

    def take_agents(self) -> set[str]:
        """Take the agents whose records have changed."""
        changed, self._agents = self._agents, set()
        return changed

    def enqueue(self, item: FeedItem) -> None:
        """Queue an item; if the queue is full, empty it and set `behind`."""
        if len(self.queue) >= _QUEUE_MAX:
            self.behind = True
            self.queue.clear()
        elif not self.behind:
            self.queue.append(item)
        self.event.set()

    def take(self) -> list[FeedItem]:
        """Take everything that is queued."""
        if self.error is not None:
            raise self.error
        items = list(self.queue)
        self.queue.clear()
        self.event.clear()
        return items


def of_channel(tenant: str, channel_id: str) -> Topic:
    """Messages of a channel."""
    return (tenant, "channel", channel_id)


def of_intent(tenant: str, intent_id: str) -> Topic:
    """Messages and events of an intent."""
    return (tenant, "intent", intent_id)


def of_agent(tenant: str, agent: str) -> Topic:
    """Messages to an agent, and all events of its tenant."""
    return (tenant, "agent", agent)


def of_tenant(tenant: str) -> Topic:
    """That something was committed in a tenant: nothing is queued."""
    return (tenant, "tenant", "")


class Tail:
    """The listeners of this process, by topic."""

    def __init__(self) -> None:
        self._listeners: dict[Topic, set[Listener]] = {}
        self._agents: dict[str, set[Listener]] = {}
        self._tenants: dict[str, set[Listener]] = {}
        # The server is about to stop: long polls and streams end.
        self.closing = False

    def listen(self, topic: Topic) -> Listener:
        """Add a listener, which gets everything on a topic from now on."""
        listener = Listener(topic)
        self._listeners.setdefault(topic, set()).add(listener)
        self._tenants.setdefault(topic[0], set()).add(listener)
        if topic[1] == "agent":
            self._agents.setdefault(topic[0], set()).add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        tenant, kind, _ = listener.topic
        _discard(self._listeners, listener.topic, listener)
        _discard(self._tenants, tenant, listener)
        if kind == "agent":
            _discard(self._agents, tenant, listener)

    def note_agent(self, tenant: str, agent: str) -> None:
        """Tell the listeners of a tenant that an agent has come or gone."""
        for listener in self._listeners.get(of_tenant(tenant), ()):
            listener.note_agent(agent)
            listener.event.set()

    def publish(self, tenant: str, committed: Committed) -> None:
        """Queue the items of a commit for their listeners, and wake those whose rights may have changed."""
        for record in committed.puts:
            if isinstance(record, Access | Suspensions):
                self.wake(tenant)
            elif isinstance(record, Key):
                self.wake(record.owner)
            elif isinstance(record, Channel):
                self._wake_channel(tenant, record.id)
        for channel_id in committed.ended:
            self._wake_channel(tenant, channel_id)
        if committed.dropped and any(kind == LoginSession.kind for kind, _ in committed.dropped):
            self.wake(tenant)
        if tenant not in self._tenants:
            return
        for listener in self._listeners.get(of_tenant(tenant), ()):
            for record in committed.puts:
                if isinstance(record, AgentRecord):
                    listener.note_agent(record.id)
            listener.event.set()
        for post in committed.posts:
            item = FeedItem.of_post(post)
            for listener in self._listeners_of(tenant, post):
                listener.enqueue(item)
        for event in committed.events:
            item = FeedItem.of_event(event)
            for listener in self._listeners.get(of_intent(tenant, event.intent_id), ()):
                listener.enqueue(item)
            for listener in self._agents.get(tenant, ()):
                listener.enqueue(item)

    def has_listeners(self, tenant: str) -> bool:
        """Whether there are listeners in a tenant. Changes of keys, which belong to no tenant, concern every stream."""
        return tenant == NO_TENANT or tenant in self._tenants

    def __len__(self) -> int:
        return sum([len(listeners) for listeners in self._tenants.values()])

    def fail(self, error: ParleyError) -> None:
        """End every listener with this error: the store cannot be reached."""
        for listeners in self._tenants.values():
            for listener in listeners:
                listener.error = error
                listener.event.set()

    def close(self) -> None:
        """Wake every listener, so that it ends."""
        self.closing = True
        for tenant in self._tenants:
            self.wake(tenant)

    def wake(self, tenant: str) -> None:
        """Wake every listener of a tenant, so that it checks its rights again."""
        for listener in self._tenants.get(tenant, ()):
            listener.event.set()

    def _wake_channel(self, tenant: str, channel_id: str) -> None:
        """Wake the listeners of the channel itself: the others check their rights for each message."""
        for listener in self._listeners.get(of_channel(tenant, channel_id), ()):
            listener.event.set()

    def _listeners_of(self, tenant: str, post: Post) -> set[Listener]:
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
