"""Processes as other processes see them: `PID@HOST`, and whether one has ended."""

from __future__ import annotations

import os
import platform
import re

_HOST_MAX_CHARS = 255


def process_name() -> str:
    """This process, as another one that is taken over by it reads it."""
    return f"{os.getpid()}@{_host()}"


def has_ended(process: str) -> bool:
    """Whether a process is known to be gone: it ran on this host, and no process has its number, or this one has it."""
    pid, _, host = process.partition("@")
    if host != _host() or not pid.isdigit() or os.name != "posix":
        return False
    if int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _host() -> str:
    return re.sub("[^A-Za-z0-9._-]", "-", platform.node())[:_HOST_MAX_CHARS] or "localhost"
