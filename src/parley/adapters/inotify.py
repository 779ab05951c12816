"""Waiting for changes in a folder, by inotify where the system has it."""

from __future__ import annotations

import ctypes
import os
import select
import time
from contextlib import suppress

_CLOSE_WRITE, _MOVED_TO, _CREATE, _DELETE_SELF = 0x8, 0x80, 0x100, 0x400
_EVENTS = _CLOSE_WRITE | _MOVED_TO | _CREATE | _DELETE_SELF
_READ_BYTES = 65_536
# Where there is no inotify, pauses are this short, and the caller looks for itself.
_SHORT_PAUSE_SECONDS = 0.25


class FolderWatch:
    """Sleeps until something is put into a folder."""

    def __init__(self, path: str) -> None:
        self._descriptor = _watch(path)

    def pause(self, seconds: float) -> bool:
        """Sleep, at most so long; whether something was put there. Without inotify that is not known."""
        if self._descriptor < 0:
            time.sleep(min(seconds, _SHORT_PAUSE_SECONDS))
            return False
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return False
        with suppress(BlockingIOError):
            while os.read(self._descriptor, _READ_BYTES):
                pass
        return True

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _watch(path: str) -> int:
    """A descriptor that is ready to read after a change; -1 where that cannot be had."""
    try:
        library = ctypes.CDLL(None)
        descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError, TypeError):
        return -1
    if descriptor >= 0 and library.inotify_add_watch(descriptor, os.fsencode(path), _EVENTS) < 0:
        os.close(descriptor)
        return -1
    return descriptor
