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
    {os.path.join(sysconfig.get_path(one), "") for one in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def told(
    log: logging.Logger,
    agent: str,
    action: str,
    said: str,
    why: str = "",
    level: int = logging.WARNING,
    **facts: object,
) -> None:
    """Log one thing about an agent; `why` is the error's own text, and never holds a body or a key."""
    extra = {"action": action, "agent": agent, "why": why, **facts}
    if why:
        log.log(level, "%s: %s (%s)", agent, said, why, extra=extra)
    else:
        log.log(level, "%s: %s", agent, said, extra=extra)


def place(frames: Iterable[FrameSummary]) -> str:
    """Where in a user's code something happens: the last line that is neither ours nor a library's."""
    theirs = [one for one in frames if not one.filename.startswith(("<", _OURS, *_LIBRARIES))]
    return f"{os.path.basename(theirs[-1].filename)}, line {theirs[-1].lineno}" if theirs else ""


def text_of(error: BaseException) -> str:
    """What an error of a user's code says, as a text that can be sent; the error may be broken itself."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  # a user's code, too
        return ""
    return said.encode("utf-8", "replace").decode().replace("\0", "?").replace("\ufeff", "")
