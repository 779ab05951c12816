"""Agents that are killed or stopped while messages arrive: nothing is missed, and only what was not on record comes
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fault.sdk.account import Account
from tests.fault.sdk.crew import AgentProcess, lines, on_record
from tests.fault.sdk.scene import Scene, off_loop, scene
from tests.rigs.team import in_loop

pytestmark = [pytest.mark.fault, pytest.mark.slow]

_SECONDS = 0.03


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rigs.team.PATIENCE", 600.0)


async def storm(
    play: Scene,
    count: int,
    times: int,
    end: Callable[[AgentProcess], object],
    *,
    seconds: float = _SECONDS,
    rate: float = 100.0,
) -> int:
    """So many notices at least, while the agent is ended and started again so many times; how many there were.

    It is ended a while after it has put more on record. Each notice takes it some seconds; in one come so many.
    """
    [agent] = play.agents
    over, n = asyncio.Event(), 0

    async def disturbing() -> None:
        for _ in range(times):
            known = len(on_record(play.journal))
            while len(on_record(play.journal)) == known:  # noqa: ASYNC110  # another process does it
                await asyncio.sleep(0.02)
            await asyncio.sleep(play.chance.uniform(0.0, 0.4))
            await off_loop(lambda: end(agent))
            await off_loop(agent.start)
        over.set()

    async def telling() -> None:
        nonlocal n
        while n < count or not over.is_set():
            await play.tell(n, agent.name, seconds=seconds)
            n += 1
            await asyncio.sleep(play.chance.expovariate(rate))

    await asyncio.gather(disturbing(), telling())
    return n


async def settled(play: Scene, seconds: float = 120.0) -> Account:
    """What the journal says once it says no more."""
    [agent] = play.agents
    try:
        async with asyncio.timeout(seconds):
            account = await play.dealt_with()
    except TimeoutError:
        account = await play.closed()
    await off_loop(agent.stop)
    return await _fresh(play, account)


async def _fresh(play: Scene, account: Account) -> Account:
    return await Account(account.asked, account.told).close(play.client, play.channel_id, play.journal)


def late_repeats(journal: Path) -> list[str]:
    """What was called again although it was on record."""
    kept: set[str] = set()
    found = []
    for line in lines(journal):
        kept.update(line.get("on_record", ()))
        found += [line["id"]] if line.get("id") in kept else []
    return found


@in_loop
async def _killed(folder: Path, count: int, kills: int) -> None:
    async with scene(folder) as play:
        count = await storm(play, count, kills, AgentProcess.kill)
        account = await settled(play)
    repeated = sum(account.begun.values()) - len(account.begun)
    print(f"{kills} kills, {repeated} repeated of {count}")

    assert account.problems() == []
    assert len(account.ended) == count
    assert late_repeats(folder / "journal") == []


def test_an_agent_that_is_killed_misses_nothing_and_repeats_only_what_was_not_on_record(
    tmp_path: Path, full: bool
) -> None:
    _killed(tmp_path / "scene", *((1_000, 40) if full else (200, 6)))


@in_loop
async def _stopped(folder: Path, count: int, stops: int) -> None:
    async with scene(folder) as play:
        count = await storm(play, count, stops, AgentProcess.stop)
        account = await settled(play)

    assert account.problems() == []
    assert account.repeated() == []
    assert len(account.ended) == count


def test_an_agent_that_is_stopped_is_called_with_each_message_exactly_once(tmp_path: Path, full: bool) -> None:
    _stopped(tmp_path / "scene", *((1_000, 40) if full else (200, 6)))


@in_loop
async def _found_out(folder: Path, mutant: str, end: Callable[[AgentProcess], object]) -> None:
    async with scene(folder, mutant=mutant) as play:
        # What it is called with lasts for a while: it is always in the midst of something.
        await storm(play, 100, 6, end, seconds=0.2, rate=30.0)
        account = await settled(play, 5.0)

    assert account.problems() or (end is AgentProcess.stop and account.repeated())


@pytest.mark.parametrize(
    ("mutant", "end"),
    [
        ("on_record_when_taken", AgentProcess.kill),
        ("done_before_dealt_with", AgentProcess.kill),
        ("never_on_record", AgentProcess.stop),
    ],
)
def test_an_agent_that_keeps_a_wrong_record_is_found_out(
    tmp_path: Path, mutant: str, end: Callable[[AgentProcess], object]
) -> None:
    _found_out(tmp_path / "scene", mutant, end)
