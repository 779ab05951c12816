"""Calls the handlers of an agent: their results, the parts they send, their failures, and when they are tried again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import MessageExpired
from parley.sdk.agent.calling import call, failure_of, may_retry, retry_pause
from parley.sdk.agent.logs import describe_arrival, error_text, log_event, message_facts
from parley.sdk.agent.results import Parts, accepts_parts, result_of
from parley.sdk.protocol.retry import retry_while_unavailable
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable, Mapping

    from parley.sdk.agent.agent import Plan
    from parley.sdk.agent.handlers import Handler
    from parley.sdk.agent.results import HandlerResult, SendPart
    from parley.sdk.agent.workplace import Arrival, Workplace
    from parley.sdk.protocol.failures import Failure

T = TypeVar("T")

_RETRY_SECONDS = 1.0

_log = logging.getLogger("parley.agent")


class RetryLater(Exception):
    """A job has to be tried again, after a pause, by this process or by another."""

    def __init__(self, problem: str, pause: float) -> None:
        super().__init__(problem)
        self.problem = problem
        self.pause = pause


class HandlerCalls:
    """The calls of one agent's handlers."""

    def __init__(self, plan: Plan, workplace: Workplace, counts: Counter[str]) -> None:
        self._plan = plan
        self._workplace = workplace
        self._counts = counts
        # How often the handlers of what has failed were called, by arrival.
        self.attempts: dict[str, int] = {}

    async def call(
        self, handler: Handler, argument: object, arrival: Arrival
    ) -> tuple[HandlerResult | None, Failure | None]:
        """The answer of a handler, or its failure, after as many tries as it wants.

        A job waits at the server before the next try, anything else waits here.
        """
        attempt = arrival.job.attempts if arrival.job is not None else 1
        while True:
            failed: BaseException
            try:
                return await self._result(handler, argument), None
            except MessageExpired as error:
                # Of a generator: nobody waits for its values any more, so there is nothing to answer.
                if handler.yields:
                    text = "stops: nobody waits for its values any more"
                    self._log("agent_parts_unwanted", text, level=logging.INFO, message_id=arrival.id)
                    return None, None
                failed = error
            except asyncio.CancelledError as error:
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
                failed = error  # not we were cancelled, but something that the handler waits for
            except (KeyboardInterrupt, GeneratorExit):
                raise  # the process or this call ends
            except BaseException as error:  # noqa: BLE001  # the outermost frame around a user's code, which may exit()
                failed = error
            self._counts["failed"] += 1
            self._log_error(handler, argument, arrival.id, failed)
            if attempt > handler.spec.retries or not may_retry(failed):
                self.attempts[arrival.id] = attempt
                return None, failure_of(failed)
            await self._wait_for_next_try(handler, arrival, attempt, failed)
            attempt += 1

    async def _wait_for_next_try(self, handler: Handler, arrival: Arrival, attempt: int, error: BaseException) -> None:
        pause = retry_pause(handler.spec.backoff, attempt, arrival.id)
        self._counts["retried"] += 1
        self._log("agent_handler_retried", f"tries {handler.name} again in {pause:.1f} s", level=logging.INFO)
        if arrival.job is not None:
            raise RetryLater(failure_of(error).message, pause)
        await asyncio.sleep(pause)

    async def _result(self, handler: Handler, argument: object) -> HandlerResult | None:
        if handler.yields:
            parts = Parts(handler, argument, self._part_sender(argument), asyncio.get_running_loop().time)
            result: HandlerResult | None = await call(handler, argument, self._plan.timeout, parts.run)
            return result
        return result_of(handler, await call(handler, argument, self._plan.timeout))

    def _part_sender(self, argument: object) -> SendPart | None:
        """How the values of a generator are sent; None when the asker does not follow them."""
        if not isinstance(argument, ChannelMessage) or not accepts_parts(argument):
            return None
        request = argument

        async def send(payload: Mapping[str, Any], kind: str, number: int) -> str:
            try:
                part = await self.retry_answer(lambda: self._workplace.send_part(request, payload, kind, number))
            except MessageHeld:
                text = "a part of its answer is held for approval"
                self._log("agent_part_held", text, about=request, level=logging.INFO)
                return ""
            self._counts["parts"] += 1
            return part

        return send

    async def retry_answer(self, action: Callable[[], Awaitable[T]]) -> T:
        """Send an answer, again and again while the server is away."""

        def log_retry(error: ParleyError) -> None:
            self._log("agent_answer_late", "its answer waits for the server", error_text=str(error))

        return await retry_while_unavailable(action, log_retry, _RETRY_SECONDS)

    def _log_error(self, handler: Handler, argument: object, arrival_id: str, error: BaseException) -> None:
        """Log what a handler raised: a refusal on purpose in one line, anything else with its traceback."""
        agent = self._plan.name
        facts = {"handler": handler.name, "what": arrival_id, **message_facts(argument)}
        extra = {"action": "agent_handler_failed", "agent": agent, **facts}
        text = f"{agent}: {handler.name} failed on {describe_arrival(argument, arrival_id)}"
        if isinstance(error, ParleyError):
            _log.warning("%s (%s: %s)", text, error.code, " ".join(error_text(error).split()), extra=extra)
        else:
            _log.error("%s", text, extra=extra, exc_info=error)

    def _log(self, action: str, text: str, error_text: str = "", level: int = logging.WARNING, **facts: Any) -> None:  # noqa: ANN401
        log_event(_log, self._plan.name, action, text, error_text, level, **facts)
