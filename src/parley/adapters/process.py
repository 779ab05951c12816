"""This process: the only clock and the only randomness."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from parley.domain.names import time_ordered
from parley.domain.times import Instant

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
    """Randomness from the operating system."""

    def suffix(self, length: int) -> str:
        return time_ordered(datetime.now(UTC), os.urandom(length).hex())[:length]

    def token(self) -> str:
        return os.urandom(16).hex()


def _read_boot() -> str:
    try:
        with open(_BOOT_ID, "rb") as file:
            return file.read().decode().strip()
    except OSError:
        # Without a boot id (macOS) the moment of booting names it, to ten seconds.
        return f"boot-{round((time.time() - time.clock_gettime(_UPTIME)) / 10)}"
