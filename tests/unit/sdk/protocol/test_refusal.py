"""A refusal comes back as the error that it was."""

from __future__ import annotations

import json

import pytest

from parley.domain.errors import errors
from parley.domain.errors import team as team_errors
from parley.domain.errors.errors import Invalid, ParleyError, Problem
from parley.sdk.protocol.refusal import is_temporary, refusal
from parley.surfaces.http.problem import problem_of

KINDS = [
    kind
    for module in (errors, team_errors)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, ParleyError)
    # A mailbox's own, and the SDK's: they never leave a server.
    and kind not in (ParleyError, errors.Undelivered, errors.LeaseLost, team_errors.AgentFailed)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_the_way_there_and_back(kind: type[ParleyError]) -> None:
    answer = problem_of(kind("what happened"))

    back = refusal(answer.status, json.loads(answer.body))

    assert type(back) is kind
    # What the machine said to the server may name its files: it stays there.
    hidden = issubclass(kind, errors.Unavailable)
    assert back.message == ((kind.__doc__ or "").strip() if hidden else "what happened")


def test_problems_come_along() -> None:
    error = Invalid.because([Problem("required", "to", "is missing"), Problem("invalid", "payload", "is too deep")])

    back = refusal(422, json.loads(problem_of(error).body))

    assert back.problems == error.problems


def test_facts_come_along() -> None:
    error = team_errors.VersionMismatch("it changed", facts={"current_version": 3})

    assert refusal(409, json.loads(problem_of(error).body)).facts == {"current_version": 3}


def test_a_limited_caller_learns_when_to_try_again() -> None:
    error = team_errors.RateLimited(facts={"retry_after": 7})
    answer = problem_of(error)

    assert refusal(429, json.loads(answer.body), "7").facts["retry_after"] == 7


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, team_errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, team_errors.Gone),
        (418, Invalid),
        (429, team_errors.RateLimited),
        (500, ParleyError),
        (503, errors.Unavailable),
        (504, errors.Unavailable),
        (507, errors.Unavailable),
    ],
)
@pytest.mark.parametrize("document", [{"code": "of_tomorrow", "detail": "a newer rule"}, {"detail": [1]}, None, "text"])
def test_a_code_of_tomorrow_is_known_by_its_status(status: int, kind: type[ParleyError], document: object) -> None:
    back = refusal(status, document)

    assert type(back) is kind
    assert back.message


@pytest.mark.parametrize(
    ("status", "may"), [(500, True), (502, True), (504, True), (429, True), (404, False), (422, False)]
)
def test_what_a_server_or_a_gateway_fails_with_may_go_well_later(status: int, *, may: bool) -> None:
    assert is_temporary(refusal(status, None)) is may
