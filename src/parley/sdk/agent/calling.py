"""Calling a handler: awaited in the loop or run in a thread, within its time, and what its result means."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid, ParleyError
from parley.domain.errors.team import AgentFailed
from parley.domain.hashes import digest
from parley.sdk.agent.logs import error_text
from parley.sdk.protocol.failures import FAILURE_TEXT_MAX_CHARS, Failure
from parley.sdk.protocol.flow import encoded
from parley.sdk.protocol.payloads import payload_of
from parley.sdk.protocol.refusal import is_temporary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from parley.sdk.agent.handlers import Handler

# How long to wait for a cancelled coroutine to end.
_CANCEL_WAIT_SECONDS = 1.0
_PAUSE_MAX_SECONDS = 3_600.0


class HandlerTimeout(ParleyError):
    """The handler took too long."""

    code = "handler_timeout"


async def call(
    handler: Handler, argument: object, limit: float | None, generate: Callable[[object], Awaitable[Any]] | None = None
) -> Any:  # noqa: ANN401  # its result
    """What a handler returns; `HandlerTimeout` when it takes longer than its limit, in seconds.

    `generate` runs a generator to its end.

    A thread cannot be stopped, nor can a coroutine that takes no notice of being cancelled: one that takes too long
    goes on, and its result is dropped.
    """
    seconds = handler.spec.timeout or limit
    work: Awaitable[Any]
    if generate is not None:
        work = generate(argument)
    elif handler.awaits:
        work = handler.call(argument)
    else:
        work = run_in_thread(lambda: handler.call(argument))
    if seconds is None and (handler.awaits or generate is not None):
        return await work
    task = asyncio.ensure_future(_outcome(work))
    try:
        await asyncio.wait((task,), timeout=seconds)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=_CANCEL_WAIT_SECONDS)
            raise HandlerTimeout(f"{handler.name} took longer than {seconds:g} seconds")
    finally:
        task.cancel()
    result, error = task.result()
    if error is not None:
        raise error
    return result


async def _outcome(work: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """What something gives or raises. A task that raises SystemExit would end the loop."""
    try:
        return await work, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  # the outermost frame around a user's code
        return None, error


async def run_in_thread(function: Callable[[], Any]) -> Any:  # noqa: ANN401  # its result
    """Run something that blocks in a thread of its own, which keeps no process alive."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def set_outcome(result: Any, error: BaseException | None) -> None:  # noqa: ANN401
        if future.done():
            return  # the caller has gone
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as stopped:  # a future cannot hold it
            error = RuntimeError(f"the handler raised {stopped!r}")
        except BaseException as raised:  # noqa: BLE001  # the outermost frame of the thread
            error = raised
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(set_outcome, result, error)

    threading.Thread(target=run, name="parley-handler", daemon=True).start()
    return await future


def answer_of(handler: Handler, result: object) -> Mapping[str, Any] | None:
    """The response that a returned value stands for; None for none. `Invalid` when it cannot be one."""
    if result is None:
        return None
    try:
        answer: dict[str, Any] = json.loads(encoded(payload_of(result)))
    except Invalid as error:
        raise Invalid(f"{handler.name} returned what is not JSON: {error.message}") from None
    return answer


def failure_of(error: BaseException) -> Failure:
    """The failure that an asker receives for an error in a handler; for the failure of another agent, its cause."""
    if isinstance(error, AgentFailed):
        return Failure(error.code, error.reason, error.chain)
    text = error_text(error)[:FAILURE_TEXT_MAX_CHARS]
    if isinstance(error, ParleyError):
        return Failure(error.code, text)
    kind = type(error).__name__
    return Failure("handler_failed", f"{kind}: {text}"[:FAILURE_TEXT_MAX_CHARS] if text else kind)


def may_retry(error: BaseException) -> bool:
    """Whether another try may succeed. An error of Parley that says no is meant, and SystemExit is, too."""
    if isinstance(error, ParleyError):
        return is_temporary(error) or isinstance(error, HandlerTimeout | AgentFailed)
    return isinstance(error, Exception | asyncio.CancelledError)


def retry_pause(backoff: float, attempt: int, arrival_id: str) -> float:
    """Seconds until the next try: twice as many each time, and up to a quarter less, so that not all come at once."""
    spread = int(digest(f"{arrival_id} {attempt}".encode())[:4], 16) / 0xFFFF
    return float(min(backoff * 2 ** (attempt - 1), _PAUSE_MAX_SECONDS) * (1 - spread / 4))
