"""An agent at work: take what arrives, call its handlers, answer, put on record; stop without losing anything.

    arrivals ──> a slot ──> handlers, in their order ──> answer ──> done
                   └── no slot free: the stream waits

What is not done when the process ends comes again at the next start, so handlers are called at least once. An answer is
sent under a key made of its request, so it is given once all the same.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Conflict, Forbidden, Invalid, NotFound, ParleyError
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import BookmarkTaken, Gone, KeyReused
from parley.sdk.agent.calling import Failure, answer_of, call, failure_of
from parley.sdk.agent.channels import current_intent
from parley.sdk.agent.logs import told
from parley.sdk.protocol.retry import insist

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from parley.sdk.agent.handlers import Handler, Handlers
    from parley.sdk.agent.plan import Plan
    from parley.sdk.agent.workplace import Arrival, Station
    from parley.wire.api.records.channels import ChannelMessage

_RETRY_SECONDS = 1.0
_BEAT_RETRY_SECONDS = 5.0
# So long may a handler take to end when it is cancelled.
_CANCEL_SECONDS = 5.0
# After these there is nothing to answer any more, or it was answered before.
_OVER = (Conflict, Forbidden, NotFound, Gone, KeyReused)

_log = logging.getLogger("parley.agent")


class Runtime:
    """One agent at one station."""

    def __init__(self, plan: Plan, handlers: Handlers, station: Station) -> None:
        self.plan = plan
        self.station = station
        self.counts: Counter[str] = Counter()
        self._handlers = handlers
        self._slots = asyncio.Semaphore(plan.concurrency)
        self._running: set[asyncio.Task[None]] = set()
        self._fatal: asyncio.Future[None] | None = None
        # Where it runs, for handlers that run elsewhere.
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = 0

    async def run(self, stop: asyncio.Event, ready: Callable[[], None] | None = None) -> None:
        """Work until told to stop, or until another process takes the agent's place: then `BookmarkTaken`."""
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()
        await self.station.open()
        self._fatal = self.loop.create_future()
        work: tuple[Awaitable[Any], ...] = (self._read(), self.station.keep(), self._beat(), stop.wait())
        duties: list[asyncio.Future[Any]] = [asyncio.ensure_future(one) for one in work]
        self._log("agent_started", "works", level=logging.INFO)
        if ready is not None:
            ready()
        try:
            await asyncio.wait((*duties, self._fatal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._wind_down(duties)
        ended = [one for one in (self._fatal, *duties) if one.done() and not one.cancelled()]
        # All of them are looked at, or the loop would report those after the first as errors that nobody saw.
        for error in [one.exception() for one in ended]:
            if error is not None:
                raise error

    async def _wind_down(self, duties: list[asyncio.Future[Any]]) -> None:
        """Take nothing new, let what runs end, and put it on record."""
        assert self._fatal is not None  # noqa: S101  # it was made before
        reading, keeping, beating, stopping = duties
        await _cancelled(reading, beating, stopping)
        taken_over = keeping.done() and not keeping.cancelled() and isinstance(keeping.exception(), BookmarkTaken)
        if not taken_over:
            await self.station.drain()
        if self._running:
            await asyncio.wait(self._running, timeout=0 if self._fatal.done() else self.plan.drain)
        await self._end_handlers()
        await _cancelled(keeping)
        if not self._fatal.done():
            self._fatal.cancel()
        await self.station.close()
        self._log("agent_stopped", f"stopped; {self._summary()}", level=logging.INFO, counts=dict(self.counts))

    async def _end_handlers(self) -> None:
        """Cancel what still runs. A handler that does not let itself be cancelled is left alone after a while."""
        if not self._running:
            return
        for one in self._running:
            one.cancel()
        _, stubborn = await asyncio.wait(self._running, timeout=_CANCEL_SECONDS)
        if stubborn:
            said = f"leaves alone what does not let itself be cancelled: {len(stubborn)} of its calls"
            self._log("agent_handlers_stubborn", said, level=logging.ERROR)

    async def _read(self) -> None:
        async with aclosing(self.station.arrivals()) as arrivals:
            async for arrival in arrivals:
                await self._slots.acquire()
                task = asyncio.create_task(self._deal(arrival))
                self._running.add(task)
                task.add_done_callback(self._dealt)

    def _dealt(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()
        error = None if task.cancelled() else task.exception()
        if error is not None and self._fatal is not None and not self._fatal.done():
            # Not an error of a handler: those are dealt with. The agent cannot go on.
            self._fatal.set_exception(error)

    async def _beat(self) -> None:
        while True:
            try:
                pause = await self.station.beat(len(self._running))
            except ParleyError as error:
                self._log("agent_heartbeat_failed", "its heartbeat was not heard", str(error))
                pause = _BEAT_RETRY_SECONDS
            if pause is None:
                self._log("agent_told_to_stop", "was told to stop", level=logging.INFO)
                return
            await asyncio.sleep(pause)

    async def _deal(self, arrival: Arrival) -> None:
        self.counts["received"] += 1
        message = arrival.message
        if message is not None:
            current_intent.set(message.intent_id)
            if not await self._was_asked_for(message):
                await self._deal_with_message(message)
        elif arrival.intent is not None:
            current_intent.set(arrival.intent.id)
            await self._tell(self._handlers.for_assignment, arrival.intent, arrival.id)
        else:
            await self._tell(self._handlers.for_approval, arrival.approval, arrival.id)
        await self.station.done(arrival)
        self.counts["done"] += 1

    async def _was_asked_for(self, message: ChannelMessage) -> bool:
        """Whether it is the answer to a question that a handler of this agent waits for."""
        return message.message_type == "response" and await self.station.answers_a_question(message)

    async def _tell(self, handlers: list[Handler], argument: object, what: str) -> None:
        for handler in handlers:
            await self._called(handler, argument, what)

    async def _deal_with_message(self, message: ChannelMessage) -> None:
        """Call every handler that the message is for; the first that returns something, or fails, answers a request."""
        asked, answered = message.message_type == "request", False
        handlers = self._handlers.for_message(message)
        failure = self._unhandled(message) if asked and not handlers else None
        for handler in handlers:
            result, failed = await self._called(handler, message, message.id)
            failure = failure or failed
            if asked and not answered and result is not None:
                answered = True
                await self._answer(message, result)
        if asked and not answered and failure is not None:
            await self._answer(message, failure.payload(self.plan.name), failure.metadata)

    def _unhandled(self, message: ChannelMessage) -> Failure | None:
        """What whoever asks this agent is told when no handler is for it; who asks a role has others to wait for."""
        if message.to != self.plan.name:
            return None
        told_of = ", ".join(sorted({one.handles.channel for one in self._handlers if one.handles.channel}))
        said = f"has no handler for this request in {message.channel or message.channel_id!r}"
        said += f" (it has some for {told_of})" if told_of else ""
        self._log("agent_request_unhandled", said, message_id=message.id)
        return Failure("no_handler", f"{self.plan.name} {said}")

    async def _called(
        self, handler: Handler, argument: object, what: str
    ) -> tuple[Mapping[str, Any] | None, Failure | None]:
        """What a handler answers, or why it could not."""
        failed: BaseException
        try:
            return answer_of(handler, await call(handler, argument, self.plan.timeout)), None
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            failed = error  # not we were cancelled, but something that the handler waits for
        except (KeyboardInterrupt, GeneratorExit):
            raise  # somebody ends the process, or this call
        except BaseException as error:  # noqa: BLE001  # the outermost frame around a user's code, which may call exit()
            failed = error
        self.counts["failed"] += 1
        extra = {"action": "agent_handler_failed", "agent": self.plan.name, "handler": handler.name, "what": what}
        _log.error("%s: %s failed", self.plan.name, handler.name, extra=extra, exc_info=failed)
        return None, failure_of(failed)

    async def _answer(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Answer, however long the server is away; what it refuses is told to the asker instead."""
        try:
            await self._insist(lambda: self.station.answer(message, payload, metadata))
            self.counts["answered"] += 1
        except MessageHeld:
            self._log("agent_answer_held", "its answer waits for a person", message_id=message.id, level=logging.INFO)
        except _OVER as error:
            self._log("agent_answer_unwanted", "its answer is not wanted any more", str(error), message_id=message.id)
        except Invalid as error:
            self.counts["failed"] += 1
            self._log(
                "agent_answer_refused", "its answer was refused", str(error), logging.ERROR, message_id=message.id
            )
            failure = Failure(error.code, f"the answer was refused: {error}"[:500])
            if metadata != failure.metadata:
                await self._answer(message, failure.payload(self.plan.name), failure.metadata)

    async def _insist(self, action: Callable[[], Awaitable[None]]) -> None:
        def late(error: ParleyError) -> None:
            self._log("agent_answer_late", "its answer has to wait for the server", str(error))

        await insist(action, late, _RETRY_SECONDS)

    def _summary(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self.counts.items()) or "received nothing"

    def _log(self, action: str, said: str, why: str = "", level: int = logging.WARNING, **facts: object) -> None:
        told(_log, self.plan.name, action, said, why, level, **facts)


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    """End tasks, and wait until they have ended."""
    for one in tasks:
        one.cancel()
    if tasks:
        await asyncio.wait(tasks)
