"""Questions to agents that die, answer late, answer twice, raise, or never answer: each ends exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.fault.sdk.account import Account
from tests.fault.sdk.door import NO_TIME
from tests.fault.sdk.scene import Scene, disturbed, off_loop, scene
from tests.rigs.team import in_loop

pytestmark = [pytest.mark.fault, pytest.mark.slow]

# How many of a hundred questions want what; and how long their asker waits.
_WANTED = {"echo": 50, "raise": 14, "twice": 10, "late": 12, "never": 10, "die": 4}
_HURRY = {"late": 0.3, "never": 0.3}
# Longer than it takes in all: a question whose time has run out is no longer shown in its channel.
_LONG = 900.0
_AGENTS, _ASKERS = 3, 24


def questions(play: Scene, count: int) -> list[tuple[int, str, str]]:
    """Number, wish and addressee of each."""
    wishes = [do for do, share in _WANTED.items() for _ in range(count * share // 100)]
    wishes += ["echo"] * (count - len(wishes))
    play.chance.shuffle(wishes)
    return [(n, do, play.chance.choice(play.agents).name) for n, do in enumerate(wishes)]


async def killed_and_restarted(play: Scene) -> None:
    """One agent is killed; it, and those that have died by themselves, are started again."""
    await asyncio.sleep(play.chance.uniform(0.1, 0.6))
    victim = play.chance.choice(play.agents)
    await off_loop(victim.kill)
    await off_loop(victim.start)
    for one in play.agents:
        if one.ended():
            await off_loop(one.again)


async def storm(play: Scene, count: int) -> Account:
    asking = [play.ask(n, do, to, _HURRY.get(do, _LONG), after=0.6) for n, do, to in questions(play, count)]
    kills = await disturbed(play.each(asking, _ASKERS), lambda: killed_and_restarted(play))
    account = await play.dealt_with()
    ended = Counter((one.do, "answer" if one.answer is not None else type(one.error).__name__) for one in account.asked)
    print(f"{kills} kills, {sum(account.begun.values())} calls; {dict(ended)}")
    return account


@in_loop
async def _played(folder: Path, count: int) -> None:
    async with scene(folder, _AGENTS) as play:
        account = await storm(play, count)

    assert account.problems() == []
    assert len(account.asked) == count
    for one in account.asked:
        assert (one.answer is None) is one.timed_out, one
    # Who waits long enough has an answer, whatever dies meanwhile; who is not answered is told so.
    assert [one for one in account.asked if one.answer is None and one.do not in _HURRY] == []
    assert [one for one in account.asked if one.answer is not None and one.do == "never"] == []
    assert all(one.answer.error for one in account.asked if one.answer is not None and one.do == "raise")


def test_every_question_ends_exactly_once(tmp_path: Path, full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rigs.team.PATIENCE", 600.0)
    _played(tmp_path / "scene", 2_000 if full else 200)


@in_loop
async def _mutated(folder: Path, mutant: str) -> None:
    """An agent that drops an answer when the server has no time leaves its asker without one."""
    async with scene(folder, 1, mutant=mutant) as play:
        play.door.refuse = lambda head: NO_TIME if b"/reply " in head and play.chance.random() < 0.5 else b""
        await play.each([play.ask(n, "echo", "agent-0", 60.0 if not mutant else 1.0) for n in range(40)], 8)
        account = await play.closed()
    unanswered = [one for one in account.asked if one.answer is None]

    assert bool(unanswered) is bool(mutant)


@pytest.mark.parametrize("mutant", ["", "give_up_at_once"])
def test_an_agent_that_gives_up_is_found_out(tmp_path: Path, mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rigs.team.PATIENCE", 600.0)
    _mutated(tmp_path / "scene", mutant)
