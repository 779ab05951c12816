"""The exit codes of commands; those of errors are one table in `domain.errors.exits`."""

from __future__ import annotations

from parley.domain.errors.exits import FOUND_PROBLEMS, HELD, INTERNAL, LOG_CHANGED, UNSUPPORTED, exit_code, exit_codes

__all__ = [
    "FOUND_PROBLEMS",
    "HELD",
    "INTERNAL",
    "INTERRUPTED",
    "LOG_CHANGED",
    "NO_MESSAGE",
    "OK",
    "UNSUPPORTED",
    "exit_code",
    "exit_codes",
]

OK = 0
# Not a failure: there is no message to claim or to show.
NO_MESSAGE = 14
INTERRUPTED = 130
