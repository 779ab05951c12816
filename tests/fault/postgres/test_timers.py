"""Two nodes that are killed in turn post every scheduled message once, whoever of them sweeps, and none early."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import parley
from tests.fault.postgres.nodes import several, surprises
from tests.fault.team.test_timers import KILLS, TIMERS, expect_once
from tests.rigs.process import ADMIN_KEY

pytestmark = [pytest.mark.fault, pytest.mark.slow]


@pytest.mark.parametrize("seed", [1, 2])
def test_timers_come_once_whichever_node_is_killed(tmp_path: Path, dsn: str, seed: int) -> None:
    chance = random.Random(seed)
    with several(tmp_path, dsn, 2) as nodes:
        urls = [node.url for node in nodes]
        with parley.Client(urls, key=ADMIN_KEY, agent="alice", patience=60) as alice:
            channel = alice.open_channel(alice.create_intent("Timers", access=["bob"]).id, "later")
            waiting = [
                alice.schedule_message(channel.id, to="bob", payload={"n": n}, after=chance.uniform(0.5, 10))
                for n in range(TIMERS)
            ]
            cancelled = set()
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.2, 1.2))
                node = chance.choice(nodes)
                node.kill()
                timer = chance.choice(waiting)
                try:
                    alice.cancel_timer(timer.id)
                    cancelled.add(timer.message_id)
                except parley.NotFound:
                    pass  # posted before, or cancelled before
                node.start()
            expect_once(alice, channel.id, waiting, cancelled)
        assert surprises(nodes) == []
