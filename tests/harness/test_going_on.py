"""A coding agent that is held back from going idle comes to rest by our rule, in each of them."""

from __future__ import annotations

import pytest

from parley.domain.mailbox.attention import CONTINUATIONS_PER_TURN
from tests.harness.conftest import Stages
from tests.harness.model_apis import ModelRequest, Step
from tests.harness.scripted_model import Script, handle_messages

WITH_HOOKS = ("claude", "codex", "gemini")
WAKES_PER_HOUR = 12


@pytest.mark.parametrize("name", WITH_HOOKS)
def test_a_model_that_never_reads_is_asked_once_more_and_then_left_alone(stages: Stages, name: str) -> None:
    stage = stages(name, Script([], last="I do not read messages."))
    stage.place.set_up()
    stage.place.send("Which colour?")

    ran = stage.place.print_mode("Hello.")

    assert len(stage.model.requests) == 2
    assert "I do not read messages." in ran.stdout
    assert len(stage.place.document("inbox", "-a", name)) == 1


@pytest.mark.parametrize("name", WITH_HOOKS)
def test_a_colleague_who_answers_every_answer_does_not_keep_a_model_awake(stages: Stages, name: str) -> None:
    stage = stages(name)

    def answer_and_be_asked_again(request: ModelRequest) -> Step:
        step = handle_messages(request)
        if "Sent to" in request.news:
            stage.place.send("And which one now?")
            return Step("That was that.")
        return step

    stage.model.rule = answer_and_be_asked_again
    stage.place.set_up()
    stage.place.send("Which colour?")

    stage.place.print_mode("Hello.")

    went_on = sum("Parley: " in request.news for request in stage.model.requests)
    assert 2 <= went_on <= 1 + min(CONTINUATIONS_PER_TURN, WAKES_PER_HOUR)
    assert len(stage.place.document("inbox", "-a", name)) == 1
