"""An agent on a server: it follows its own stream behind its bookmark, and answers by HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, suppress
from functools import partial
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from parley.domain.errors.errors import Invalid, NotFound, ParleyError, Stale
from parley.domain.errors.team import AgentGone, BookmarkTaken
from parley.sdk.agent.channels import ServerChannels
from parley.sdk.agent.logs import log_event
from parley.sdk.agent.process import process_name
from parley.sdk.agent.server.answered import AnsweredRequests
from parley.sdk.agent.server.jobs import ClaimedJobs, is_queued
from parley.sdk.agent.server.names import HIDDEN, RecordNames
from parley.sdk.agent.server.progress import Mark, Progress
from parley.sdk.agent.server.questions import ServerQuestions
from parley.sdk.agent.workplace import Arrival, IntentScope
from parley.sdk.protocol.context import with_trace
from parley.sdk.protocol.event_stream import StreamEvent
from parley.sdk.protocol.flow import encoded
from parley.sdk.protocol.refusal import is_temporary
from parley.sdk.protocol.retry import retry_while_unavailable
from parley.wire.api.records.channels import ChannelMessage, EvictedMessages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from parley.sdk.agent.agent import Plan
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.protocol.failures import Failure
    from parley.wire.api.records.channels import ForwardedRequest

T = TypeVar("T")

_DEFAULT_BOOKMARK = "default"
_SYSTEM = "system"
_ASSIGNMENT_FAILED = "assignment_failed"
_SDK_ASSIGNMENT_FAILED = "failure_recorded"
_HEARTBEAT_SECONDS = 20.0
_RETRY_SECONDS = 0.5
_REFUSED_SECONDS = 5.0
# How long a call of the runtime waits for the server before that is logged.
_PATIENCE_SECONDS = 10.0
# Each save is a durable write: a busy agent makes fifty of them in a second, not one for each message.
_SAVE_SECONDS = 0.02
# Progress that need not be saved at once is saved after this time.
_LAZY_SECONDS = 1.0
# After this many idle rounds, check whether another process has taken over the bookmark.
_IDLE_ROUNDS_BEFORE_CHECK = 2
_LOG_TEXTS = {
    "agent_waits_for_server": "waits for its server",
    "agent_lookup_late": "waits for the server to look up an event",
    "agent_bookmark_late": "its bookmark cannot be saved yet",
    "agent_bookmark_refused": "the server refused its bookmark; after a restart it repeats messages",
    "agent_bookmark_lost": "its last bookmark could not be saved; after a restart it repeats messages",
    "agent_claim_refused": "may not claim jobs now",
    "agent_drain_unheard": "could not tell the server that it stops",
}

_log = logging.getLogger("parley.agent")


class ServerWorkplace:
    """The workplace of an agent on a server."""

    read_ahead = 100

    def __init__(
        self, client: AsyncClient, plan: Plan, scope: IntentScope | None = None, *, titles: bool = False
    ) -> None:
        # For handlers: they wait for a server that is away until it is back.
        self.client = client.as_agent(plan.name, patience=inf)
        # For the runtime, which logs and retries by itself.
        self._own = client.as_agent(plan.name, patience=_PATIENCE_SECONDS)
        self._starting = client.as_agent(plan.name, patience=0)
        self.questions = ServerQuestions()
        self.client.connection.question_observer = self.questions
        self.channels = ServerChannels(self.client)
        self._plan = plan
        self._scope = scope
        self._progress = Progress(Mark(0))
        self._start = 0
        # Requests up to the head may have been answered by an earlier process.
        self._head = 0
        self._holder = ""
        self._names = RecordNames(self._own, titles=titles)
        self._answered_before = AnsweredRequests(self._own, plan.name)
        self._unsaved = asyncio.Event()
        # What need not be saved at once: requests that were answered, which is seen in their channel after a restart;
        # and answers to questions of our own.
        self._save_lazily: set[str] = set()
        self._taken_over = False
        self.jobs = ClaimedJobs(self._own, plan, f"{process_name()[:100]}/{id(self) % 10**9}")
        # Up to here handlers may have ended an earlier process: what they get is counted.
        self._counted_through = 0
        # Set when what has ended its readers before is finished: it is handled alone.
        self._suspects: dict[int, asyncio.Event] = {}
        self._save_task: asyncio.Future[None] | None = None

    @property
    def _bookmark(self) -> str:
        """The name of the bookmark: an agent of a workflow has one for each run, named after its intent."""
        return _DEFAULT_BOOKMARK if self._scope is None else self._scope.intent_id

    async def register(self) -> None:
        """Register the agent. This shows whether the key is accepted and speaks for it."""
        await self._wait_for_server(lambda: self._register(self._starting))

    async def open(self) -> None:
        """Claim the agent's bookmark from the process that has it; processes that share their mail need none."""
        if self._plan.shared:
            return
        opened = await self._wait_for_server(
            lambda: self._starting.open_bookmark(
                self._plan.name, self._bookmark, start=self._plan.start, process=process_name()
            )
        )
        mark = Mark(opened.position, tuple(opened.open))
        self._progress, self._start = Progress(mark), mark.begin
        self._head, self._holder = opened.head, opened.holder or ""
        self._counted_through = opened.head if opened.interrupted else 0

    async def _wait_for_server(self, action: Callable[[], Awaitable[T]]) -> T:
        """Run an action of the start, however long the server is away."""
        waits = False

        def log_first(error: ParleyError) -> None:
            nonlocal waits
            if not waits:
                self._log_warning("agent_waits_for_server", error)
            waits = True

        result = await retry_while_unavailable(lambda: _retry_stale(action), log_first, _RETRY_SECONDS)
        if waits:
            self._log_connected()
        return result

    def _log_connected(self) -> None:
        log_event(_log, self._plan.name, "agent_connected", "connected again", level=logging.WARNING)

    async def _register(self, client: AsyncClient) -> None:
        plan = self._plan
        await client.register_agent(
            plan.name,
            capabilities=list(plan.capabilities) or None,
            role_id=plan.role or None,
            name=plan.title or None,
            max_concurrent_tasks=plan.concurrency,
        )
        await client.set_agent_status(plan.name, "active")

    async def arrivals(self) -> AsyncGenerator[Arrival]:
        """What arrives in the agent's own stream, after the bookmark. Shared mail is claimed instead."""
        if self._plan.shared:
            await asyncio.Event().wait()
        path = ("subscribe", "agents", self._plan.name)
        stream = self._own.connection.follow(
            *path, after=str(self._start), broken=self._log_broken_stream, begun=True, back=self._log_connected
        )
        async with aclosing(stream) as events:
            async for event in events:
                if event.name == "evicted":
                    self._log_evicted(event.data)
                    continue
                position = int(event.id)
                if not self._progress.is_open(position):
                    continue
                arrival = await self._resolve_event(event, position)
                self._progress.start(position)
                attempts = await self._count_attempt(position) if arrival is not None else 0
                if arrival is None or attempts is None:
                    self._progress.finish(position)
                    continue
                if attempts > 1:
                    self._suspects[position] = asyncio.Event()
                yield arrival
                if attempts > 1:
                    # Alone, so that the others are not blamed for it.
                    await self._suspects[position].wait()
                    del self._suspects[position]

    async def _count_attempt(self, position: int) -> int | None:
        """How often something was handed out that may have ended its reader; None when it was too often.

        Durable before the handler gets it. What came after the start cannot have ended an earlier process.
        """
        if position > self._counted_through:
            return 0
        mark = self._progress.mark()
        late = partial(self._log_warning, "agent_bookmark_late")
        bookmark = (self._plan.name, self._bookmark, self._holder, mark.position, mark.open)
        saved = await retry_while_unavailable(
            lambda: self._own.save_bookmark(*bookmark, started=(position,)), late, _RETRY_SECONDS
        )
        if position in saved.open:
            # A server that does not count says nothing.
            return dict(zip(saved.open, saved.attempts, strict=False)).get(position, 0)
        text = "a message ended its reader too often, and is a dead letter now (see parley dead)"
        log_event(_log, self._plan.name, "agent_message_dead", text, level=logging.ERROR, position=position)
        return None

    def _log_broken_stream(self, error_text: str) -> None:
        log_event(
            _log, self._plan.name, "agent_stream_broke", "its stream broke; it reconnects as soon as it can", error_text
        )

    def _log_evicted(self, data: str) -> None:
        evicted = msgspec.json.decode(data, type=EvictedMessages)
        text = "messages for it may be lost: it was away, and the channel keeps only its last ones (max_messages)"
        detail = f"{evicted.channel_id}, up to message {evicted.through}"
        log_event(_log, self._plan.name, "agent_messages_evicted", text, detail)

    async def _resolve_event(self, event: StreamEvent, position: int) -> Arrival | None:
        """The arrival of an event, retried while the server is away."""
        late = partial(self._log_warning, "agent_lookup_late")
        return await retry_while_unavailable(lambda: self.to_arrival(event, position), late, _RETRY_SECONDS)

    async def to_arrival(self, event: StreamEvent, position: int) -> Arrival | None:
        """The arrival that an event is for the agent; None when there is nothing to handle. Subclasses may see more."""
        if event.name == "channel_message":
            return await self._message_arrival(event.data, position)
        if event.name != "agent_assigned" or self._scope is not None:
            return None
        document = json.loads(event.data)
        if document.get("agent_id") != self._plan.name:
            return None
        try:
            return Arrival(position, intent=await self._own.get_intent(document["intent_id"]))
        except HIDDEN:
            return None

    async def _message_arrival(self, data: str, position: int) -> Arrival | None:
        message = msgspec.json.decode(data, type=ChannelMessage)
        if self._scope is not None and message.intent_id != self._scope.intent_id:
            return None
        message = await self._names.added_to(message)
        event = message.payload.get("event") if message.sender == _SYSTEM else ""
        if event == "request_withdrawn":
            return Arrival(position, withdrawn=str(message.payload["request_id"]))
        if event == "approval_decided":
            try:
                return Arrival(position, approval=await self._own.get_approval(str(message.payload["approval_id"])))
            except HIDDEN:
                return None
        is_old = message.message_type == "request" and position <= self._head and not is_queued(message)
        if is_old and await self._answered_before.has(message):
            return None
        return Arrival(position, message)

    async def answer(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Answer a request, with an idempotency key derived from it: answering twice sends one answer."""
        key = f"answer-{self._plan.name}-{message.id}"
        await self._own.reply_to(
            message.channel_id,
            message.id,
            self._plan.name,
            payload,
            metadata=with_trace(metadata),
            lease=self.jobs.lease_of(message.id),
            idempotency_key=key,
        )
        self.jobs.answered(message.id)
        self._save_lazily.add(message.id)

    async def report_failed_assignment(self, arrival: Arrival, failure: Failure) -> None:
        """Write `assignment_failed` into the intent's log; a server for the OpenIntent SDK takes only its own word."""
        assert arrival.intent is not None  # noqa: S101  # it is one of an assignment
        payload = {"agent_id": self._plan.name, "code": failure.code, "message": failure.message}
        for event_type in (_ASSIGNMENT_FAILED, _SDK_ASSIGNMENT_FAILED):
            key = f"{event_type}-{self._plan.name}-{arrival.place}"
            with suppress(Invalid):
                await self._own.log_event(arrival.intent.id, event_type, payload, idempotency_key=key)
                return

    async def send_part(self, message: ChannelMessage, payload: Mapping[str, Any], kind: str, number: int) -> str:
        """Send a partial answer. What is repeated after a restart is sent once, unless it says something else."""
        digest = sha256(encoded(payload)).hexdigest()[:32]
        part = await self._own.reply_to(
            message.channel_id,
            message.id,
            self._plan.name,
            payload,
            metadata=with_trace({"partial": kind}),
            lease=self.jobs.lease_of(message.id),
            idempotency_key=f"part-{self._plan.name}-{message.id}-{number}-{digest}",
        )
        return part.id

    async def forward(self, message: ChannelMessage, forward: ForwardedRequest) -> None:
        """Hand a request on, with an idempotency key derived from it."""
        await self._own.forward_request(
            message.channel_id,
            message.id,
            forward.to,
            forward.payload,
            sender=self._plan.name,
            metadata=with_trace(None),
            lease=self.jobs.lease_of(message.id),
            idempotency_key=f"forward-{self._plan.name}-{message.id}",
        )
        self.jobs.answered(message.id)

    async def is_awaited_answer(self, response: ChannelMessage) -> bool:
        """Whether a question that was asked in one of `channels` got this response."""
        is_taken = await self.questions.has_taken(response)
        if is_taken:
            self._save_lazily.add(response.id)
        return is_taken

    async def claim(self, most: int) -> list[Arrival] | None:
        """Jobs for the roles of the agent, and its own mail where that is shared; None of a server without queues."""
        try:
            claimed = await self.jobs.claim(most, self._scope.intent_id if self._scope is not None else None)
        except NotFound:
            return None
        except ParleyError as error:
            # It registers again after it was removed, and waits until it is no longer suspended.
            if not is_temporary(error):
                self._log_warning("agent_claim_refused", error)
            await asyncio.sleep(_RETRY_SECONDS if is_temporary(error) else _REFUSED_SECONDS)
            return []
        arrivals = []
        for job, lease in claimed:
            data = json.dumps(job.data)
            arrival = await self._resolve_event(StreamEvent(str(job.position), job.event, data), job.position)
            if arrival is None:
                await self.jobs.finish(lease)
            else:
                arrivals.append(arrival._replace(job=lease))
        return arrivals

    async def retry_later(self, arrival: Arrival, problem: str, pause: float) -> None:
        """Give a claimed job back, to be tried again after a pause."""
        assert arrival.job is not None  # noqa: S101  # only jobs are given back
        await self.jobs.retry_later(arrival.job, problem, pause)

    async def release(self, arrival: Arrival) -> None:
        """Give a claimed job back as if it had not been claimed."""
        assert arrival.job is not None  # noqa: S101  # only jobs are given back
        await self.jobs.release(arrival.job)

    async def finish(self, arrival: Arrival, problem: str = "", attempts: int = 1) -> None:
        """Mark an arrival as finished; the bookmark is saved soon after. A problem makes it a dead letter."""
        if arrival.job is not None:
            await self.jobs.finish(arrival.job, problem)
            return
        if problem:
            await self.jobs.report_dead(arrival.place, problem, attempts)
        self._progress.finish(arrival.place)
        if (suspect := self._suspects.get(arrival.place)) is not None:
            suspect.set()
        if arrival.message is not None and arrival.message.id in self._save_lazily:
            self._save_lazily.discard(arrival.message.id)
        else:
            self._unsaved.set()

    async def run_upkeep(self) -> None:
        """Save the bookmark until cancelled: at once after a pause, then everything that was finished in one write."""
        if self._plan.shared:
            await asyncio.Event().wait()  # it has no bookmark
        idle_rounds = 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAZY_SECONDS):
                    await self._unsaved.wait()
            self._unsaved.clear()
            idle_rounds = 0 if self._progress.unsaved else idle_rounds + 1
            try:
                if idle_rounds == _IDLE_ROUNDS_BEFORE_CHECK:
                    idle_rounds = 0
                    await self._check_bookmark_holder()
                # A stop does not cancel a save halfway: whether it was applied would be unknown.
                self._save_task = asyncio.ensure_future(self._save())
                await asyncio.shield(self._save_task)
                await asyncio.sleep(_SAVE_SECONDS)
            except BookmarkTaken:
                self._taken_over = True
                raise
            except ParleyError as error:
                if not is_temporary(error):
                    self._log_warning("agent_bookmark_refused", error)
                    continue
                self._log_warning("agent_bookmark_late", error)
                self._unsaved.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _check_bookmark_holder(self) -> None:
        """Notice while idle that another process holds the bookmark: a save is refused, and the refusal says which."""
        with suppress(NotFound):
            bookmark = await self._own.get_bookmark(self._plan.name, self._bookmark)
            if bookmark.holder != self._holder:
                mark = self._progress.mark()
                await self._own.save_bookmark(self._plan.name, self._bookmark, self._holder, mark.position, mark.open)

    async def _save(self, *, close: bool = False) -> None:
        if not self._progress.unsaved and not close:
            return
        mark, saved = self._progress.mark(), False
        bookmark = (self._plan.name, self._bookmark)
        try:
            try:
                await self._own.save_bookmark(*bookmark, self._holder, mark.position, mark.open, close=close)
            except NotFound:
                # Deregistering the agent has deleted its bookmark.
                self._holder = (
                    await self._own.open_bookmark(*bookmark, start="beginning", process=process_name())
                ).holder
                await self._own.save_bookmark(*bookmark, self._holder, mark.position, mark.open, close=close)
            saved = True
        finally:
            if not saved:  # also when it was cancelled
                self._progress.unsaved = True

    async def heartbeat(self, load: int) -> float | None:
        """Send a heartbeat; an agent that was removed as dead registers again."""
        try:
            heartbeat = await self._own.heartbeat(self._plan.name, current_load=load)
        except AgentGone:
            await self._register(self._own)
            return _HEARTBEAT_SECONDS
        if heartbeat.agent_status == "draining":
            return None
        return _HEARTBEAT_SECONDS

    async def announce_stopping(self) -> None:
        """Set the status in the registry; a failure is only logged. Not where others of the same name may go on."""
        await self._announce("draining")

    async def _announce(self, status: str) -> None:
        if self._scope is not None or self._plan.shared:
            return
        try:
            await self._own.set_agent_status(self._plan.name, status)
        except ParleyError as error:
            self._log_warning("agent_drain_unheard", error)

    async def close(self) -> None:
        """Give claimed jobs back, save the bookmark a last time, and say that the agent has stopped."""
        await self.jobs.release_all()
        if self._taken_over or self._plan.shared:
            return
        if self._save_task is not None:
            # An error in it shows up again in the last save.
            await asyncio.gather(self._save_task, return_exceptions=True)
        try:
            await self._save(close=True)
        except BookmarkTaken:
            return  # another process has it, and was not noticed before
        except ParleyError as error:
            self._log_warning("agent_bookmark_lost", error)
        await self._announce("stopped")

    def _log_warning(self, action: str, error: ParleyError) -> None:
        log_event(_log, self._plan.name, action, _LOG_TEXTS[action], str(error))


async def _retry_stale(action: Callable[[], Awaitable[T]]) -> T:
    """Run an idempotent action, a second time after `Stale`: the server may have died during the first."""
    try:
        return await action()
    except Stale:
        return await action()
