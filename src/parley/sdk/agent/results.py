"""What a handler gives: an answer; or, from a generator, partial answers as they come, the last one as the answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.channel.request import PARTS_MAX
from parley.domain.errors.team import MessageExpired, TooManyParts
from parley.sdk.agent.calling import answer_of, run_in_thread
from parley.wire.api.records.channels import ForwardedRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from parley.sdk.agent.handlers import Handler
    from parley.wire.api.records.channels import ChannelMessage

    # Sends a part of this kind with its number; the id of its message, empty when it waits for a person.
    SendPart = Callable[[Mapping[str, Any], str, int], Awaitable[str]]

ARTIFACT, PROGRESS = "artifact", "progress"


class ProgressPart(NamedTuple):
    """What a generator handler yields to say how far it is; it is never the answer."""

    payload: Mapping[str, Any]


def progress(text: str = "", **fields: Any) -> ProgressPart:  # noqa: ANN401  # whatever the asker understands
    """How far a handler is, for an asker that follows it: `yield progress("reading", percent=40)`."""
    return ProgressPart({**({"text": text} if text else {}), **fields})


class QuestionBack(NamedTuple):
    """What a handler returns to ask something back."""

    payload: Mapping[str, Any]


def ask_back(question: str, **fields: Any) -> QuestionBack:  # noqa: ANN401  # whatever the asker understands
    """For a handler to return: ask something back in place of an answer: `return ask_back("Which city?")`.

    The asker's `answer.is_question` is true, and `follow_up` continues the conversation.
    """
    return QuestionBack({"question": question, **fields})


class HandlerResult(NamedTuple):
    """The answer that a handler gives, with what its metadata say; or to whom it hands the request on."""

    payload: Mapping[str, Any]
    metadata: Mapping[str, Any] | None = None
    forward: ForwardedRequest | None = None


def result_of(handler: Handler, returned: object) -> HandlerResult | None:
    """What a returned value means; None for no answer. `Invalid` when it means nothing."""
    if isinstance(returned, ForwardedRequest):
        return HandlerResult({}, forward=returned)
    if isinstance(returned, QuestionBack):
        payload = answer_of(handler, returned.payload)
        return HandlerResult(payload or {}, {"kind": "question"})
    answer = answer_of(handler, returned)
    return HandlerResult(answer) if answer is not None else None


class Parts:
    """The values that a generator handler yields for one message, in their order.

    They are sent where the asker accepts partial answers; else only the last one counts. In both cases there is an end:
    a number of values, and the time of the request.
    """

    def __init__(self, handler: Handler, message: object, send: SendPart | None, clock: Callable[[], float]) -> None:
        self._handler = handler
        self._send = send
        self._clock = clock
        self._until = clock() + _seconds_left(message)
        self._count = 0
        self._last: Mapping[str, Any] | None = None
        self._last_id = ""
        # A question back, or to whom the request is handed on: that is the end, whatever was said before.
        self._final: HandlerResult | None = None
        # Set when nobody waits for the handler any more: one in a thread learns it with its next value.
        self.closed = False

    async def run(self, argument: object) -> HandlerResult | None:
        """Let the handler yield all its values; its answer, None for none."""
        handler = self._handler
        returned: object = None
        try:
            if handler.awaits:
                async with aclosing(handler.call(argument)) as values:
                    async for value in values:
                        await self._take(value)
            else:
                loop = asyncio.get_running_loop()
                returned = await run_in_thread(lambda: self._iterate(handler.call(argument), loop))
        finally:
            self.closed = True
        result = result_of(handler, returned) or self._final
        if result is not None or self._last is None:
            return result
        return HandlerResult(self._last, {"repeats": self._last_id} if self._last_id else None)

    def _iterate(self, values: Any, loop: asyncio.AbstractEventLoop) -> object:  # noqa: ANN401  # a generator
        """In a thread: take each value as soon as the one before it is sent; what the generator returns."""
        try:
            while True:
                asyncio.run_coroutine_threadsafe(self._take(next(values)), loop).result()
        except StopIteration as end:
            return end.value
        finally:
            values.close()

    async def _take(self, value: object) -> None:
        if self.closed or self._clock() >= self._until:
            raise MessageExpired("nobody waits for this answer any more")
        self._count += 1
        if self._count > PARTS_MAX:
            raise TooManyParts(f"{self._handler.name} yielded more than {PARTS_MAX} values")
        if isinstance(value, QuestionBack | ForwardedRequest):
            self._final = result_of(self._handler, value)
            return
        kind = PROGRESS if isinstance(value, ProgressPart) else ARTIFACT
        payload = answer_of(self._handler, value.payload if isinstance(value, ProgressPart) else value)
        if payload is None:
            return
        sent = await self._send(payload, kind, self._count) if self._send is not None else ""
        if kind == ARTIFACT:
            self._last, self._last_id = payload, sent


def _seconds_left(message: object) -> float:
    """How long after its arrival a request can be answered, by the times that its server gave it."""
    expires_at, created_at = getattr(message, "expires_at", None), getattr(message, "created_at", None)
    if expires_at is None or created_at is None:
        return float("inf")
    return float((expires_at - created_at).total_seconds())


def accepts_parts(message: ChannelMessage) -> bool:
    """Whether whoever sent a request follows its partial answers."""
    return message.message_type == "request" and message.metadata.get("accepts_partial") is True
