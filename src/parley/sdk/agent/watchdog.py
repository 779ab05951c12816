"""A watchdog for the event loop: reports the coroutine that blocks it."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parley.sdk.agent.logs import code_location

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

_CHECK_SECONDS = 1.0
_STALL_SECONDS = 5.0
_FRAMES_LOGGED = 5

_log = logging.getLogger("parley.agent")


@contextmanager
def watch_loop(
    loop: asyncio.AbstractEventLoop, check_seconds: float = _CHECK_SECONDS, stall_seconds: float = _STALL_SECONDS
) -> Iterator[None]:
    """Warn, with the place in the code, when the loop of this thread is blocked for `stall_seconds`."""
    ended, answered, thread = threading.Event(), threading.Event(), threading.get_ident()

    def watch() -> None:
        while not ended.wait(check_seconds):
            answered.clear()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # it is closed
            if not answered.wait(stall_seconds) and not ended.is_set():
                _warn(thread, stall_seconds)
                while not ended.is_set() and not answered.wait(check_seconds):
                    pass  # one warning per stall

    watchdog = threading.Thread(target=watch, name="parley-watchdog", daemon=True)
    watchdog.start()
    try:
        yield
    finally:
        ended.set()
        answered.set()


def _warn(thread: int, seconds: float) -> None:
    frame = sys._current_frames().get(thread)  # the only way to see another thread
    stack = traceback.extract_stack(frame) if frame is not None else []
    where = code_location(stack)
    _log.warning(
        "a handler blocks the event loop%s: nothing else runs; write it with def instead of async def, or await",
        f" ({where})" if where else "",
        extra={
            "action": "agent_loop_blocked",
            "seconds": seconds,
            "where": "".join(traceback.format_list(stack[-_FRAMES_LOGGED:])),
        },
    )
