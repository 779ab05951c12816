"""An idle coding agent takes, answers and finishes a message without a key press."""

from __future__ import annotations

import pytest

from tests.harness.conftest import Stages
from tests.harness.terminal import Terminal
from tests.harness.waking import allow_many_wakes, begin_session, send_and_wait

MESSAGES = 20


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_every_message_wakes_an_idle_agent_which_answers_and_finishes_it(stages: Stages, name: str) -> None:
    stage = stages(name, record=True)
    allow_many_wakes(stage)
    stage.place.set_up()
    with Terminal(stage.place) as terminal:
        begin_session(stage, terminal)

        handled = [send_and_wait(stage, f"Which colour has number {number}?") for number in range(MESSAGES)]

    assert len({message.id for message in handled}) == MESSAGES
    assert stage.place.document("inbox", "-a", name) == []
