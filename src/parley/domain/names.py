"""Names, ids and file names: what they look like and which are refused."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from parley.domain.errors.errors import BadAgentName, BadName, BadProjectName

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
# Device names that another file system would open instead of a folder.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{stem}{digit}" for stem in ("com", "lpt") for digit in "123456789"}
)

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NOISE = 27
# The random part at the end of our ids.
_ENDING_CHARS = 4
_REF_CHARACTERS = _CHARACTERS | {"/"}

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
    """A hint at the word that was probably meant, "" when nothing known comes close."""
    close = near_misses(name, candidates, 1)
    return f"did you mean {close[0]}?" if close else ""


def suggestion(names: Sequence[str]) -> str:
    """A hint at names that may have been meant, "" without any. Names are quoted, since they may have spaces."""
    quoted = [f'"{name}"' for name in names]
    return f"did you mean {' or '.join(quoted)}?" if quoted else ""


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
    return [close[match] for match in get_close_matches(folded, close, n=limit, cutoff=0.65)]


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


def is_message_ref(text: str) -> bool:
    """Whether `text` has the form of a message's id, of its end (a8f3, [a8f3], claude-a8f3) or of its file name."""
    ref = bare_ref(text)
    if not ref or not _REF_CHARACTERS.issuperset(ref):
        return False
    ending = ref.rpartition("-")[2]
    is_ending = len(ending) == _ENDING_CHARS and set(_DIGITS).issuperset(ending)
    return is_ending or is_whole_id(ref) or is_message_file(ref)


def is_whole_id(text: str) -> bool:
    """Whether `text` has the form of a whole message id."""
    return text.startswith("msg-") and _CHARACTERS.issuperset(text)


def bare_ref(text: str) -> str:
    """A reference to a message without the brackets in which lists print it: [a8f3]."""
    return text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text


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
