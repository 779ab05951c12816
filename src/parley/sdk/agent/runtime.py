"""Runs one agent: takes what arrives, calls handlers, answers, saves progress; stops without losing anything.

    arrivals ──> queue ──> a slot ──> handlers, in their order ──> answer ──> done
    jobs ──────────┼───────> ^ └── no slot free: nothing is claimed, the queue fills, then the stream waits
                   └── a request that is withdrawn leaves the queue, and its handler is cancelled

What is not finished when the process ends arrives again at the next start, so handlers are called at least once. An
answer has an idempotency key derived from its request, so it is sent once all the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import threading
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Conflict, Forbidden, Invalid, NotFound, ParleyError
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import AlreadyAnswered, BookmarkTaken, Gone, KeyReused, MessageExpired
from parley.sdk.agent.decorators import MESSAGE
from parley.sdk.agent.handler_calls import HandlerCalls, RetryLater
from parley.sdk.agent.handlers import no_handler_text
from parley.sdk.agent.logs import log_event
from parley.sdk.client.received import received
from parley.sdk.protocol.context import current_intent, current_trace
from parley.sdk.protocol.failures import FAILURE_TEXT_MAX_CHARS, Failure
from parley.sdk.protocol.retry import retry_while_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from parley.sdk.agent.agent import Plan
    from parley.sdk.agent.handlers import Handler, Handlers
    from parley.sdk.agent.results import HandlerResult
    from parley.sdk.agent.workplace import Arrival, Workplace
    from parley.wire.api.records.channels import ChannelMessage

_RETRY_SECONDS = 1.0
_HEARTBEAT_RETRY_SECONDS = 5.0
# How long to wait for cancelled handlers.
_CANCEL_SECONDS = 5.0
# How often a job without a handler here is left to others.
_OTHERS_TRIED = 5
# After these the request needs no answer, or was answered before.
_ANSWER_OBSOLETE = (Conflict, Forbidden, NotFound, Gone, KeyReused)


_log = logging.getLogger("parley.agent")


class Slots:
    """Like a semaphore that says how many places are free."""

    def __init__(self, count: int) -> None:
        self.free = count
        self._semaphore = asyncio.Semaphore(count)
        self._has_free = asyncio.Event()
        self._has_free.set()

    async def acquire(self) -> None:
        """Take a place, as soon as one is free."""
        await self._semaphore.acquire()
        self.free -= 1
        if self.free == 0:
            self._has_free.clear()

    def release(self) -> None:
        """Give a place back."""
        self.free += 1
        self._has_free.set()
        self._semaphore.release()

    async def wait_free(self) -> None:
        """Wait until a place is free, without taking it."""
        await self._has_free.wait()


class Runtime:
    """One agent at one workplace."""

    def __init__(self, plan: Plan, handlers: Handlers, workplace: Workplace) -> None:
        self.plan = plan
        self.workplace = workplace
        self.counts: Counter[str] = Counter()
        self._handlers = handlers
        self._calls = HandlerCalls(plan, workplace, self.counts)
        self._slots = Slots(plan.concurrency)
        self._running: set[asyncio.Task[None]] = set()
        # Read ahead, so that the withdrawal of a request is seen while its handler runs.
        self._queue: asyncio.Queue[Arrival] = asyncio.Queue(max(1, workplace.read_ahead))
        # Requests in the queue or with a handler, by their ids; None until a handler runs.
        self._requests: dict[str, asyncio.Task[str] | None] = {}
        self._fatal: asyncio.Future[None] | None = None
        self._registered = False
        # Its event loop and thread, for handlers that run in other threads.
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = 0

    async def register(self, stop: asyncio.Event) -> None:
        """Register the agent, as soon as its place of work can be reached; nothing is taken over yet."""
        self._registered = await _run_until(stop, self.workplace.register())

    async def run(self, stop: asyncio.Event, ready: Callable[[], None] | None = None) -> None:
        """Work until `stop` is set, or until another process takes over the agent: then `BookmarkTaken`."""
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()
        if not self._registered:
            await self.register(stop)
        if not self._registered or not await _run_until(stop, self.workplace.open()):
            return
        self._fatal = self.loop.create_future()
        work: tuple[Awaitable[Any], ...] = (
            self._read_arrivals(),
            self._dispatch_arrivals(),
            self._claim_jobs(),
            self.workplace.run_upkeep(),
            self._send_heartbeats(),
            stop.wait(),
        )
        duties: list[asyncio.Future[Any]] = [asyncio.ensure_future(duty) for duty in work]
        self._log("agent_started", f"works (process {os.getpid()} on {platform.node()})", level=logging.INFO)
        if ready is not None:
            ready()
        try:
            await asyncio.wait((*duties, self._fatal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._shut_down(duties)
        ended = [future for future in (self._fatal, *duties) if future.done() and not future.cancelled()]
        # Retrieve all errors, or the loop reports those after the first as unhandled.
        for error in [future.exception() for future in ended]:
            if isinstance(error, BookmarkTaken):
                text = error.message.removeprefix(f"{self.plan.name}: ")
                self._log(
                    "agent_taken_over",
                    f"{text}; it stops here",
                    level=logging.ERROR,
                    taken_by=error.facts.get("process"),
                )
            if error is not None:
                raise error

    async def _shut_down(self, duties: list[asyncio.Future[Any]]) -> None:
        """Accept nothing new, let running handlers end, and save the progress."""
        assert self._fatal is not None  # noqa: S101  # it was made before
        reader, dispatcher, claimer, upkeep, heartbeats, stop_wait = duties
        await _cancel_and_wait(reader, dispatcher, claimer, heartbeats, stop_wait)
        taken_over = upkeep.done() and not upkeep.cancelled() and isinstance(upkeep.exception(), BookmarkTaken)
        if not taken_over:
            await self.workplace.announce_stopping()
        if self._running:
            await asyncio.wait(self._running, timeout=0 if self._fatal.done() else self.plan.drain)
        await self._cancel_handlers()
        await _cancel_and_wait(upkeep)
        if not self._fatal.done():
            self._fatal.cancel()
        await self.workplace.close()
        self._log("agent_stopped", f"stopped; {self._summary()}", level=logging.INFO, counts=dict(self.counts))

    async def _cancel_handlers(self) -> None:
        """Cancel running handlers; one that ignores it is abandoned after a timeout."""
        if not self._running:
            return
        for task in self._running:
            task.cancel()
        _, uncancelled = await asyncio.wait(self._running, timeout=_CANCEL_SECONDS)
        if uncancelled:
            text = f"abandons {len(uncancelled)} handler calls that ignore cancellation"
            self._log("agent_handlers_stubborn", text, level=logging.ERROR)

    async def _read_arrivals(self) -> None:
        async with aclosing(self.workplace.arrivals()) as arrivals:
            async for arrival in arrivals:
                if arrival.withdrawn:
                    self._withdraw(arrival.withdrawn)
                    await self.workplace.finish(arrival)
                    continue
                self._note_request(arrival)
                await self._queue.put(arrival)
                if not self.workplace.read_ahead:
                    await self._queue.join()  # the next one is taken when this one has its slot

    async def _dispatch_arrivals(self) -> None:
        while True:
            arrival = await self._queue.get()
            await self._slots.acquire()
            self._queue.task_done()
            self._start(arrival)

    async def _claim_jobs(self) -> None:
        """Claim jobs while there is a free slot; what comes when there is none any more is given back."""
        claims = self.plan.shared or any(handler.spec.event == MESSAGE for handler in self._handlers)
        while claims:
            await self._slots.wait_free()
            jobs = await self.workplace.claim(self._slots.free)
            if jobs is None:
                break
            for job in jobs:
                if self._slots.free:
                    await self._slots.acquire()
                    self._note_request(job)
                    self._start(job)
                else:
                    await self.workplace.release(job)
        await asyncio.Event().wait()  # there is nothing to claim

    def _note_request(self, arrival: Arrival) -> None:
        if arrival.message is not None and arrival.message.message_type == "request":
            self._requests[arrival.message.id] = None

    def _start(self, arrival: Arrival) -> None:
        task = asyncio.create_task(self._handle_arrival(arrival))
        self._running.add(task)
        task.add_done_callback(self._finish_task)
        if arrival.job is not None:
            arrival.job.on_lost = task.cancel

    def _withdraw(self, request_id: str) -> None:
        """Cancel the handlers of a withdrawn request; one that still waits in the queue is not handled at all."""
        task = self._requests.pop(request_id, None)
        if task is not None:
            task.cancel()
            text = "stops working on a request that was withdrawn"
            self._log("agent_request_withdrawn", text, level=logging.INFO, message_id=request_id)

    def _finish_task(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()
        error = None if task.cancelled() else task.exception()
        if error is not None and self._fatal is not None and not self._fatal.done():
            # Not an error of a handler: those are dealt with. The agent cannot go on.
            self._fatal.set_exception(error)

    async def _send_heartbeats(self) -> None:
        while True:
            try:
                pause = await self.workplace.heartbeat(len(self._running))
            except ParleyError as error:
                self._log("agent_heartbeat_failed", "its heartbeat failed", str(error))
                pause = _HEARTBEAT_RETRY_SECONDS
            if pause is None:
                self._log("agent_told_to_stop", "was told to stop", level=logging.INFO)
                return
            await asyncio.sleep(pause)

    async def _handle_arrival(self, arrival: Arrival) -> None:
        self.counts["received"] += 1
        try:
            problem = await self._call_handlers(arrival)
        except RetryLater as later:
            await self.workplace.retry_later(arrival, later.problem, later.pause)
            return
        await self.workplace.finish(arrival, problem, self._calls.attempts.pop(arrival.id, 1))
        self.counts["done"] += 1

    async def _call_handlers(self, arrival: Arrival) -> str:
        """Call the handlers of an arrival; why it could not be dealt with, where nobody was told so."""
        message, failure = arrival.message, None
        if message is not None:
            current_intent.set(message.intent_id)
            current_trace.set(str(message.metadata.get("trace_id", "")))
            message = received(message, self)
            if message.message_type == "request":
                return await self._handle_request(arrival, message)
            return "" if await self._is_awaited_answer(message) else await self._handle_message(arrival, message)
        if arrival.intent is not None:
            current_intent.set(arrival.intent.id)
            failure = await self._notify_handlers(self._handlers.for_assignment, arrival.intent, arrival)
            if failure is not None:
                await self._report_failed_assignment(arrival, failure)
        else:
            failure = await self._notify_handlers(self._handlers.for_approval, arrival.approval, arrival)
        return failure.message if failure is not None else ""

    async def _handle_request(self, arrival: Arrival, request: ChannelMessage) -> str:
        """Handle a request, unless and until it is withdrawn."""
        if request.id not in self._requests:
            return ""
        task = self._requests[request.id] = asyncio.create_task(self._handle_message(arrival, request))
        try:
            return await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if request.id in self._requests or own is None or own.cancelling():
                raise  # the agent stops
            return ""
        finally:
            self._requests.pop(request.id, None)

    async def _is_awaited_answer(self, message: ChannelMessage) -> bool:
        """Whether it is the answer to a question that a handler of this agent waits for."""
        return message.message_type == "response" and await self.workplace.is_awaited_answer(message)

    async def _notify_handlers(self, handlers: list[Handler], argument: object, arrival: Arrival) -> Failure | None:
        """Call every handler; the first failure, if any fails."""
        failures = [(await self._calls.call(handler, argument, arrival))[1] for handler in handlers]
        return next((failure for failure in failures if failure is not None), None)

    async def _report_failed_assignment(self, arrival: Arrival, failure: Failure) -> None:
        """Record the failure on the intent, retrying while the server is away; a refusal is only logged."""

        def log_retry(error: ParleyError) -> None:
            self._log("agent_report_late", "its failed assignment is not recorded yet", str(error))

        try:
            await retry_while_unavailable(
                lambda: self.workplace.report_failed_assignment(arrival, failure), log_retry, _RETRY_SECONDS
            )
        except (*_ANSWER_OBSOLETE, Invalid) as error:
            text = "its failed assignment could not be recorded"
            self._log("agent_report_refused", text, str(error), intent_id=arrival.id)

    async def _handle_message(self, arrival: Arrival, message: ChannelMessage) -> str:
        """Call every handler that the message is for; the first that returns something, or fails, answers a request.

        Returns why it could not be dealt with: a request that got no answer and no error, or anything else that failed.
        """
        is_request, answered, unanswered = message.message_type == "request", False, ""
        handlers = self._handlers.for_message(message)
        failure = None if handlers else self._no_handler_failure(arrival, message)
        for handler in handlers:
            result, failed = await self._calls.call(handler, message, arrival)
            failure = failure or failed
            if is_request and not answered and result is not None:
                answered = True
                unanswered = await self._give(message, result)
        if not is_request and failure is not None:
            return failure.message
        if is_request and not answered and failure is not None:
            unanswered = await self._answer(message, failure.payload(self.plan.name), failure.metadata)
        return unanswered

    def _no_handler_failure(self, arrival: Arrival, message: ChannelMessage) -> Failure | None:
        """The failure for a request to this agent without a handler; a request to a role may have other receivers.

        So may a job: it is given back a few times.
        """
        if arrival.job is None and (message.to != self.plan.name or message.message_type != "request"):
            return None
        text = no_handler_text(message, [handler.spec for handler in self._handlers])
        if arrival.job is not None and arrival.job.attempts <= _OTHERS_TRIED:
            raise RetryLater(f"{self.plan.name} {text}", _RETRY_SECONDS)
        # An answer names its sender beside the error; a dead letter does not.
        failure = Failure("no_handler", text if message.message_type == "request" else f"{self.plan.name} {text}")
        self._log("agent_request_unhandled", text, about=message)
        return failure

    async def _give(self, message: ChannelMessage, result: HandlerResult) -> str:
        """Answer a request, or hand it on; returns why the asker has nothing, "" when it has or will have something."""
        forward = result.forward
        if forward is None:
            return await self._answer(message, result.payload, result.metadata)
        try:
            await self._calls.retry_answer(lambda: self.workplace.forward(message, forward))
            self.counts["forwarded"] += 1
        except MessageHeld:
            text = "what it hands on is held for approval"
            self._log("agent_forward_held", text, about=message, level=logging.INFO)
        except (MessageExpired, AlreadyAnswered) as error:
            text = "what it hands on is no longer wanted"
            self._log("agent_answer_unwanted", text, str(error), about=message)
        except ParleyError as error:
            self.counts["failed"] += 1
            self._log("agent_forward_refused", f"could not hand on to {forward.to}", str(error), about=message)
            failure = Failure(error.code, f"could not hand the request on to {forward.to}: {error}"[:500])
            return await self._answer(message, failure.payload(self.plan.name), failure.metadata)
        return ""

    async def _answer(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Answer, retrying while the server is away; when it refuses the answer, send the refusal instead.

        Returns why that was refused, too; "" when the asker has something.
        """
        try:
            await self._calls.retry_answer(lambda: self.workplace.answer(message, payload, metadata))
            self.counts["answered"] += 1
        except MessageHeld:
            self._log("agent_answer_held", "its answer is held for approval", about=message, level=logging.INFO)
        except _ANSWER_OBSOLETE as error:
            self._log("agent_answer_unwanted", "its answer is no longer needed", str(error), about=message)
        except Invalid as error:
            self.counts["failed"] += 1
            self._log("agent_answer_refused", "its answer was refused", str(error), logging.ERROR, about=message)
            failure = Failure(error.code, f"the answer was refused: {error}"[:FAILURE_TEXT_MAX_CHARS])
            if metadata == failure.metadata:
                return failure.message
            return await self._answer(message, failure.payload(self.plan.name), failure.metadata)
        return ""

    async def respond(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None
    ) -> None:
        """Answer for a handler that calls `message.reply(...)` and returns nothing."""
        await self._calls.retry_answer(lambda: self.workplace.answer(message, payload, metadata))
        self.counts["answered"] += 1

    def _summary(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self.counts.items()) or "received nothing"

    def _log(self, action: str, text: str, error_text: str = "", level: int = logging.WARNING, **facts: Any) -> None:  # noqa: ANN401
        log_event(_log, self.plan.name, action, text, error_text, level, **facts)


async def _run_until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Whether something ended before `stop` was set, which cancels it."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        await _cancel_and_wait(task, stopping)


async def _cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
