"""Errors to exit codes: one table, part of the interface."""

from __future__ import annotations

from parley.domain.errors import (
    BadConfig,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ParleyError,
    Unavailable,
    Undelivered,
)

OK = 0
FOUND_PROBLEMS = 1
INTERNAL = 70
INTERRUPTED = 130

# The first class that fits wins, so the special stands before the general.
EXIT_CODES: tuple[tuple[type[ParleyError], int, str], ...] = (
    (BadConfig, 78, "a configuration file or variable cannot be used"),
    (Invalid, 2, "wrong usage or input; the line names everything that is wrong"),
    (NotFound, 3, "no such project, agent or message, or nobody said who is speaking"),
    (Conflict, 4, "the state does not allow it: held by another reader, lease lost, name or id taken"),
    (Undelivered, 5, "some recipients did not get the message; the others have it once"),
    (Forbidden, 6, "the operating system or a rule does not allow it"),
    (Unavailable, 7, "disk full, inbox full or storage failing; trying again later may help"),
)


def exit_code(error: ParleyError) -> int:
    """What a command exits with after `error`."""
    return next((code for kind, code, _ in EXIT_CODES if isinstance(error, kind)), INTERNAL)
