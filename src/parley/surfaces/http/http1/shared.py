"""What the connections of one listener share: the handler, the limits, the counts, and how failures are logged."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, TypeVar

from parley.surfaces.http.http1.message import Refused, Response, render

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from parley.surfaces.http.http1.connection import Connection
    from parley.surfaces.http.http1.message import Admit, Handler, HttpLimits, Problem, Request

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Shared:
    """What the connections of one listener have in common."""

    def __init__(self, handler: Handler, limits: HttpLimits, problem: Problem, common: bytes, admit: Admit) -> None:
        self.handler = handler
        self._admit = admit
        self.limits = limits
        self.problem = problem
        # The headers of every response; the listener renews the date in them.
        self.common = common
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self.tasks: set[asyncio.Future[Any]] = set()
        # `leaving` comes first: requests are still accepted, but every answer closes its connection. `draining`: no new
        # connections or requests, and streams are ended.
        self.leaving = False
        self.draining = False
        self.empty = asyncio.Event()

    def register(self, connection: Connection, address: str) -> Refused | None:
        """Register a connection; a refusal when it exceeds the limits, in total or for its address."""
        self.connections.add(connection)
        self._by_address[address] += 1
        if len(self.connections) > self.limits.connections:
            return Refused(503, "overloaded", "There are too many connections.")
        if address and self._by_address[address] > self.limits.connections_per_address:
            return Refused(429, "rate_limited", "There are too many connections from this address.")
        return None

    def unregister(self, connection: Connection, address: str) -> None:
        """Unregister a connection."""
        self.connections.discard(connection)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        if not self.connections:
            self.empty.set()

    def admit(self, request: Request) -> Response | Awaitable[Response | None] | None:
        """None to read the body of a request; else the answer to give without reading it, or an awaitable of either."""
        early_answer = self._admit(request)
        if early_answer is None or isinstance(early_answer, Response):
            return early_answer
        return self._early_answer(early_answer)

    async def _early_answer(self, pending: Awaitable[Response | None]) -> Response | None:
        try:
            return await pending
        except Exception as error:  # noqa: BLE001  # the outermost frame
            log_failure("http_handler_failed", error)
            return self.problem(500, "internal", "The server failed; the failure has been logged.")

    def hold_task(self, task: asyncio.Future[T]) -> asyncio.Future[T]:
        """Hold on to a task until it is done; the loop itself does not."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def refusal(self, refused: Refused, connection: bytes, *, headers_only: bool) -> bytes:
        try:
            response = self.problem(refused.status, refused.code, refused.detail)
            return render(response, self.common, connection, headers_only=headers_only)
        except Exception as error:  # noqa: BLE001  # the outermost frame; even a broken problem is answered
            log_failure("http_problem_failed", error)
            return render(Response(refused.status), self.common, connection, headers_only=headers_only)


async def end_stream(stream: AsyncIterator[bytes]) -> None:
    close = getattr(stream, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except Exception as error:  # noqa: BLE001  # the outermost frame
        log_failure("http_stream_failed", error)


def log_failure(action: str, error: BaseException) -> None:
    """What went wrong and where. Never the error's text: it may quote what a client sent."""
    frames = list(walk_tb(error.__traceback__))[-5:]
    where = [f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}" for frame, line in frames]
    _log.error("a request failed", extra={"action": action, "error": type(error).__name__, "where": where})
