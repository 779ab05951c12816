"""The exit code of each error, for commands and for programs of agents. Scripts rely on these codes."""

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

FOUND_PROBLEMS = 1
# Not a failure: the message is held for approval.
HELD = 9
# Not wrong usage: what was verified is not what was written.
LOG_CHANGED = 13
# Not wrong: the file is for a tool that can do more.
UNSUPPORTED = 15
INTERNAL = 70


def exit_codes() -> tuple[tuple[type[ParleyError], int, str], ...]:
    """Error, exit code and meaning. The first matching class wins, so subclasses come first."""
    # Imported here, so that a command that succeeds does not load them.
    from parley.domain.errors.rules import LogChanged, MessageHeld
    from parley.domain.errors.team import (
        AgentFailed,
        AskTimeout,
        Gone,
        RateLimited,
        Unauthorized,
        UnsafeMode,
        VersionRequired,
    )
    from parley.domain.errors.workflow import (
        WorkflowAbandoned,
        WorkflowFailed,
        WorkflowTimedOut,
        WorkflowUnsupported,
    )

    return (
        (AgentFailed, FOUND_PROBLEMS, "the agent that was asked answered with an error"),
        (BadConfig, 78, "a configuration file or variable cannot be used"),
        (
            UnsafeMode,
            78,
            "other users could read the server's files, or the server would be reachable without encryption",
        ),
        (
            LogChanged,
            LOG_CHANGED,
            "a log, an export or a proof was changed or is incomplete",
        ),
        (WorkflowUnsupported, UNSUPPORTED, "the workflow file uses features that Parley does not have"),
        (Invalid, 2, "wrong usage or input; the message names every error"),
        (VersionRequired, 2, "the server needs the version of the record that is changed"),
        (NotFound, 3, "project, agent or message not found, or no sender given"),
        (Gone, 3, "it no longer exists: an agent that left, messages that were evicted"),
        (Conflict, 4, "the current state does not allow it: claimed by another reader, lease lost, name or id taken"),
        (Undelivered, 5, "some recipients did not get the message; the others have it, once"),
        (Forbidden, 6, "the operating system or a policy does not allow it"),
        (Unauthorized, 6, "the key is missing or not valid"),
        (Unavailable, 7, "disk or inbox full, storage error, or server not reachable; retry later"),
        (RateLimited, 7, "too many requests; retry later"),
        (AskTimeout, 8, "the question was not answered, or the message has not come as far as `--until` says, in time"),
        (MessageHeld, HELD, "the message is held for approval and is sent when a person approves it"),
        (WorkflowTimedOut, 11, "the workflow timed out"),
        (WorkflowAbandoned, 12, "the intent of the workflow was abandoned by someone else"),
        (WorkflowFailed, 10, "a step of the workflow failed; its intent is abandoned"),
    )


def exit_code(error: ParleyError) -> int:
    """Return the exit code for an error."""
    return next((code for kind, code, _ in exit_codes() if isinstance(error, kind)), INTERNAL)
