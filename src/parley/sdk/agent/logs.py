"""Log records of agents, with a sentence and fields; and errors of user code as text."""

from __future__ import annotations

import logging
import os
import sysconfig
import traceback
from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from traceback import FrameSummary

    from parley.wire.api.records.channels import ChannelMessage

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LIBRARIES = tuple(
    {os.path.join(sysconfig.get_path(scheme), "") for scheme in ("stdlib", "platstdlib", "purelib", "platlib")}
)

_ERROR_TEXT_MAX_CHARS = 500


def log_event(
    log: logging.Logger,
    agent: str,
    action: str,
    text: str,
    error_text: str = "",
    level: int = logging.WARNING,
    about: ChannelMessage | None = None,
    **facts: object,
) -> None:
    """Log an event of an agent, `about` a message; `error_text` never contains a body or a key."""
    if about is not None:
        text, facts = f"{text}: {describe_arrival(about, about.id)}", {**message_facts(about), **facts}
    elif "message_id" in facts:
        text = f"{text}: {facts['message_id']}"
    extra = {"action": action, "agent": agent, "why": error_text, **facts}
    if error_text:
        log.log(level, "%s: %s (%s)", agent, text, error_text, extra=extra)
    else:
        log.log(level, "%s: %s", agent, text, extra=extra)


def print_log_if_unconfigured() -> bool:
    """Print the log of agents to standard error, with times, unless the program has configured logging."""
    log = logging.getLogger("parley.agent")
    if logging.getLogger().handlers or log.handlers:
        return False
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    # The line that says where it works and how to stop it is printed in any case.
    handler.addFilter(lambda record: getattr(record, "action", "") != "agent_started")
    log.addHandler(handler)
    log.setLevel(logging.INFO if log.level == logging.NOTSET else log.level)
    return True


def message_facts(arrival: object) -> dict[str, object]:
    """The id, the sender and the channel of a message, for machines; nothing for what is no message."""
    sender, channel_id = getattr(arrival, "sender", ""), getattr(arrival, "channel_id", "")
    if not (sender and channel_id):
        return {}
    channel = getattr(arrival, "channel", "") or channel_id
    return {"message_id": getattr(arrival, "id", ""), "sender": sender, "channel": channel}


def describe_arrival(arrival: object, arrival_id: str) -> str:
    """What a handler was called with, as a log line names it: its id, and a message's sender and channel."""
    sender, channel_id = getattr(arrival, "sender", ""), getattr(arrival, "channel_id", "")
    if not (sender and channel_id):
        return arrival_id
    return f"{arrival_id} from {sender} in {getattr(arrival, 'channel', '') or channel_id}"


def code_location(frames: Iterable[FrameSummary]) -> str:
    """The last line of user code in a stack: neither Parley's nor a library's."""
    user_frames = [frame for frame in frames if not frame.filename.startswith(("<", _OURS, *_LIBRARIES))]
    return f"{os.path.basename(user_frames[-1].filename)}, line {user_frames[-1].lineno}" if user_frames else ""


def error_text(error: BaseException) -> str:
    """The text of an error of user code, safe to send; its own `__str__` may fail."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # a user's code, too
        return ""
    return text.encode("utf-8", "replace").decode().replace("\0", "?").replace("\ufeff", "")


def describe_error(error: BaseException) -> str:
    """An error of user code in one line, with its place in that code."""
    if isinstance(error, ParleyError):
        return error_text(error)[:_ERROR_TEXT_MAX_CHARS]
    first = (error_text(error).splitlines() or [""])[0]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    if isinstance(error, SyntaxError):
        return text if "line" in text else f"{text} (line {error.lineno})"
    where = code_location(traceback.extract_tb(error.__traceback__))
    return f"{text[:_ERROR_TEXT_MAX_CHARS]} ({where})" if where else text[:_ERROR_TEXT_MAX_CHARS]
