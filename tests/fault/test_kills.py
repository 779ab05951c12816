"""`kill -9` of senders and readers at any moment: nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.crowd import READER, Crowd, chance, pass_time
from tests.fault.stage import Stage, until

pytestmark = pytest.mark.fault

SENDERS, READERS = 3, 3


@pytest.mark.parametrize("lease", ["", "1s"], ids=["bound to the process", "leased"])
def test_kill_9_of_senders_and_readers_loses_nothing_that_was_acknowledged(
    tmp_path: Path, stage: Stage, lease: str, full: bool, request: pytest.FixtureRequest
) -> None:
    # Given senders that never stop and rival readers
    kills = 200 if full else 20
    crowd = Crowd(tmp_path, SENDERS, lease=lease)
    dice = chance(request.config.getoption("randomly_seed", 0))
    try:
        observer = crowd.add_observer()
        clients = [crowd.add_sender(agent) for agent in crowd.agents] + [crowd.add_reader() for _ in range(READERS)]
        agent_of = dict(zip(clients, crowd.agents, strict=False))
        for client in (observer, *clients):
            crowd.wait_ready(client)

        # When one after the other is killed at a random moment and replaced
        for _ in range(kills):
            pass_time(dice.uniform(0.0, 0.06))
            victim = dice.choice(crowd.clients("s", "r"))
            crowd.kill(victim)
            if victim in agent_of:
                fresh = crowd.add_sender(agent_of[victim])
                agent_of[fresh] = agent_of[victim]
            else:
                fresh = crowd.add_reader()
            crowd.wait_ready(fresh)
        until(lambda: crowd.count("send") > kills)
        crowd.finish("s")
        for agent in crowd.agents:  # the next command of a sender carries what its dead left behind
            assert stage.act("drain", crowd.home, agent).errors == []
        crowd.finish("r")
        crowd.finish("o")
    finally:
        crowd.abandon()

    # Then everything acknowledged was processed, once for each reader that lived to finish it
    print(f"{kills} kills, {crowd.count('send')} sends acknowledged, {crowd.count('done')} messages done")
    assert crowd.violations() == []
    assert crowd.count("kill") == kills
    assert crowd.count("send") > kills
    assert stage.act("listing", crowd.home, READER).said == []
    for agent in crowd.agents:
        assert stage.act("pending", crowd.home, agent).said == []
