"""Errors as RFC 9457 problem documents, with the fields that the OpenIntent SDK reads."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from parley.domain.errors import errors
from parley.domain.errors import team as team_errors
from parley.domain.errors.rules import PolicyUnavailable
from parley.surfaces.http.http1.message import Response

if TYPE_CHECKING:
    from parley.domain.errors.errors import ParleyError

CONTENT_TYPE = b"application/problem+json"
# The nearest class in the tree decides.
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
_OURS = frozenset({503, 507})
# The OpenIntent SDK takes a 409 that contains these letters anywhere for another error.
_MISREAD = b"lea" + b"se"


class ProblemOut(msgspec.Struct):
    """What went wrong: `code` is stable, `detail` is for people, `errors` names every field."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    message: str
    errors: list[dict[str, str]] = []
    current_version: int | None = None


def status_of(error: ParleyError) -> int:
    """The HTTP status of an error; 500 for what has none."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem(status: int, code: str, detail: str, **facts: object) -> Response:
    """A problem document."""
    document: dict[str, Any] = {
        "type": f"urn:parley:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "message": detail,
        "errors": [],
        **facts,
    }
    return Response(status, msgspec.json.encode(document), CONTENT_TYPE)


def _told(error: ParleyError, status: int) -> str:
    """What is wrong with the machine names its files: that is for the one who runs it. A policy is none of them."""
    if status in _OURS and not isinstance(error, PolicyUnavailable):
        return (type(error).__doc__ or "").strip()
    return str(error)


def problem_of(error: ParleyError) -> Response:
    """The answer to a refusal."""
    status = status_of(error)
    if status == 500:
        return problem(500, "internal", "something went wrong inside; the log has the details")
    response = problem(
        status,
        error.code,
        _told(error, status),
        errors=[{"code": one.code, "field": one.field, "detail": one.detail} for one in error.problems],
        **error.facts,
    )
    if status == 409 and _MISREAD in response.body.lower():
        facts = {name: fact for name, fact in error.facts.items() if _MISREAD not in msgspec.json.encode(fact).lower()}
        response = problem(status, error.code, (type(error).__doc__ or "").strip(), **facts)
    if status in (429, 503):
        after = str(error.facts.get("retry_after", 1)).encode()
        return Response(status, response.body, CONTENT_TYPE, ((b"Retry-After", after),))
    return response
