"""One line instead of a traceback, for an error that ends a program of agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from parley.domain.errors.errors import ParleyError


def print_if_uncaught(error: ParleyError) -> None:
    """Print this error in one line when nothing catches it, and exit with its code.

    Whoever catches it notices nothing. At a prompt the line is printed, and the prompt stays.
    """
    previous = sys.excepthook

    def hook(kind: type[BaseException], raised: BaseException, trace: TracebackType | None) -> None:
        if raised is not error:
            previous(kind, raised, trace)
            return
        sys.stderr.write(_line(error))
        if not hasattr(sys, "ps1"):
            from parley.domain.errors.exits import exit_code

            sys.exit(exit_code(error))

    sys.excepthook = hook


def _line(error: ParleyError) -> str:
    text = "".join([sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in str(error)])
    return f"parley: {error.code}: {text}\n".encode("utf-8", "backslashreplace").decode()
