"""Errors as RFC 9457 problem documents, with the fields that the OpenIntent SDK reads."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from parley.surfaces.entrance.refusals import refusal_of, summary_of
from parley.surfaces.http.http1.message import Response

if TYPE_CHECKING:
    from parley.domain.errors.errors import ParleyError

CONTENT_TYPE = b"application/problem+json"
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


def problem_of(error: ParleyError) -> Response:
    """The answer to a refusal."""
    refusal = refusal_of(error)
    status = refusal.status
    problems = [{"code": flaw.code, "field": flaw.field, "detail": flaw.detail} for flaw in refusal.problems]
    response = problem(status, refusal.code, refusal.detail, errors=problems, **refusal.facts)
    if status == 409 and _MISREAD in response.body.lower():
        facts = {name: fact for name, fact in error.facts.items() if _MISREAD not in msgspec.json.encode(fact).lower()}
        response = problem(status, error.code, summary_of(error), **facts)
    if status in (429, 503):
        after = str(error.facts.get("retry_after", 1)).encode()
        return Response(status, response.body, CONTENT_TYPE, ((b"Retry-After", after),))
    return response
