"""What hooks, waiters and ringers share: the limits that the settings have, and a log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley.domain.errors.errors import BadConfig, Invalid
from parley.domain.mailbox.hook_events import AttentionLimits, Wake, parse_quiet_hours
from parley.settings import state_directory
from parley.surfaces.hook.silence import HookLog
from parley.wiring import SystemClock

if TYPE_CHECKING:
    from parley.settings import Settings
    from parley.wiring import Kernel


LOG_FILE = "hook.log"


def hook_log() -> HookLog:
    """The log of hooks and ringers, which have nobody to tell what went wrong."""
    return HookLog(os.path.join(state_directory(), LOG_FILE), _time_text)


def _time_text() -> str:
    return f"{SystemClock().now().at:%Y-%m-%dT%H:%M:%SZ}"


def attention_limits(settings: Settings) -> AttentionLimits:
    """The limits of the settings; `BadConfig` for hours that are none."""
    try:
        quiet = parse_quiet_hours(settings.quiet_hours)
    except Invalid as error:
        raise BadConfig(f"quiet_hours: {error.message}") from None
    return AttentionLimits(int(settings.wakes_per_hour), quiet, Wake(settings.wake))


def local_minute(kernel: Kernel) -> int:
    """The minute of the day, in local time."""
    local = kernel.clock.now().at.astimezone()
    return local.hour * 60 + local.minute
