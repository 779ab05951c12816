"""A coding agent takes, answers and finishes a message without a key press: idle, without a person, and at work."""

from __future__ import annotations

import pytest

from tests.harness.conftest import Stages
from tests.harness.waking import RUN, TERMINAL, send_and_wait, send_to_busy, waiting_agent, working_agent

MESSAGES, FEW = 20, 3


@pytest.mark.parametrize(
    ("name", "way", "messages"),
    [
        ("claude", TERMINAL, MESSAGES),
        ("codex", TERMINAL, MESSAGES),
        ("opencode", TERMINAL, FEW),
        ("gemini", RUN, FEW),
        ("opencode", RUN, FEW),
        ("claude", RUN, FEW),
    ],
)
def test_every_message_wakes_an_idle_agent_which_answers_and_finishes_it(
    stages: Stages, name: str, way: str, messages: int
) -> None:
    stage = stages(name, record=True)
    with waiting_agent(stage, way):
        handled = [send_and_wait(stage, f"Which colour has number {number}?") for number in range(messages)]

    assert len({message.id for message in handled}) == messages
    assert stage.place.document("inbox", "-a", name) == []


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_an_agent_at_work_is_told_of_an_urgent_message_between_two_tools(stages: Stages, name: str) -> None:
    stage = stages(name, record=True)
    with working_agent(stage):
        handled = [send_to_busy(stage, f"Which colour has number {number}?") for number in range(FEW)]

    assert len({message.id for message in handled}) == FEW
