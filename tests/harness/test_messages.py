"""A coding agent that runs for one prompt takes, answers and finishes what waits for it."""

from __future__ import annotations

import pytest

from tests.harness.conftest import Stages
from tests.harness.programs import AGENTS


@pytest.mark.parametrize("name", AGENTS)
def test_a_message_is_taken_answered_and_finished_in_one_prompt(stages: Stages, name: str) -> None:
    stage = stages(name)
    stage.place.set_up()
    message = stage.place.send("Which colour?")
    sender = next(agent for agent in AGENTS if agent != name)

    # OpenCode is told of no message at the start; the words of the prompt make the model look.
    stage.place.print_mode("Parley: look at your messages." if name == "opencode" else "Hello.")

    assert stage.place.document("inbox", "-a", name) == []
    assert len(stage.place.document("inbox", "-a", sender)) == 1
    answer = stage.place.document("next", "-a", sender)
    assert (answer["from"], answer["parent_message_id"], answer["body"]) == (
        name,
        message,
        f"Answer to {message[-4:]}.",
    )
