"""What an agent's log says: a sentence for people, and the same as fields for machines."""

from __future__ import annotations

import logging
import os
import sysconfig
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from traceback import FrameSummary

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LIBRARIES = tuple(
    {os.path.join(sysconfig.get_path(scheme), "") for scheme in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def log_event(
    log: logging.Logger,
    agent: str,
    action: str,
    text: str,
    error_text: str = "",
    level: int = logging.WARNING,
    **facts: object,
) -> None:
    """Log one thing about an agent; `why` is the error's own text, and never holds a body or a key."""
    extra = {"action": action, "agent": agent, "why": error_text, **facts}
    if error_text:
        log.log(level, "%s: %s (%s)", agent, text, error_text, extra=extra)
    else:
        log.log(level, "%s: %s", agent, text, extra=extra)


def code_location(frames: Iterable[FrameSummary]) -> str:
    """Where in a user's code something happens: the last line that is neither ours nor a library's."""
    user_frames = [frame for frame in frames if not frame.filename.startswith(("<", _OURS, *_LIBRARIES))]
    return f"{os.path.basename(user_frames[-1].filename)}, line {user_frames[-1].lineno}" if user_frames else ""


def error_text(error: BaseException) -> str:
    """What an error of a user's code says, as a text that can be sent; the error may be broken itself."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # a user's code, too
        return ""
    return text.encode("utf-8", "replace").decode().replace("\0", "?").replace("\ufeff", "")
