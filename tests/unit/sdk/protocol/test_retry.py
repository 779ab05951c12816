"""Waiting for a server: as long as it is away, and no longer when it refuses."""

from __future__ import annotations

import pytest

from parley.domain.errors.errors import NotFound, ParleyError, Unavailable
from parley.domain.errors.team import RateLimited
from parley.sdk.protocol.retry import retry_while_unavailable
from tests.team_rig import in_loop


def answering(*answers: ParleyError | str) -> list[ParleyError | str]:
    return list(answers)


@in_loop
async def test_what_may_go_well_later_is_done_again_and_told_each_time() -> None:
    answers = answering(Unavailable("away"), RateLimited("busy"), ParleyError("broken"), "done")
    told: list[ParleyError] = []

    async def action() -> str:
        answer = answers.pop(0)
        if isinstance(answer, ParleyError):
            raise answer
        return answer

    assert await retry_while_unavailable(action, told.append, 0) == "done"
    assert [one.message for one in told] == ["away", "busy", "broken"]


@in_loop
async def test_what_is_refused_is_raised_at_once() -> None:
    told: list[ParleyError] = []

    async def action() -> None:
        raise NotFound("no such thing")

    with pytest.raises(NotFound):
        await retry_while_unavailable(action, told.append, 0)
    assert told == []
