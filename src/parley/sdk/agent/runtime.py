"""Runs one agent: takes what arrives, calls handlers, answers, saves progress; stops without losing anything.

    arrivals ──> queue ──> a slot ──> handlers, in their order ──> answer ──> done
                   │         └── no slot free: the queue fills, then the stream waits
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
from typing import TYPE_CHECKING, Any, TypeVar

from parley.domain.errors.errors import Conflict, Forbidden, Invalid, NotFound, ParleyError
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import AlreadyAnswered, BookmarkTaken, Gone, KeyReused, MessageExpired
from parley.sdk.agent.calling import call, failure_of
from parley.sdk.agent.channels import current_intent, current_trace
from parley.sdk.agent.logs import describe_arrival, error_text, log_event
from parley.sdk.agent.results import HandlerResult, Parts, accepts_parts, result_of
from parley.sdk.protocol.failures import FAILURE_TEXT_MAX_CHARS, Failure
from parley.sdk.protocol.retry import retry_while_unavailable
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from parley.sdk.agent.agent import Plan
    from parley.sdk.agent.handlers import Handler, Handlers
    from parley.sdk.agent.results import SendPart
    from parley.sdk.agent.workplace import Arrival, Workplace

T = TypeVar("T")

_RETRY_SECONDS = 1.0
_HEARTBEAT_RETRY_SECONDS = 5.0
# How long to wait for cancelled handlers.
_CANCEL_SECONDS = 5.0
# After these the request needs no answer, or was answered before.
_ANSWER_OBSOLETE = (Conflict, Forbidden, NotFound, Gone, KeyReused)


_log = logging.getLogger("parley.agent")


class Runtime:
    """One agent at one workplace."""

    def __init__(self, plan: Plan, handlers: Handlers, workplace: Workplace) -> None:
        self.plan = plan
        self.workplace = workplace
        self.counts: Counter[str] = Counter()
        self._handlers = handlers
        self._slots = asyncio.Semaphore(plan.concurrency)
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
        reader, dispatcher, upkeep, heartbeats, stop_wait = duties
        await _cancel_and_wait(reader, dispatcher, heartbeats, stop_wait)
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
                if arrival.message is not None and arrival.message.message_type == "request":
                    self._requests[arrival.message.id] = None
                await self._queue.put(arrival)
                if not self.workplace.read_ahead:
                    await self._queue.join()  # the next one is taken when this one has its slot

    async def _dispatch_arrivals(self) -> None:
        while True:
            await self._slots.acquire()
            task = asyncio.create_task(self._handle_arrival(await self._queue.get()))
            self._queue.task_done()
            self._running.add(task)
            task.add_done_callback(self._finish_task)

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
        message, unanswered = arrival.message, ""
        if message is not None:
            current_intent.set(message.intent_id)
            current_trace.set(str(message.metadata.get("trace_id", "")))
            if message.message_type == "request":
                unanswered = await self._handle_request(message)
            elif not await self._is_awaited_answer(message):
                await self._handle_message(message)
        elif arrival.intent is not None:
            current_intent.set(arrival.intent.id)
            failure = await self._notify_handlers(self._handlers.for_assignment, arrival.intent, arrival.id)
            if failure is not None:
                await self._report_failed_assignment(arrival, failure)
        else:
            await self._notify_handlers(self._handlers.for_approval, arrival.approval, arrival.id)
        await self.workplace.finish(arrival, unanswered)
        self.counts["done"] += 1

    async def _handle_request(self, request: ChannelMessage) -> str:
        """Handle a request, unless and until it is withdrawn."""
        if request.id not in self._requests:
            return ""
        task = self._requests[request.id] = asyncio.create_task(self._handle_message(request))
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

    async def _notify_handlers(self, handlers: list[Handler], argument: object, arrival_id: str) -> Failure | None:
        """Call every handler; the first failure, if any fails."""
        failures = [(await self._call_handler(handler, argument, arrival_id))[1] for handler in handlers]
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

    async def _handle_message(self, message: ChannelMessage) -> str:
        """Call every handler that the message is for; the first that returns something, or fails, answers a request.

        Returns why a request got no answer and no error, "" for any other.
        """
        is_request, answered, unanswered = message.message_type == "request", False, ""
        handlers = self._handlers.for_message(message)
        failure = self._no_handler_failure(message) if is_request and not handlers else None
        for handler in handlers:
            result, failed = await self._call_handler(handler, message, message.id)
            failure = failure or failed
            if is_request and not answered and result is not None:
                answered = True
                unanswered = await self._give(message, result)
        if is_request and not answered and failure is not None:
            unanswered = await self._answer(message, failure.payload(self.plan.name), failure.metadata)
        return unanswered

    def _no_handler_failure(self, message: ChannelMessage) -> Failure | None:
        """The failure for a request to this agent without a handler; a request to a role may have other receivers."""
        if message.to != self.plan.name:
            return None
        channels = ", ".join(sorted({handler.spec.channel for handler in self._handlers if handler.spec.channel}))
        text = f"has no handler for this request in {message.channel or message.channel_id!r}"
        text += f" (it has some for {channels})" if channels else ""
        self._log("agent_request_unhandled", text, message_id=message.id)
        return Failure("no_handler", f"{self.plan.name} {text}")

    async def _call_handler(
        self, handler: Handler, argument: object, arrival_id: str
    ) -> tuple[HandlerResult | None, Failure | None]:
        """The answer of a handler, or its failure."""
        failed: BaseException
        try:
            return await self._result(handler, argument), None
        except MessageExpired as error:
            # Of a generator: nobody waits for its values any more, so there is nothing to answer.
            if not handler.yields:
                failed = error
            else:
                text = "stops: nobody waits for its values any more"
                self._log("agent_parts_unwanted", text, level=logging.INFO, message_id=arrival_id)
                return None, None
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            failed = error  # not we were cancelled, but something that the handler waits for
        except (KeyboardInterrupt, GeneratorExit):
            raise  # the process or this call ends
        except BaseException as error:  # noqa: BLE001  # the outermost frame around a user's code, which may call exit()
            failed = error
        self.counts["failed"] += 1
        self._log_handler_error(handler, argument, arrival_id, failed)
        return None, failure_of(failed)

    async def _result(self, handler: Handler, argument: object) -> HandlerResult | None:
        if handler.yields:
            parts = Parts(handler, argument, self._part_sender(argument), asyncio.get_running_loop().time)
            result: HandlerResult | None = await call(handler, argument, self.plan.timeout, parts.run)
            return result
        return result_of(handler, await call(handler, argument, self.plan.timeout))

    def _part_sender(self, argument: object) -> SendPart | None:
        """How the values of a generator are sent; None when the asker does not follow them."""
        if not isinstance(argument, ChannelMessage) or not accepts_parts(argument):
            return None
        request = argument

        async def send(payload: Mapping[str, Any], kind: str, number: int) -> str:
            try:
                part = await self._retry_answer(lambda: self.workplace.send_part(request, payload, kind, number))
            except MessageHeld:
                text = "a part of its answer is held for approval"
                self._log("agent_part_held", text, message_id=request.id, level=logging.INFO)
                return ""
            self.counts["parts"] += 1
            return part

        return send

    def _log_handler_error(self, handler: Handler, argument: object, arrival_id: str, error: BaseException) -> None:
        """Log what a handler raised: a refusal on purpose in one line, anything else with its traceback."""
        extra = {"action": "agent_handler_failed", "agent": self.plan.name, "handler": handler.name, "what": arrival_id}
        text = f"{self.plan.name}: {handler.name} failed on {describe_arrival(argument, arrival_id)}"
        if isinstance(error, ParleyError):
            _log.warning("%s (%s: %s)", text, error.code, " ".join(error_text(error).split()), extra=extra)
        else:
            _log.error("%s", text, extra=extra, exc_info=error)

    async def _give(self, message: ChannelMessage, result: HandlerResult) -> str:
        """Answer a request, or hand it on; returns why the asker has nothing, "" when it has or will have something."""
        forward = result.forward
        if forward is None:
            return await self._answer(message, result.payload, result.metadata)
        try:
            await self._retry_answer(lambda: self.workplace.forward(message, forward))
            self.counts["forwarded"] += 1
        except MessageHeld:
            text = "what it hands on is held for approval"
            self._log("agent_forward_held", text, message_id=message.id, level=logging.INFO)
        except (MessageExpired, AlreadyAnswered) as error:
            text = "what it hands on is no longer wanted"
            self._log("agent_answer_unwanted", text, str(error), message_id=message.id)
        except ParleyError as error:
            self.counts["failed"] += 1
            self._log("agent_forward_refused", f"could not hand on to {forward.to}", str(error), message_id=message.id)
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
            await self._retry_answer(lambda: self.workplace.answer(message, payload, metadata))
            self.counts["answered"] += 1
        except MessageHeld:
            self._log("agent_answer_held", "its answer is held for approval", message_id=message.id, level=logging.INFO)
        except _ANSWER_OBSOLETE as error:
            self._log("agent_answer_unwanted", "its answer is no longer needed", str(error), message_id=message.id)
        except Invalid as error:
            self.counts["failed"] += 1
            self._log(
                "agent_answer_refused", "its answer was refused", str(error), logging.ERROR, message_id=message.id
            )
            failure = Failure(error.code, f"the answer was refused: {error}"[:FAILURE_TEXT_MAX_CHARS])
            if metadata == failure.metadata:
                return failure.message
            return await self._answer(message, failure.payload(self.plan.name), failure.metadata)
        return ""

    async def _retry_answer(self, action: Callable[[], Awaitable[T]]) -> T:
        def log_retry(error: ParleyError) -> None:
            self._log("agent_answer_late", "its answer waits for the server", str(error))

        return await retry_while_unavailable(action, log_retry, _RETRY_SECONDS)

    def _summary(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self.counts.items()) or "received nothing"

    def _log(self, action: str, text: str, error_text: str = "", level: int = logging.WARNING, **facts: object) -> None:
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
