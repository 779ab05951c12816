"""What goes on beside the answers."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from parley.app.team import background, sweep
from parley.app.team.hub import Team
from parley.domain.errors import DiskFull
from parley.domain.post import PostState
from tests.team_rig import Rig, with_rig


@with_rig
async def test_the_sweep_goes_on_after_a_disk_that_was_full(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SWEEP_SECONDS", 0.0)
    passes: list[int] = []
    enough = asyncio.Event()

    async def failing(team: Team) -> int:
        assert team is rig.team
        passes.append(len(passes))
        if len(passes) > 2:
            enough.set()
        raise DiskFull

    monkeypatch.setattr(sweep, "sweep", failing)
    task = asyncio.ensure_future(background.sweep_forever(rig.team))

    await asyncio.wait_for(enough.wait(), 5)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    assert len(passes) > 2


@with_rig
async def test_what_is_overdue_expires_by_itself(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SWEEP_SECONDS", 0.001)
    await rig.intent()
    await rig.channel()
    post = await rig.say("alice", to="bob", expires_at=rig.clock.at + timedelta(seconds=1))
    task = asyncio.ensure_future(background.sweep_forever(rig.team))

    rig.clock.pass_by(seconds=2)
    async with asyncio.timeout(5):
        while (found := await rig.store.post("default", post.id)) and found.state is not PostState.EXPIRED:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    assert found is not None
    assert found.state is PostState.EXPIRED
