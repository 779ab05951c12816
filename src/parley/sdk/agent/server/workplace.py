"""An agent on a server: it follows its own stream behind its bookmark, and answers by HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from parley.domain.errors.errors import Forbidden, Invalid, NotFound, ParleyError, Stale
from parley.domain.errors.team import AgentGone, BookmarkTaken, Gone
from parley.sdk.agent.channels import Asks, ServerChannels
from parley.sdk.agent.logs import told
from parley.sdk.agent.server.progress import Mark, Progress
from parley.sdk.agent.workplace import Arrival
from parley.sdk.protocol.refusal import passes
from parley.sdk.protocol.retry import insist
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from parley.sdk.agent.plan import Plan
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.protocol.event_stream import StreamEvent

T = TypeVar("T")

_BOOKMARK = "default"
_SYSTEM = "system"
_NAMES_KEPT = 1_000
_PAGE = 1_000
_BEAT_SECONDS = 20.0
_RETRY_SECONDS = 0.5
# Each save is a durable write: a busy agent makes fifty of them in a second, not one for each message.
_SAVE_SECONDS = 0.02
# What is no news by itself is saved after this time.
_LAZY_SECONDS = 1.0
# After so many of these in a row without anything to save, it looks whether the place is still its own.
_RESTS = 2
# It is no longer there, or no longer to be seen by this agent.
_HIDDEN = (NotFound, Forbidden, Gone)
_SAID = {
    "agent_lookup_late": "something it needs to know has to wait for the server",
    "agent_bookmark_late": "its bookmark cannot be saved yet",
    "agent_bookmark_refused": "its bookmark was refused: after a restart it will repeat",
    "agent_bookmark_lost": "its last bookmark could not be saved: after a restart it will repeat",
    "agent_drain_unheard": "the server does not know that it stops",
}

_log = logging.getLogger("parley.agent")


class ServerStation:
    """Where an agent stands when it works on a server."""

    def __init__(self, client: AsyncClient, plan: Plan) -> None:
        self.client = client.as_agent(plan.name)
        self.asks = Asks()
        self.channels = ServerChannels(self.client, self.asks)
        self._plan = plan
        self._progress = Progress(Mark(0))
        self._begin = 0
        # What was there before we came may have been answered by whoever was here before us.
        self._head = 0
        self._holder = ""
        self._names: OrderedDict[str, str] = OrderedDict()
        # By the channel: the requests from before that were answered.
        self._given: dict[str, set[str]] = {}
        self._news = asyncio.Event()
        # What need not be saved at once: requests that were answered, which is seen in their channel after a restart;
        # and answers to questions of our own.
        self._passing: set[str] = set()
        self._taken_over = False
        self._saving: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Register, and take the bookmark over."""
        await _heard(self._register)
        opened = await _heard(lambda: self.client.open_bookmark(self._plan.name, _BOOKMARK, start=self._plan.start))
        mark = Mark(opened.position, tuple(opened.open))
        self._progress, self._begin = Progress(mark), mark.begin
        self._head, self._holder = opened.head, opened.holder or ""

    async def _register(self) -> None:
        plan = self._plan
        await self.client.register_agent(
            plan.name,
            capabilities=list(plan.capabilities) or None,
            role_id=plan.role or None,
            name=plan.title or None,
            max_concurrent_tasks=plan.concurrency,
        )
        await self.client.set_agent_status(plan.name, "active")

    async def arrivals(self) -> AsyncGenerator[Arrival]:
        """What the agent's own stream shows, behind the bookmark."""
        path = ("subscribe", "agents", self._plan.name)
        stream = self.client.connection.follow(*path, after=str(self._begin), broken=self._tell, begun=True)
        async with aclosing(stream) as events:
            async for event in events:
                position = int(event.id)
                if not self._progress.wants(position):
                    continue
                arrival = await self._looked_up(event, position)
                self._progress.took(position)
                if arrival is None:
                    self._progress.finished(position)
                else:
                    yield arrival

    def _tell(self, said: str) -> None:
        told(_log, self._plan.name, "agent_stream_broke", "its stream broke, and goes on as soon as it can", said)

    async def _looked_up(self, event: StreamEvent, position: int) -> Arrival | None:
        """What an event means, however long the server is away."""
        late = partial(self._complain, "agent_lookup_late")
        return await insist(lambda: self.arrival(event, position), late, _RETRY_SECONDS)

    async def arrival(self, event: StreamEvent, position: int) -> Arrival | None:
        """What an event means for the agent; None when it is nothing to deal with. Other runtimes see it their way."""
        if event.name == "channel_message":
            return await self._message(event.data, position)
        if event.name != "agent_assigned":
            return None
        document = json.loads(event.data)
        if document.get("agent_id") != self._plan.name:
            return None
        try:
            return Arrival(position, intent=await self.client.get_intent(document["intent_id"]))
        except _HIDDEN:
            return None

    async def _message(self, data: str, position: int) -> Arrival | None:
        message = msgspec.json.decode(data, type=ChannelMessage)
        message = msgspec.structs.replace(message, channel=await self._name_of(message.channel_id))
        if message.sender == _SYSTEM and message.payload.get("event") == "approval_decided":
            try:
                return Arrival(position, approval=await self.client.get_approval(str(message.payload["approval_id"])))
            except _HIDDEN:
                return None
        if message.message_type == "request" and position <= self._head and await self._answered(message):
            return None
        return Arrival(position, message)

    async def _name_of(self, channel_id: str) -> str:
        """A channel's name, looked up once; empty when it is gone."""
        if channel_id not in self._names:
            try:
                self._names[channel_id] = (await self.client.get_channel(channel_id)).name
            except _HIDDEN:
                return ""
            if len(self._names) > _NAMES_KEPT:
                self._names.popitem(last=False)
        return self._names[channel_id]

    async def _answered(self, request: ChannelMessage) -> bool:
        """Whether this agent has answered it before it was restarted.

        Those from before come in their order, so what was answered since the first of a channel tells it of all.
        """
        if request.channel_id not in self._given:
            try:
                self._given[request.channel_id] = await self._answers_since(request)
            except (*_HIDDEN, Invalid):
                return False
        return request.id in self._given[request.channel_id]

    async def _answers_since(self, request: ChannelMessage) -> set[str]:
        found: set[str] = set()
        since: str | None = request.id
        while since:
            page = await self.client.list_messages(request.channel_id, since=since, limit=_PAGE)
            found |= {one.correlation_id for one in page if one.correlation_id and one.sender == self._plan.name}
            since = page[-1].id if len(page) == _PAGE else None
        return found

    async def answer(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Answer a request, under a key that is made of it: a second answer is the first one again."""
        key = f"answer-{self._plan.name}-{message.id}"
        await self.client.reply_to(
            message.channel_id,
            message.id,
            self._plan.name,
            payload,
            metadata=metadata or None,
            idempotency_key=key,
        )
        self._passing.add(message.id)

    async def answers_a_question(self, response: ChannelMessage) -> bool:
        """Whether a question that was asked in one of `channels` got this response."""
        taken = await self.asks.took(response)
        if taken:
            self._passing.add(response.id)
        return taken

    async def done(self, arrival: Arrival) -> None:
        """Note it; the bookmark follows within a moment."""
        self._progress.finished(arrival.place)
        if arrival.message is not None and arrival.message.id in self._passing:
            self._passing.discard(arrival.message.id)
        else:
            self._news.set()

    async def keep(self) -> None:
        """Save the bookmark, for ever: at once after a while of rest, and then all that was finished in one go."""
        rests = 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAZY_SECONDS):
                    await self._news.wait()
            self._news.clear()
            rests = 0 if self._progress.news else rests + 1
            try:
                if rests == _RESTS:
                    rests = 0
                    await self._check_place()
                # Whoever stops the agent does not stop a save halfway: nobody would know how far it came.
                self._saving = asyncio.ensure_future(self._save())
                await asyncio.shield(self._saving)
                await asyncio.sleep(_SAVE_SECONDS)
            except BookmarkTaken:
                self._taken_over = True
                raise
            except ParleyError as error:
                if not passes(error):
                    self._complain("agent_bookmark_refused", error)
                    continue
                self._complain("agent_bookmark_late", error)
                self._news.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _check_place(self) -> None:
        """Who has nothing to save learns in this way that another process has taken the agent's place."""
        with suppress(NotFound):
            kept = await self.client.get_bookmark(self._plan.name, _BOOKMARK)
            if kept.holder != self._holder:
                raise BookmarkTaken

    async def _save(self) -> None:
        if not self._progress.news:
            return
        mark, saved = self._progress.mark(), False
        place = (self._plan.name, _BOOKMARK)
        try:
            try:
                await self.client.save_bookmark(*place, self._holder, mark.position, mark.open)
            except NotFound:
                # Whoever deregistered the agent has dropped it.
                self._holder = (await self.client.open_bookmark(*place, start="beginning")).holder or ""
                await self.client.save_bookmark(*place, self._holder, mark.position, mark.open)
            saved = True
        finally:
            if not saved:  # also when it was told to stop in the middle
                self._progress.news = True

    async def beat(self, load: int) -> float | None:
        """A heartbeat; an agent that was taken for dead registers again."""
        try:
            beat = await self.client.heartbeat(self._plan.name, current_load=load)
        except AgentGone:
            await self._register()
            return _BEAT_SECONDS
        if beat.agent_status == "draining":
            return None
        return _BEAT_SECONDS

    async def drain(self) -> None:
        """Tell the registry; it does not matter much whether it hears."""
        try:
            await self.client.set_agent_status(self._plan.name, "draining")
        except ParleyError as error:
            self._complain("agent_drain_unheard", error)

    async def close(self) -> None:
        """Save the bookmark a last time."""
        if self._taken_over:
            return
        if self._saving is not None:
            # What went wrong with it comes again with the last one.
            await asyncio.gather(self._saving, return_exceptions=True)
        try:
            await self._save()
        except ParleyError as error:
            self._complain("agent_bookmark_lost", error)

    def _complain(self, action: str, error: ParleyError) -> None:
        told(_log, self._plan.name, action, _SAID[action], str(error))


async def _heard(action: Callable[[], Awaitable[T]]) -> T:
    """Do what may be done twice, once more when a server that died in the middle does not know what it answered."""
    try:
        return await action()
    except Stale:
        return await action()
