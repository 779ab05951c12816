"""Between agents and their server connections are cut, answers get lost, and requests are turned away: nothing is
missed, nothing is repeated.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fault.sdk.account import Account
from tests.fault.sdk.door import BUSY, CUT, NO_TIME, TOO_MANY
from tests.fault.sdk.scene import Scene, disturbed, scene
from tests.rigs.team import in_loop

pytestmark = [pytest.mark.fault, pytest.mark.slow]

# Longer than it takes in all: a question whose time has run out is no longer shown in its channel.
_LONG = 900.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rigs.team.PATIENCE", 600.0)


async def talk(play: Scene, count: int) -> None:
    """As many questions as notices, to all agents."""

    async def one(n: int) -> None:
        to = play.chance.choice(play.agents).name
        await play.tell(n, to)
        await play.ask(n, "echo", to, _LONG)

    await play.each([one(n) for n in range(count)], 8)


async def all_dealt_with(play: Scene, seconds: float = 60.0) -> Account:
    try:
        async with asyncio.timeout(seconds):
            return await play.dealt_with()
    except TimeoutError:
        return await play.closed()


def answers_in(play: Scene) -> int:
    return sum(one.answer is not None for one in play.account.asked)


def wrong(account: Account, count: int) -> list[str]:
    """Everything that does not hold; here no process dies, so nothing may repeat."""
    unanswered = [f"unanswered: {one.n}" for one in account.asked if one.answer is None]
    repeated = [f"repeated: {one}" for one in account.repeated()]
    missing = [] if len(account.begun) == 2 * count else [f"missing: {2 * count - len(account.begun)}"]
    return [*account.problems(), *unanswered, *repeated, *missing]


async def cut_streams(play: Scene, count: int) -> int:
    """After every few answers, or a while without: a broken agent may give none."""

    async def cut() -> None:
        wanted = answers_in(play) + play.chance.randint(1, count // 10)
        for _ in range(30):
            if answers_in(play) >= wanted:
                break
            await asyncio.sleep(0.01)
        play.door.cut()

    return await disturbed(talk(play, count), cut)


async def lose_answers(play: Scene, count: int) -> int:
    """Much of what agents say is carried out, and they do not hear of it."""

    answers, others = itertools.cycle([b"", CUT, NO_TIME]), itertools.cycle([b"", b"", CUT, b"", NO_TIME])

    def swallow(head: bytes) -> bytes:
        return b"" if head.startswith(b"GET ") else next(answers if b"/reply " in head else others)

    play.door.swallow = swallow
    await talk(play, count)
    return play.door.swallowed


async def turn_away(play: Scene, count: int) -> int:
    """A third of all requests of the agents."""

    def refuse(head: bytes) -> bytes:
        return play.chance.choice([BUSY, TOO_MANY, NO_TIME]) if play.chance.random() < 0.33 else b""

    play.door.refuse = refuse
    await talk(play, count)
    return play.door.refused


@in_loop
async def _played(folder: Path, disturb: Callable[[Scene, int], asyncio.Future[int]], count: int, mutant: str) -> None:
    async with scene(folder, 2 if not mutant else 1, mutant=mutant) as play:
        times = await disturb(play, count)
        account = await all_dealt_with(play, 5.0 if mutant else 60.0)
        account = await Account(account.asked, account.told).close(play.client, play.channel_id, play.journal)
    print(f"{times} times, {play.door.streams} streams")
    found = wrong(account, count)

    assert times > 3
    if mutant:
        assert found
    else:
        assert found == []


@pytest.mark.parametrize("disturb", [cut_streams, lose_answers, turn_away])
def test_nothing_is_missed_and_nothing_is_repeated(
    tmp_path: Path, full: bool, disturb: Callable[[Scene, int], asyncio.Future[int]]
) -> None:
    _played(tmp_path / "scene", disturb, 1_000 if full else 100, "")


@pytest.mark.parametrize(
    ("disturb", "mutant"),
    [(cut_streams, "forget_the_cursor"), (cut_streams, "go_on_now"), (lose_answers, "answer_under_any_key")],
)
def test_an_agent_that_is_broken_is_found_out(
    tmp_path: Path, disturb: Callable[[Scene, int], asyncio.Future[int]], mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fault.sdk.test_cuts._LONG", 3.0)
    _played(tmp_path / "scene", disturb, 60, mutant)
