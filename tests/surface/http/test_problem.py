"""Refusals as problem documents: one status for each error, and the fields that clients read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from parley.domain.directory.callers import KeyKind
from parley.domain.errors import errors
from parley.domain.errors import team as team_errors
from parley.domain.errors.errors import Invalid, ParleyError, Problem, Unavailable
from parley.domain.errors.rules import PolicyUnavailable
from parley.domain.errors.team import CircularWait, NameTaken, RateLimited, VersionMismatch
from parley.surfaces.entrance.refusals import status_of
from parley.surfaces.http.problem import problem, problem_of
from tests.rigs.team import CHANNEL, LiveServer, with_server


def classes(root: type[ParleyError] = ParleyError) -> Iterator[type[ParleyError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from classes(kind)


def test_every_error_of_a_server_has_a_status() -> None:
    # Of those, only a client raises AgentFailed.
    of_server = [
        one for one in classes() if one.__module__ == team_errors.__name__ and one is not team_errors.AgentFailed
    ]

    assert {one.__name__: status_of(one()) for one in of_server if status_of(one()) == 500} == {}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.Invalid, 422),
        (errors.DuplicateKey, 422),
        (errors.TooDeep, 422),
        (errors.TooLarge, 413),
        (errors.NotFound, 404),
        (errors.Stale, 409),
        (errors.Forbidden, 403),
        (errors.Unavailable, 503),
        (errors.DiskFull, 507),
        (team_errors.Malformed, 400),
        (team_errors.BadCursor, 400),
        (team_errors.UnsupportedMedia, 415),
        (team_errors.KeyReused, 422),
        (team_errors.ChannelClosed, 409),
        (team_errors.CursorEvicted, 410),
        (team_errors.Unauthorized, 401),
        (team_errors.RateLimited, 429),
        (team_errors.AskTimeout, 504),
        (errors.ParleyError, 500),
    ],
)
def test_an_error_has_the_status_of_its_nearest_class(error: type[ParleyError], status: int) -> None:
    assert status_of(error()) == status


def test_a_refusal_carries_what_people_programs_and_the_sdk_read() -> None:
    refused = Invalid.because([Problem("too_large", "metadata", "at most 16384 bytes")])

    response = problem_of(refused)

    assert (response.status, response.content_type) == (422, b"application/problem+json")
    assert json.loads(response.body) == {
        "type": "urn:parley:problem:invalid",
        "title": "Unprocessable Entity",
        "status": 422,
        "code": "invalid",
        "detail": "metadata: at most 16384 bytes",
        "message": "metadata: at most 16384 bytes",
        "errors": [{"code": "too_large", "field": "metadata", "detail": "at most 16384 bytes"}],
    }


def test_a_version_conflict_says_the_current_version() -> None:
    response = problem_of(VersionMismatch(facts={"current_version": 7}))

    assert json.loads(response.body)["current_version"] == 7


@pytest.mark.parametrize("error", [RateLimited, Unavailable])
def test_who_comes_too_often_or_at_a_bad_time_is_told_when_to_come_back(error: type[ParleyError]) -> None:
    assert dict(problem_of(error(facts={"retry_after": 5})).headers)[b"Retry-After"] == b"5"
    assert dict(problem_of(error()).headers)[b"Retry-After"] == b"1"
    assert b"Retry-After" not in dict(problem_of(NameTaken()).headers)


@pytest.mark.parametrize(
    "error",
    [
        NameTaken("there is a channel called release-notes already", facts={"channel_id": "chan_1"}),
        NameTaken("RELEASE", facts={"channel_id": "chan_1", "name": "Please"}),
        NameTaken("taken", facts={"channel_id": "chan_1", "name": "lease"}),
        NameTaken("taken", facts={"channel_id": "chan_1"}, problems=(Problem("x", "lease", "y"),)),
    ],
)
def test_a_conflict_never_spells_the_word_that_the_sdk_misreads(error: NameTaken) -> None:
    response = problem_of(error)

    assert b"lease" not in response.body.lower()
    document = json.loads(response.body)
    assert (document["code"], document["channel_id"]) == ("name_taken", "chan_1")


def test_a_conflict_that_spells_nothing_of_the_kind_says_everything() -> None:
    document = json.loads(problem_of(CircularWait("a -> b -> a", facts={"agents": ["a", "b", "a"]})).body)

    assert (document["detail"], document["agents"]) == ("a -> b -> a", ["a", "b", "a"])


def test_what_went_wrong_inside_is_not_told() -> None:
    response = problem_of(ParleyError("the secret"))

    assert (response.status, b"secret" in response.body) == (500, False)


def test_that_there_is_no_policy_is_told_with_what_to_do_and_what_is_wrong_with_the_machine_is_not() -> None:
    missing = problem_of(PolicyUnavailable("there is no policy", hint="put one into force"))
    broken = problem_of(errors.Unavailable("/srv/secret cannot be read"))

    assert (missing.status, json.loads(missing.body)["detail"]) == (503, "there is no policy (put one into force)")
    assert (broken.status, b"secret" in broken.body) == (503, False)


def test_a_problem_of_any_status_has_a_title() -> None:
    assert json.loads(problem(507, "disk_full", "no room").body)["title"] == "Insufficient Storage"


@pytest.mark.parametrize(
    ("path", "thing"),
    [
        ("/intents/nope", "intent"),
        ("/channels/nope/messages", "channel"),
        (f"/channels/{CHANNEL}/messages/nope", "message"),
        ("/approvals/nope", "approval"),
        ("/exchanges/nope", "exchange"),
        ("/tasks/nope", "task"),
        ("/policies/team/nope", "policy"),
    ],
)
@with_server
async def test_what_was_not_found_is_a_fact(server: LiveServer, path: str, thing: str) -> None:
    answer = await (await server.client("", KeyKind.ADMIN)).get(path)

    assert (answer.status, answer.code, answer.json["missing"]) == (404, "not_found", thing)
