"""Coding agents that idle in a terminal, and messages that wake them."""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.harness.scripted_model import LIMIT_SECONDS, Received
from tests.harness.stage import HarnessStage
from tests.harness.terminal import Terminal

# More wakes than any test needs: the limit has tests of its own.
_CONFIG = "wakes_per_hour = 1000\n"
# A program takes keys that come at once for pasted text, and the Enter key for a part of it.
_PASTE_SECONDS = 0.5
_LOOK_SECONDS = 0.05
# Between the last answer of a model and the idling of its program.
_IDLE_SECONDS = 1.0
_REVIEW = "Hooks need review"


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
        terminal.press("2")
        terminal.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} 2. Trust all")
        terminal.press("Enter")
        terminal.wait_for(stage.place.program.ready)
    _wait_for_tools(stage)
    terminal.type("Hello.")
    terminal.wait_for("Hello.")
    time.sleep(_PASTE_SECONDS)
    terminal.press("Enter")
    stage.model.wait_for(lambda received: received.request is not None)
    terminal.wait_for("Idle.", "Nothing waits.")


def _wait_for_tools(stage: HarnessStage) -> None:
    """Wait until the server has been asked for its tools: a first request without them would go on without them."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not any("tools/list" in path.read_text() for path in stage.record.glob("mcp-*")):
        if time.monotonic() > deadline:
            raise TimeoutError("nobody asked for the list of tools")
        time.sleep(_LOOK_SECONDS)


def send_and_wait(stage: HarnessStage, text: str, *more: str) -> Handled:
    """Send a message to an idle agent, and wait until its model has nothing to do any more."""
    time.sleep(_IDLE_SECONDS)
    before = len(stage.model.received)
    message = stage.place.send(text, *more)
    sent = time.time()
    mark = f"[{message[-4:]}]"
    noticed = stage.model.wait_for(lambda received: received.request is not None and mark in received.text, before)
    finished = stage.model.wait_for(
        lambda received: received.request is not None and "No message for" in received.request.news, before
    )
    return Handled(message, noticed.at - sent, finished.at - sent, stage.model.received[before:])
