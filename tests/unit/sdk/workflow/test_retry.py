from __future__ import annotations

import pytest

from parley.domain.errors.errors import Conflict, Invalid, ParleyError, Unavailable
from parley.domain.errors.team import RateLimited, VersionMismatch
from parley.sdk.workflow.retry import retry_until_accepted
from tests.team_rig import in_loop


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
