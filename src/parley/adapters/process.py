"""This process: the only clock and the only randomness."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from parley.domain.names import time_ordered
from parley.domain.times import Instant

if TYPE_CHECKING:
    from collections.abc import Callable

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Eight bytes per character, so that all are equally likely.
_CHARACTERS = _CROCKFORD.encode() * 8
_ULID_NOISE = 16
_ULIDS_AT_ONCE = 256
_SLEW = 500e-6
_STEP_SECONDS = 60.0
_MILLISECOND = 0.001
_TICK = timedelta(milliseconds=1)
# How far the times in suffixes may run ahead of the clock.
_BURST = timedelta(seconds=1)
_STEP_ACCEPT_SECONDS = 300.0
# A store that has been silent for longer cannot say whether the clock of a start is right.
_SILENCE_SECONDS = 3_600.0

# Of /proc/PID/stat, counted from behind the name of the program.
_START_FIELD = 19
_ENDED_STATES = (b"Z", b"X")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Counts through suspend, like a person's sense of half an hour; plain monotonic where it is missing.
_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Wall time and uptime of this machine."""

    def __init__(self) -> None:
        self._boot = _read_boot()

    def now(self) -> Instant:
        return Instant(datetime.now(UTC), self._boot, time.clock_gettime(_UPTIME))


class SystemIds:
    """Randomness from the operating system; ids begin with `milliseconds` and never fall, whatever the clock does."""

    def __init__(self, milliseconds: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._milliseconds = milliseconds
        # The second halves of ulids to come.
        self._noise = ""
        self._used = 0
        # The last millisecond, and its encoding.
        self._millisecond = -1
        self._encoded_time = ""
        # The time in the last suffix.
        self._suffix_at = datetime.min.replace(tzinfo=UTC)

    def suffix(self, length: int) -> str:
        at, earliest = datetime.now(UTC), self._suffix_at + _TICK
        # Two messages of one millisecond stay in their order, too; a clock that was set back begins anew.
        if at < earliest < at + _BURST and earliest.minute == at.minute:
            at = earliest
        self._suffix_at = at
        return time_ordered(at, os.urandom(length).hex())[:length]

    def token(self) -> str:
        return os.urandom(16).hex()

    def ulid(self) -> str:
        # Fetched in batches: each system call releases the interpreter, and a busy server waits to get it back.
        at = self._used
        if at >= len(self._noise):
            self._noise, at = encode_noise(os.urandom(_ULID_NOISE * _ULIDS_AT_ONCE)), 0
        self._used = at + _ULID_NOISE
        millisecond = self._milliseconds()
        if millisecond > self._millisecond:
            self._millisecond, self._encoded_time = millisecond, encode_time(millisecond)
        return self._encoded_time + self._noise[at : at + _ULID_NOISE]

    def secret(self) -> str:
        from base64 import urlsafe_b64encode  # only a server needs it

        return urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()


class SteadyClock:
    """A server's clock: wall time at the start plus what has passed, led back to wall time without a jump.

    A wall clock that is set does not move it at once: it follows by at most 500 parts in a million, and what is more
    than a minute away only after it has stayed so for five minutes.

    `newest` is the latest moment that was stored before the start. A start behind it goes on from there, as after a
    step. A start long after it believes the wall, because servers are stopped for days, but says for five minutes that
    it may be wrong.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        newest: datetime | None = None,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._boot = _read_boot()
        self._last = monotonic()
        self._time = wall()
        since = self._time - newest.timestamp() if newest is not None else 0.0
        # While the wall clock is more than a minute away from what this clock says: since when.
        self._stepped_at: float | None = None
        # The silence before the start, and until when it casts doubt on the wall clock.
        self._silence = since if since > _SILENCE_SECONDS else 0.0
        self._doubted_until = self._last + _STEP_ACCEPT_SECONDS
        if since < -_STEP_SECONDS:
            self._time -= since
        self._since = self._instant()

    def now(self) -> Instant:
        monotonic, offset = self._advance()
        step = offset if self._stepped_at is not None else self._silence
        return Instant(self._instant(), self._boot, monotonic, step, self._since)

    def milliseconds(self) -> int:
        """Milliseconds since 1970, by this clock."""
        # Ids come in bursts: within a millisecond the last look at the clocks is new enough.
        if self._monotonic() - self._last >= _MILLISECOND:
            self._advance()
        return int(self._time * 1000)

    def _instant(self) -> datetime:
        return datetime.fromtimestamp(self._time, UTC)

    def _advance(self) -> tuple[float, float]:
        """Follow the wall; the monotonic time, and how far the wall is away."""
        monotonic = self._monotonic()
        elapsed, self._last = monotonic - self._last, monotonic
        self._time += elapsed
        offset = self._wall() - self._time
        if abs(offset) <= _STEP_SECONDS:
            self._stepped_at = None
        elif self._stepped_at is None:
            self._stepped_at = monotonic
        if self._stepped_at is not None and monotonic - self._stepped_at >= _STEP_ACCEPT_SECONDS:
            self._time, self._stepped_at = self._time + offset, None  # it was meant
            self._since = self._instant()
        elif self._stepped_at is None:
            self._time += max(-elapsed * _SLEW, min(elapsed * _SLEW, offset))
        if self._silence and monotonic >= self._doubted_until:
            self._silence = 0.0
        return monotonic, offset


def wall_time() -> float:
    """Seconds since 1970."""
    return time.time()


def monotonic() -> float:
    """Seconds since some moment; never falls."""
    return time.monotonic()


def process_mark(pid: int) -> str:
    """What names a running process for good: its number, its start and its namespace; "" where that cannot be told.

    Numbers are used again, and a container counts its own. Only Linux tells the rest.
    """
    started = _start_of(pid)
    return f"{pid}:{started}:{_pid_namespace()}" if started else ""


def has_ended(mark: str) -> bool:
    """Whether the process of a mark is known to have ended; False where it cannot be seen from here."""
    pid, _, rest = mark.partition(":")
    started, _, namespace = rest.partition(":")
    if not pid.isdigit() or not namespace or namespace != _pid_namespace():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it runs as another user
        return False
    fields = _stat_of(int(pid))
    # A zombie has ended, though nobody has asked for its exit code: in a container that may never happen.
    return bool(fields) and (fields[0] in _ENDED_STATES or fields[_START_FIELD].decode() != started)


def _start_of(pid: int) -> str:
    fields = _stat_of(pid)
    return fields[_START_FIELD].decode() if fields else ""


def _stat_of(pid: int) -> list[bytes]:
    """What Linux tells of a process, from its state on; nothing where it is not there."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program, in brackets, may contain anything.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return []
    return fields if len(fields) > _START_FIELD else []


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def encode_time(milliseconds: int) -> str:
    """48 bits of time in Crockford's base 32: the first half of a ulid."""
    high, low = milliseconds >> 20, milliseconds & 0xFFFFF
    pairs = _crockford_pairs()
    return f"{pairs[high >> 20]}{pairs[high >> 10 & 1023]}{pairs[high & 1023]}{pairs[low >> 10]}{pairs[low & 1023]}"


@cache
def _crockford_pairs() -> list[str]:
    """Made when it is first needed: commands on mailboxes have no ulids."""
    return [left + right for left in _CROCKFORD for right in _CROCKFORD]


def encode_noise(noise: bytes) -> str:
    """Five bits of each byte in Crockford's base 32: sixteen are the second half of a ulid."""
    return noise.translate(_CHARACTERS).decode("ascii")


def _read_boot() -> str:
    try:
        with open(_BOOT_ID, "rb") as file:
            return file.read().decode().strip()
    except OSError:
        # Without a boot id (macOS) the moment of booting names it, to ten seconds.
        return f"boot-{round((time.time() - time.clock_gettime(_UPTIME)) / 10)}"
