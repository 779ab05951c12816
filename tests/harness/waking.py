"""Coding agents that idle in a terminal, and messages that wake them."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from parley.cli.attention.run import RUN_TEXT
from tests.harness.model_apis import ModelRequest, Step, Tool
from tests.harness.scripted_model import LIMIT_SECONDS, Received, handle_messages, use_tool
from tests.harness.stage import HarnessStage
from tests.harness.terminal import Terminal

# More wakes than any test needs: the limit has tests of its own.
_CONFIG = "wakes_per_hour = 1000\n"
# A program takes keys that come at once for pasted text, and the Enter key for a part of it.
_PASTE_SECONDS = 0.5
_LOOK_SECONDS = 0.05
# Between the last answer of a model and the idling of its program.
IDLE_SECONDS = 1.0
_REVIEW = "Hooks need review"
_END_SECONDS = 30.0
# Where an agent waits for messages: in a terminal before a person, or in `parley run` without one.
TERMINAL, RUN = "terminal", "parley run"
# How long a model at work thinks before each use of a tool.
WORK_SECONDS = 0.3
_OTHER_TOOLS = {"gemini": ("glob", {"pattern": "*.py"}), "chat": ("read", {"filePath": "opencode.json"})}
_work_numbers = itertools.count(1)


class Handled(NamedTuple):
    """A message from its sending to its end, in seconds after `parley send` returned."""

    id: str
    # The first request to the model that names the message.
    noticed: float
    # The request after the last tool: the message is answered and finished.
    finished: float
    requests: list[Received]


def allow_many_wakes(stage: HarnessStage) -> None:
    """Lift the limit of wakes in an hour for this user."""
    path = stage.place.home / ".config" / "parley" / "parley.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_CONFIG)


def begin_session(stage: HarnessStage, terminal: Terminal) -> None:
    """Do what a person does first: trust the hooks where that is asked, and type a prompt; then wait for its answer."""
    if terminal.wait_for(_REVIEW, stage.place.program.ready) == _REVIEW:
        chosen = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} 2. Trust all"
        while chosen not in terminal.screen():  # keys that come too early are dropped
            terminal.press("2")
            time.sleep(_PASTE_SECONDS)
        terminal.press("Enter")
        terminal.wait_for(stage.place.program.ready)
    _wait_for_tools(stage)
    type_prompt(terminal, "Hello.")
    stage.model.wait_for(lambda received: received.request is not None)
    terminal.wait_for("Idle.", "Nothing waits.")


def type_prompt(terminal: Terminal, text: str) -> None:
    """Type a prompt as a person does."""
    terminal.type(text)
    terminal.wait_for(text)
    time.sleep(_PASTE_SECONDS)
    terminal.press("Enter")


@contextmanager
def working_agent(stage: HarnessStage) -> Iterator[None]:
    """A coding agent in a terminal whose model works on a task without an end."""
    allow_many_wakes(stage)
    stage.place.set_up()
    with Terminal(stage.place) as terminal:
        begin_session(stage, terminal)
        stage.model.rule = work
        before = len(stage.model.received)
        type_prompt(terminal, "Go on with your task.")
        stage.model.wait_for(lambda received: received.request is not None, before)
        yield


@contextmanager
def waiting_agent(stage: HarnessStage, way: str) -> Iterator[None]:
    """A coding agent that has nothing to do: set up and in a terminal, or in `parley run`, which needs no setup."""
    allow_many_wakes(stage)
    if way == TERMINAL:
        stage.place.set_up()
        with Terminal(stage.place) as terminal:
            begin_session(stage, terminal)
            yield
        return
    with (stage.place.home.parent / "run.log").open("w") as log:
        runner = subprocess.Popen(
            ["parley", "run", stage.place.name],
            env=stage.place.environment,
            cwd=stage.place.repository,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            send_and_wait(stage, "Are you there?")  # the first message waits for the start of the program
            yield
        finally:
            runner.terminate()
            runner.wait(_END_SECONDS)


def work(request: ModelRequest) -> Step:
    """React like a model in the middle of a task: it deals with a message that it is told of, and goes on."""
    news = request.news
    if "Parley: " in news or "not by your user" in news:
        return handle_messages(request)
    # Programs stop a model that repeats itself, so it uses two tools in turn where it has another that always works.
    other = _OTHER_TOOLS.get(request.api)
    if other is not None and next(_work_numbers) % 2:
        return Step(tool=Tool(other[0]), arguments=other[1], seconds=WORK_SECONDS)
    return use_tool("agents")(request)._replace(seconds=WORK_SECONDS)


def _wait_for_tools(stage: HarnessStage) -> None:
    """Wait until the server has been asked for its tools: a first request without them would go on without them."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not any("tools/list" in path.read_text() for path in stage.record.glob("mcp-*")):
        if time.monotonic() > deadline:
            raise TimeoutError("nobody asked for the list of tools")
        time.sleep(_LOOK_SECONDS)


def send_and_wait(stage: HarnessStage, text: str, *more: str) -> Handled:
    """Send a message to an idle agent, and wait until its model has nothing to do any more."""
    time.sleep(IDLE_SECONDS)
    before = len(stage.model.received)
    message = stage.place.send(text, *more)
    sent = time.time()
    noticed = stage.model.wait_for(lambda received: is_told(received, message), before)
    finished = stage.model.wait_for(
        lambda received: received.request is not None and "No message for" in received.request.news, before
    )
    return Handled(message, noticed.at - sent, finished.at - sent, stage.model.received[before:])


def send_to_busy(stage: HarnessStage, text: str) -> Handled:
    """Send an urgent message to an agent at work, and wait until its model has answered it."""
    before = len(stage.model.received)
    message = stage.place.send(text, "--priority", "P1")
    sent = time.time()
    noticed = stage.model.wait_for(lambda received: is_told(received, message), before)
    finished = stage.model.wait_for(
        lambda received: received.request is not None and "Sent to" in received.request.news, before
    )
    return Handled(message, noticed.at - sent, finished.at - sent, stage.model.received[before:])


def is_told(received: Received, message: str) -> bool:
    """Whether this request tells a model of a message: by the end of its id, or by the prompt of `parley run`."""
    if received.request is None:
        return False
    return f"[{message[-4:]}]" in received.text or RUN_TEXT in received.request.news
