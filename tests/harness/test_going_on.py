"""A coding agent that is held back from going idle comes to rest by our rule, in each of them."""

from __future__ import annotations

import time

import pytest

from parley.domain.mailbox.attention import CONTINUATIONS_PER_TURN
from tests.harness.conftest import Stages
from tests.harness.model_apis import ModelRequest, Step
from tests.harness.scripted_model import Script, ScriptedModel, handle_messages
from tests.harness.terminal import Terminal
from tests.harness.waking import allow_many_wakes, begin_session, is_told

WITH_HOOKS = ("claude", "codex", "gemini")
WAKES_PER_HOUR = 12
QUIET_SECONDS, MOST_REQUESTS = 10.0, 200


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


def wait_until_quiet(model: ScriptedModel) -> None:
    """Wait until nothing was asked for a while. An endless loop ends this by the number of its requests."""
    count = -1
    while count != len(model.requests) and count <= MOST_REQUESTS:
        count = len(model.requests)
        time.sleep(QUIET_SECONDS)


def test_an_idle_session_of_opencode_that_never_reads_is_asked_once_more_and_then_left_alone(stages: Stages) -> None:
    stage = stages("opencode", record=True)
    allow_many_wakes(stage)
    stage.place.set_up()
    with Terminal(stage.place) as terminal:
        begin_session(stage, terminal)
        stage.model.rule = Script([], last="I do not read messages.")
        before = len(stage.model.received)

        message = stage.place.send("Which colour?")
        stage.model.wait_for(lambda received: is_told(received, message), before)
        wait_until_quiet(stage.model)
        stage.place.send("And which one now?")
        wait_until_quiet(stage.model)

    told = [received for received in stage.model.received[before:] if received.request is not None]
    # Once to wake it and once at its stop; once more where a hook takes so long that it is given up.
    assert 1 <= len(told) <= 3
    assert len(stage.place.document("inbox", "-a", "opencode")) == 2


def test_a_colleague_who_answers_every_answer_does_not_keep_opencode_awake(stages: Stages) -> None:
    stage = stages("opencode", record=True)

    def answer_and_be_asked_again(request: ModelRequest) -> Step:
        if "Sent to" in request.news:
            stage.place.send("And which one now?")
            return Step("That was that.")
        return handle_messages(request)

    stage.place.set_up()
    with Terminal(stage.place) as terminal:
        begin_session(stage, terminal)
        stage.model.rule = answer_and_be_asked_again
        stage.place.send("Which colour?")
        stage.model.wait_for(lambda received: received.request is not None and "Sent to" in received.request.news)
        wait_until_quiet(stage.model)

    went_on = sum("Parley: " in request.news for request in stage.model.requests)
    assert 2 <= went_on <= 1 + WAKES_PER_HOUR
    assert len(stage.place.document("inbox", "-a", "opencode")) == 1
