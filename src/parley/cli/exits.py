"""Errors to exit codes: one table, part of the interface."""

from __future__ import annotations

from parley.domain.errors.errors import (
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
# Nothing failed: the message waits for a person, and goes out when that person says so.
HELD = 9
INTERNAL = 70
INTERRUPTED = 130


def exit_codes() -> tuple[tuple[type[ParleyError], int, str], ...]:
    """Error, exit code and meaning. The first class that fits wins, so the special stands before the general."""
    # What only a server refuses is not loaded by a command that succeeds.
    from parley.domain.errors.rules import MessageHeld
    from parley.domain.errors.team import AskTimeout, Gone, RateLimited, Unauthorized, UnsafeMode, VersionRequired
    from parley.domain.errors.workflow import WorkflowAbandoned, WorkflowFailed, WorkflowTimedOut

    return (
        (BadConfig, 78, "a configuration file or variable cannot be used"),
        (UnsafeMode, 78, "others could read the server's files, or reach it in a way that is not safe"),
        (Invalid, 2, "wrong usage or input; the line names everything that is wrong"),
        (VersionRequired, 2, "the server wants to know which version is changed"),
        (NotFound, 3, "no such project, agent or message, or nobody said who is speaking"),
        (Gone, 3, "it is no longer there: an agent that left, messages that are no longer kept"),
        (Conflict, 4, "the state does not allow it: held by another reader, lease lost, name or id taken"),
        (Undelivered, 5, "some recipients did not get the message; the others have it once"),
        (Forbidden, 6, "the operating system or a rule does not allow it"),
        (Unauthorized, 6, "the server does not know the key"),
        (Unavailable, 7, "disk or inbox full, storage failing, no server; trying again later may help"),
        (RateLimited, 7, "too many requests; trying again later helps"),
        (AskTimeout, 8, "nobody answered the question in time"),
        (MessageHeld, HELD, "the message waits for a person, and goes on when that person says so"),
        (WorkflowTimedOut, 11, "the workflow did not end in time"),
        (WorkflowAbandoned, 12, "somebody gave the workflow's intent up"),
        (WorkflowFailed, 10, "a step of the workflow failed; its intent is abandoned"),
    )


def exit_code(error: ParleyError) -> int:
    """What a command exits with after `error`."""
    return next((code for kind, code, _ in exit_codes() if isinstance(error, kind)), INTERNAL)
