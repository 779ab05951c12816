"""How each error is answered, on every surface: one table, and what of an error its caller may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors import errors
from parley.domain.errors import team as team_errors
from parley.domain.errors.rules import PolicyUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.domain.errors.errors import ParleyError, Problem

INTERNAL = 500
# The nearest class in the tree of errors decides. A surface that has other codes adds a column.
STATUS: dict[type[ParleyError], int] = {
    errors.Invalid: 422,
    errors.Unreadable: 422,
    errors.TooLarge: 413,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Forbidden: 403,
    errors.Unavailable: 503,
    errors.DiskFull: 507,
    team_errors.Malformed: 400,
    team_errors.BadCursor: 400,
    team_errors.UnsupportedMedia: 415,
    team_errors.Gone: 410,
    team_errors.Unauthorized: 401,
    team_errors.VersionRequired: 428,
    team_errors.RateLimited: 429,
    team_errors.AskTimeout: 504,
}
_SERVER_FAULTS = frozenset({503, 507})


class Refusal(NamedTuple):
    """What a caller is told of an error."""

    status: int
    code: str
    detail: str
    problems: tuple[Problem, ...] = ()
    facts: Mapping[str, object] = {}


def status_of(error: ParleyError) -> int:
    """The status of an error; `INTERNAL` for one that is not in the table."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), INTERNAL)


def refusal_of(error: ParleyError) -> Refusal:
    """What the caller is told.

    The text of a fault of the machine names its files, so only the operator reads it. A policy is not one of them.
    """
    status = status_of(error)
    if status == INTERNAL:
        return Refusal(INTERNAL, "internal", "something went wrong inside; the log has the details")
    hides = status in _SERVER_FAULTS and not isinstance(error, PolicyUnavailable)
    detail = summary_of(error) if hides else str(error)
    return Refusal(status, error.code, detail, tuple(error.problems), error.facts)


def summary_of(error: ParleyError) -> str:
    """What an error of this class says by default."""
    return (type(error).__doc__ or "").strip()
