"""A watchdog for the event loop: a coroutine that blocks it stops everything, and somebody should say which one."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parley.sdk.agent.logs import place

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

_EVERY_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
_FRAMES = 5

_log = logging.getLogger("parley.agent")


@contextmanager
def watching(
    loop: asyncio.AbstractEventLoop, every: float = _EVERY_SECONDS, patience: float = _PATIENCE_SECONDS
) -> Iterator[None]:
    """Warn, with the place in the code, when the loop of this thread stands still for `patience` seconds."""
    ended, answered, thread = threading.Event(), threading.Event(), threading.get_ident()

    def watch() -> None:
        while not ended.wait(every):
            answered.clear()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # it is closed
            if not answered.wait(patience) and not ended.is_set():
                _warn(thread, patience)
                while not ended.is_set() and not answered.wait(every):
                    pass  # said once for each time it stands still

    watcher = threading.Thread(target=watch, name="parley-watchdog", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        answered.set()


def _warn(thread: int, seconds: float) -> None:
    frame = sys._current_frames().get(thread)  # the only way to see another thread
    stack = traceback.extract_stack(frame) if frame is not None else []
    where = place(stack)
    _log.warning(
        "a handler blocks the event loop%s: nothing else runs; write it with def instead of async def, or await",
        f" ({where})" if where else "",
        extra={
            "action": "agent_loop_blocked",
            "seconds": seconds,
            "where": "".join(traceback.format_list(stack[-_FRAMES:])),
        },
    )
