"""Waiting for a server: as long as it is away, and no longer when it refuses."""

from __future__ import annotations

import pytest

from parley.domain.errors.errors import Conflict, Invalid, NotFound, ParleyError, Unavailable
from parley.domain.errors.team import RateLimited, VersionMismatch
from parley.sdk.protocol.retry import retry_until_accepted, retry_while_unavailable
from tests.rigs.team import in_loop


def answering(*answers: ParleyError | str) -> list[ParleyError | str]:
    return list(answers)


@in_loop
async def test_what_may_go_well_later_is_done_again_and_told_each_time() -> None:
    answers = answering(Unavailable("away"), RateLimited("busy"), ParleyError("broken"), "done")
    retried: list[ParleyError] = []

    async def action() -> str:
        answer = answers.pop(0)
        if isinstance(answer, ParleyError):
            raise answer
        return answer

    assert await retry_while_unavailable(action, retried.append, 0) == "done"
    assert [error.message for error in retried] == ["away", "busy", "broken"]


@in_loop
async def test_what_is_refused_is_raised_at_once() -> None:
    retried: list[ParleyError] = []

    async def action() -> None:
        raise NotFound("no such thing")

    with pytest.raises(NotFound):
        await retry_while_unavailable(action, retried.append, 0)
    assert retried == []


@in_loop
async def test_a_server_that_is_away_or_busy_is_asked_again_until_it_answers() -> None:
    answers: list[ParleyError | str] = ["done", Conflict(), RateLimited(), Unavailable(), Unavailable()]

    async def ask() -> str:
        answer = answers.pop()
        if isinstance(answer, ParleyError):
            raise answer
        return answer

    assert await retry_until_accepted(ask, pause=0) == "done"
    assert answers == []


@pytest.mark.parametrize("error", [Invalid, VersionMismatch])
@in_loop
async def test_what_a_server_refuses_is_not_asked_again(error: type[ParleyError]) -> None:
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        raise error("no")

    with pytest.raises(error):
        await retry_until_accepted(ask, pause=0)

    assert asked == 1
