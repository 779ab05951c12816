"""A server that is killed while agents ask, tell and answer: nothing acknowledged is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from parley.domain.errors.errors import Unavailable
from tests.fault.sdk.account import Account, Asked
from tests.fault.sdk.scene import Scene, off_loop, scene
from tests.rigs.team import in_loop

pytestmark = [pytest.mark.fault, pytest.mark.slow]

_ASKERS = 8
# Longer than it takes in all: a question whose time has run out is no longer shown in its channel.
_LONG = 900.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rigs.team.PATIENCE", 1_200.0)


async def storm(play: Scene, kills: int, patience: float = _LONG) -> Account:
    """All talk until the server has been killed so many times."""
    over, numbers = asyncio.Event(), iter(range(10**6))

    async def talking() -> None:
        while not over.is_set():
            n, to = next(numbers), play.chance.choice(play.agents).name
            await play.tell(n, to)
            await play.ask(n, play.chance.choice(["echo", "raise"]), to, patience)

    async def progress(answers: int) -> None:
        """Until so many more have an answer, or a while has passed: a broken server may give none."""
        wanted = len(_answered(play)) + answers
        for _ in range(500 if patience < _LONG else 6_000):
            if len(_answered(play)) >= wanted:
                return
            await asyncio.sleep(0.01)

    async def killing() -> None:
        for _ in range(kills):
            await progress(play.chance.randint(5, 40))
            await off_loop(play.server.kill)
            await off_loop(play.server.start)
        await progress(20)
        over.set()

    await asyncio.gather(killing(), *(talking() for _ in range(_ASKERS)))
    try:
        async with asyncio.timeout(min(patience, 60.0)):
            return await play.dealt_with()
    except TimeoutError:
        return await play.closed()


def _answered(play: Scene) -> list[Asked]:
    return [one for one in play.account.asked if one.answer is not None]


@in_loop
async def _played(folder: Path, kills: int) -> None:
    async with scene(folder, 2) as play:
        account = await storm(play, kills)
    ended = Counter("answer" if one.answer is not None else type(one.error).__name__ for one in account.asked)
    print(f"{kills} kills, {len(account.told)} told; {dict(ended)}")

    assert account.problems() == []
    assert account.repeated() == []
    assert all(one.answer is not None or isinstance(one.error, Unavailable) or one.timed_out for one in account.asked)
    assert ended["answer"] > 5 * kills


def test_nothing_is_lost_or_doubled_when_the_server_is_killed(tmp_path: Path, full: bool) -> None:
    _played(tmp_path / "scene", 50 if full else 5)


@in_loop
async def _found_out(folder: Path, mutant: str, rule: str) -> None:
    found: set[str] = set()
    for seed in range(1, 6):  # a kill has to come at the right moment; mostly the first do
        # One agent only: what comes next is mostly for it.
        async with scene(folder / str(seed), 1, server_mutant=mutant, seed=seed) as play:
            account = await storm(play, 6, 8.0)
        found |= {line.split(":")[0] for line in account.problems()}
        # No agent dies here: what is not answered has not reached one.
        found |= {"dealt with" for one in account.asked if one.timed_out}
        if rule in found:
            return

    assert rule in found


@pytest.mark.parametrize(
    ("mutant", "rule"),
    [("forget_idempotency", "asked once"), ("resume_too_far", "dealt with")],
)
def test_a_broken_server_is_found_out(tmp_path: Path, mutant: str, rule: str) -> None:
    _found_out(tmp_path / "scene", mutant, rule)
