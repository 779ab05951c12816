"""A server that is killed again and again posts every scheduled message once, and none of them early."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import parley
from tests.rigs.process import ADMIN_KEY, ServerProcess

pytestmark = [pytest.mark.fault, pytest.mark.slow]

TIMERS, KILLS = 120, 8


@pytest.mark.parametrize("seed", [1, 2])
def test_timers_outlive_kills_and_come_once(tmp_path: Path, seed: int) -> None:
    chance, server = random.Random(seed), ServerProcess(tmp_path / "data")
    server.start()
    try:
        with parley.Client(server.url, key=ADMIN_KEY, agent="alice", patience=60) as alice:
            channel = alice.open_channel(alice.create_intent("Timers", access=["bob"]).id, "later")
            waiting = [
                alice.schedule_message(channel.id, to="bob", payload={"n": n}, after=chance.uniform(0.5, 8))
                for n in range(TIMERS)
            ]
            cancelled = set()
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.2, 1.2))
                server.kill()
                server.start()
                timer = chance.choice(waiting)
                try:
                    alice.cancel_timer(timer.id)
                    cancelled.add(timer.message_id)
                except parley.NotFound:
                    pass  # posted before, or cancelled before
            expect_once(alice, channel.id, waiting, cancelled)
    finally:
        server.kill()


def expect_once(
    alice: parley.Client, channel_id: str, waiting: list[parley.Timer], cancelled: set[str], seconds: float = 60
) -> None:
    """Wait until no timer is left, and compare what was posted with what was scheduled."""
    deadline = time.monotonic() + seconds
    while alice.list_timers():
        assert time.monotonic() < deadline, "timers are left"
        time.sleep(0.2)
    posted = alice.list_messages(channel_id, limit=1000)
    due = {timer.message_id: timer.deliver_at for timer in waiting}
    assert len(posted) == len({message.id for message in posted})
    assert {message.id for message in posted} == due.keys() - cancelled
    assert all(message.created_at >= due[message.id] for message in posted)
