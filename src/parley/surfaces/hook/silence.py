"""A hook must never break the session of its user: whatever goes wrong ends it in silence, with exit code 0.

A coding agent takes exit code 2 of a hook for an order to go on, and other codes for an error that it shows.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.domain.content.visible import safe
from parley.domain.errors.errors import ParleyError
from parley.surfaces.hook.stops import Stopped, StopSignals

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

TIME_LIMIT_SECONDS = 2.0
# With which a hook tells a coding agent to read what it wrote to standard error, and to go on.
WAKE_EXIT = 2
_DETAIL_CHARS = 300
_LOG_BYTES = 256 * 1024


class HookLog:
    """One line for each trouble, in a file that does not grow without end."""

    def __init__(self, path: str, time: Callable[[], str]) -> None:
        self._path = path
        self._time = time

    def write(self, detail: str) -> None:
        """Add a line; a log that cannot be written is no trouble either."""
        line = f"{self._time()} {safe(detail)[:_DETAIL_CHARS]}\n".encode("utf-8", "backslashreplace")
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                if os.path.getsize(self._path) > _LOG_BYTES:
                    os.replace(self._path, f"{self._path}.1")
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


def run_until_woken(
    wait: Callable[[StopSignals], str],
    log: HookLog,
    write: Callable[[str], object],
    confirm: Callable[[], None] = lambda: None,
) -> int:
    """Run a hook that waits, and write what it says. Signals end it, and whatever goes wrong, in silence.

    `confirm` is called once all of it is written; should it fail, what was written still counts.
    """
    stops = StopSignals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        text = wait(stops)
        if text:
            write(f"{text}\n")
            with suppress(ParleyError):
                confirm()
            return WAKE_EXIT
    except Stopped:
        pass
    except ParleyError as error:
        log.write(f"{error.code}: {error.message}")
    except Exception as error:  # noqa: BLE001  # the outermost frame of a surface
        log.write(f"internal: {type(error).__name__}: {error}")
    return 0


def run_silently(
    hook: Callable[[], str], log: HookLog, write: Callable[[str], object], confirm: Callable[[], None] = lambda: None
) -> int:
    """Run a hook and write what it says; nothing when it fails or takes longer than two seconds.

    `confirm` is called once all of it is written, within the same time.
    """

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        log.write(f"timeout: took longer than {TIME_LIMIT_SECONDS:g} s")
        os._exit(0)  # as safe as a crash: nothing is acknowledged before it is durable

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_SECONDS)
    try:
        text = hook()
        if text:
            write(f"{text}\n")
            confirm()
    except ParleyError as error:
        log.write(f"{error.code}: {error.message}")
    except Exception as error:  # noqa: BLE001  # the outermost frame of a surface
        log.write(f"internal: {type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return 0
