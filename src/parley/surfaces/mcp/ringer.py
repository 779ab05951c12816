"""The ringer of `parley mcp`: a thread that wakes idle sessions of Codex, which has no hook that could.

Codex starts one server a session and ends it with the session, so there is a ringer as long as somebody can be rung.
It reads nothing of any message but what a notice may say, and rings with one fixed text.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol

from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.hook_events import AttentionLimits
    from parley.domain.times import Instant
    from parley.ports.mailbox import Clock

RING_TEXT = "Parley: messages wait (automatic notice, not typed by your user)."
_HARNESS = "codex"
_PAUSE_SECONDS = 1.0
# While something waits for which nobody was rung yet.
_LOOK_SECONDS = 5.0
# While there is no mailbox.
_ABSENCE_SECONDS = 15.0
# How often the use of a tool is recorded.
_USE_SECONDS = 30.0


class Watch(Protocol):
    """Sleeps until something is put into a folder, if the system tells it."""

    def pause(self, seconds: float) -> bool:
        """Sleep, at most so long; whether something was put there."""
        ...

    def close(self) -> None:
        """Stop watching."""
        ...


class RingerAccess(NamedTuple):
    """How a ringer reaches the mailbox, its limits and Codex."""

    clock: Clock
    open: Callable[[], Kernel]
    inbox: Callable[[], str]
    watch: Callable[[str], Watch]
    # The limits of the settings, and the minute of the day.
    limits: Callable[[], AttentionLimits]
    local_minute: Callable[[Kernel], int]
    # Rings a session with a text; what went wrong, or "".
    ring: Callable[[str, str], str]
    log: Callable[[str], None]


class Ringer:
    """Watches an inbox in a thread of its own, and rings."""

    def __init__(self, access: RingerAccess) -> None:
        self._access = access
        self._clock = access.clock
        self._since = self._clock.now().at
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        # The session that this server belongs to, once a call has named it, with the time of its last call; and when
        # a use was last recorded.
        self._use: tuple[str, Instant] | None = None
        self._recorded = 0.0

    def start(self) -> None:
        """Begin to watch; once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ringer", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End as soon as nothing is under way, without waiting for it."""
        self._ended.set()

    def note_use(self, session: str) -> None:
        """Remember that a session has called a tool of this process."""
        if self._use is None or self._use[0] != session:
            self._recorded = 0.0
        self._use = session, self._clock.now()

    def _run(self) -> None:
        problem = ""
        while not self._ended.is_set():
            try:
                self._watch()
            except ParleyError as error:
                detail = f"ringer: {error.code}: {error.message}"
            except Exception as error:  # noqa: BLE001  # the outermost frame of a thread
                detail = f"ringer: internal: {type(error).__name__}: {error}"
            else:
                return
            if detail != problem:  # once, however long it lasts
                self._access.log(detail)
                problem = detail
            self._ended.wait(_ABSENCE_SECONDS)

    def _watch(self) -> None:
        inbox = self._access.inbox()
        watch = self._access.watch(inbox)
        try:
            self._watch_inbox(watch, inbox)
        finally:
            watch.close()

    def _watch_inbox(self, watch: Watch, inbox: str) -> None:
        pulse, looked, is_pending = 0, 0.0, True
        while not self._ended.is_set():
            now = self._clock.now().uptime
            use = self._use
            if use is not None and now - self._recorded >= _USE_SECONDS and use[1].uptime > self._recorded:
                self._recorded = now
                self._record_use(*use)
            before, pulse = pulse, _changed_at(inbox)
            if pulse != before or (is_pending and now - looked >= _LOOK_SECONDS):
                looked, is_pending = now, self._look()
            if watch.pause(_PAUSE_SECONDS):
                pulse = 0

    def _record_use(self, session: str, used: Instant) -> None:
        from parley.app.mailbox.wake import sessions

        kernel = self._access.open()
        try:
            drive(sessions.record_use(kernel, _HARNESS, session, used.at))
        finally:
            kernel.close()

    def _look(self) -> bool:
        """Ring if it has to be; whether something waits that may need it later."""
        kernel = self._access.open()
        try:
            if not drive(kernel.inbox.names()):
                return False
            from parley.app.mailbox.wake.ringer import finish_ring, look_for_ring
            from parley.domain.times import stamp

            limits = self._access.limits()
            minute = self._access.local_minute(kernel)
            session = drive(look_for_ring(kernel, _HARNESS, stamp(self._since), limits, minute))
            if session:
                problem = self._access.ring(session, RING_TEXT)
                if problem:
                    self._access.log(f"ringer: {problem}")
                drive(finish_ring(kernel, session, succeeded=not problem))
            return True
        finally:
            kernel.close()


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError as error:
        from parley.domain.errors.errors import Unavailable

        raise Unavailable(f"cannot watch {folder}: {error.strerror}") from None
