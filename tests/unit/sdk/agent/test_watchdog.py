"""The watchdog: a loop that stands still is noticed, with the place in the code."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from parley.sdk.agent.watchdog import watch_loop
from tests.rigs.team import in_loop


class Heard(logging.Handler):
    """Wakes whoever waits for a warning."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.event.set()


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, log = Heard(), logging.getLogger("parley.agent")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@in_loop
async def test_a_coroutine_that_blocks_the_loop_is_named(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, standing = asyncio.get_running_loop(), threading.Event()
    tell = loop.call_soon_threadsafe

    def when_it_stands(callback: Callable[[], None]) -> asyncio.Handle:
        standing.wait(20)  # on a busy machine the watchdog may be faster
        return tell(callback)

    def stands_still() -> bool:
        standing.set()
        return heard.event.wait(20)

    monkeypatch.setattr(loop, "call_soon_threadsafe", when_it_stands)
    with watch_loop(loop, check_seconds=0.01, stall_seconds=0.01):
        warned = stands_still()

    assert warned
    assert "stands_still" in vars(heard.records[0])["where"]
    assert "(test_watchdog.py, line " in heard.records[0].getMessage()


@in_loop
async def test_a_loop_that_runs_is_left_alone(heard: Heard) -> None:
    with watch_loop(asyncio.get_running_loop(), check_seconds=0.001, stall_seconds=20):
        for _ in range(200):
            await asyncio.sleep(0)

    assert heard.records == []
