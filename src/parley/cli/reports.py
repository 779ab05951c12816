"""What commands say on standard error: errors with hints, warnings and notes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.cli.output import safe
from parley.cli.width import wrap
from parley.settings import columns, wants_colour

if TYPE_CHECKING:
    from parley.domain.errors.errors import ParleyError

_COLOURS = {"error": "31", "warning": "33", "note": "36", "hint": "36", "interrupted": "33"}
_SUGGESTION = "did you mean "


def report_error(error: ParleyError, about: str = "") -> None:
    """Print an error: what happened, which code it has, and on a line of its own what to do.

    A suggestion is part of the sentence: `error: no channel "gaols" in intent "Launch" (did you mean "goals"?)`.
    """
    suggestion, rest = "", error.hint
    if rest.startswith(_SUGGESTION):
        suggestion, mark, rest = rest.partition("?")
        suggestion = f" ({suggestion}{mark})"
    hint = rest.strip(" ;")
    hint = f"see {hint[5:]}" if hint.startswith("see: ") else hint
    _say("error", f"{about}{error.message}{suggestion} [{error.code}]", hint)


def report_failure(text: str, code: str, hint: str = "") -> None:
    """Print an error that is not an exception of Parley."""
    _say("error", f"{text} [{code}]", hint)


def warn(text: str, hint: str = "") -> None:
    """Print a warning."""
    _say("warning", text, hint)


def note(text: str, hint: str = "") -> None:
    """Print something that is good to know."""
    _say("note", text, hint)


def say_interrupted(text: str) -> None:
    """Print what became of the work that Ctrl-C ended."""
    _say("interrupted", text, "")


def _say(word: str, text: str, hint: str) -> None:
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
    if sys.stderr is None:
        return
    lines = [*_lines(word, text), *(_lines("hint", hint) if hint else ())]
    printed = "".join(f"{line}\n" for line in lines)
    sys.stderr.write(printed.encode("utf-8", "backslashreplace").decode())
    sys.stderr.flush()


def _lines(word: str, text: str) -> list[str]:
    """A sentence behind its word; where the width is limited in lines of whole words."""
    sentence, width = f"{word}: {safe(text)}", _width()
    lines = wrap(sentence, width, "  ") if width else [sentence]
    if wants_colour(is_terminal=sys.stderr.isatty()):
        lines[0] = f"\x1b[{_COLOURS[word]}m{word}:\x1b[0m{lines[0][len(word) + 1 :]}"
    return lines


def _width() -> int:
    """The columns of the terminal that standard error goes to, or those that COLUMNS names; 0 without both."""
    try:
        return columns() or os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0
