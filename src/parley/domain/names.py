"""Names, ids and file names: what they look like and which are refused."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from parley.domain.errors.errors import BadAgentName, BadName, BadProjectName

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
# Device names that another file system would open instead of a folder.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{stem}{digit}" for stem in ("com", "lpt") for digit in "123456789"}
)

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NOISE = 27

# By how many characters a name with a typing error may be longer or shorter, and how many names are compared in full.
_TYPING_ERROR_CHARS = 2
_COMPARED_MAX = 200

NAME_RULE = "1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit"


@lru_cache(1024)  # a listing asks for the same few names thousands of times
def is_name(text: str) -> bool:
    """Whether `text` may name an agent or a project."""
    return (
        _CHARACTERS.issuperset(text)
        and 1 <= len(text) <= 64
        and text[0].isalnum()
        and ".." not in text
        and text.split(".", 1)[0].lower() not in _DEVICES
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address. A name that begins like such an address is none."""
    if host in ("localhost", "::1"):
        return True
    parts = host.split(".")
    numbers = all(part.isascii() and part.isdigit() and len(part) <= 3 and int(part) <= 255 for part in parts)
    return len(parts) == 4 and numbers and parts[0] == "127"


def name_from(text: str) -> str:
    """A name that is as close to `text` as the rules allow; "" when nothing of it can be used."""
    allowed = "".join(character if character in _CHARACTERS else "-" for character in text)
    while ".." in allowed:
        allowed = allowed.replace("..", ".")
    name = allowed.strip("-._")[:64]
    return name if is_name(name) else ""


def agent_name(text: str) -> str:
    """`text` if it may name an agent, else `BadAgentName`."""
    return _checked(text, BadAgentName, "agent name")


def project_name(text: str) -> str:
    """`text` if it may name a project, else `BadProjectName`."""
    return _checked(text, BadProjectName, "project name")


def _checked(text: str, error: type[BadName], what: str) -> str:
    if not is_name(text):
        shown = text if len(text) <= 70 else text[:67] + "..."
        raise error(f"{shown!r} is not a valid {what}", hint=f"use {NAME_RULE}")
    return text


def meant(name: str, candidates: Iterable[str]) -> str:
    """A hint that names what was probably meant, "" when nothing known comes close."""
    from difflib import get_close_matches  # only for those who mistyped

    close = get_close_matches(name, candidates, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else ""


def near_misses(name: str, candidates: Iterable[str], limit: int) -> list[str]:
    """Names that differ from `name` by about one typing error, the nearest first.

    One error leaves the first or the second half as it was. Only names that share one of them are compared in full,
    so that thousands of candidates cost milliseconds.
    """
    from difflib import get_close_matches  # only for those who mistyped

    folded = name.casefold()
    half = max(1, (len(folded) - 1) // 2)
    begin, end = folded[:half], folded[-half:]
    close: dict[str, str] = {}
    for candidate in candidates:
        if abs(len(candidate) - len(name)) <= _TYPING_ERROR_CHARS:
            other = candidate.casefold()
            if other.startswith(begin) or other.endswith(end):
                close[other] = candidate
                if len(close) == _COMPARED_MAX:
                    break
    return [close[match] for match in get_close_matches(folded, close, n=limit, cutoff=0.7)]


def compact(at: datetime) -> str:
    """The minute of `at` as OACP writes it in ids and file names: 20260313T1430Z."""
    return f"{at.year:04d}{at.month:02d}{at.day:02d}T{at.hour:02d}{at.minute:02d}Z"


def message_id(at: datetime, sender: str, suffix: str) -> str:
    """msg-20260313T1430Z-claude-a8f3"""
    return f"msg-{compact(at)}-{sender}-{suffix}"


def time_ordered(at: datetime, noise: str) -> str:
    """An id's random part that sorts by the time within its minute, so that a burst stays in its order.

    Four characters hold 60,000 milliseconds times 27; what the last bits are, and whatever follows, is noise.
    """
    tick = (at.second * 1000 + at.microsecond // 1000) * _NOISE + sum(map(ord, noise[:2])) % _NOISE
    digits = ""
    for _ in range(4):
        tick, digit = divmod(tick, 36)
        digits = _DIGITS[digit] + digits
    return digits + noise[2:]


def conversation_id(at: datetime, agent: str, sequence: int) -> str:
    """conv-20260313-claude-001"""
    return f"{conversation_prefix(at, agent)}{sequence:03d}"


def conversation_prefix(at: datetime, agent: str) -> str:
    """What all conversations that `agent` starts on that day have in common."""
    return f"conv-{at.year:04d}{at.month:02d}{at.day:02d}-{agent}-"


def file_name(at: datetime, sender: str, kind: str, suffix: str = "") -> str:
    """20260313T1430Z_codex_task_request.yaml, or with _suffix where that name is taken."""
    return f"{compact(at)}_{sender}_{kind}{'_' + suffix if suffix else ''}.yaml"


def printable(name: str) -> str:
    """A file name that may be written down: bytes that are not UTF-8 are spelled by their number."""
    return name.encode("utf-8", "backslashreplace").decode()


# How the names of message files end; the first is what Parley writes.
MESSAGE_ENDINGS = (".yaml", ".yml")


def is_message_file(name: str) -> bool:
    """Any *.yaml and *.yml counts, dot files included: facts never come from the name."""
    return name.endswith(MESSAGE_ENDINGS)
