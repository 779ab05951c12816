"""A coding agent that is killed at any moment loses no message, answers none twice, and no receipt is early."""

from __future__ import annotations

import os

import pytest

from tests.harness.conftest import Stages
from tests.harness.kills import handle_through_kills

FULL = os.environ.get("PARLEY_FAULT") == "full"
MESSAGES, KILLS = (100, 40) if FULL else (10, 4)


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_kills_lose_no_message_and_double_no_answer(stages: Stages, name: str) -> None:
    stage = stages(name)
    stage.place.set_up()

    outcome = handle_through_kills(stage, MESSAGES, KILLS, seed=18)

    assert (outcome.kills, outcome.lost, outcome.answered_twice, outcome.early_receipts) == (KILLS, [], [], [])
    assert outcome.sent >= MESSAGES
