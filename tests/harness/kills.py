"""Killing a coding agent again and again while it handles messages, and counting what became of them."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from typing import NamedTuple

from tests.harness.programs import AGENTS
from tests.harness.stage import HarnessStage

# A message takes two requests, and its kill comes at most so long after one of them.
_AFTER_REQUEST_SECONDS = 0.3
_MOST_REQUESTS = 6
_MOST_DRAINS = 20


class KillOutcome(NamedTuple):
    """What became of the messages that an agent was sent while it was killed."""

    sent: int
    kills: int
    lost: list[str]
    answered_twice: list[str]
    # Messages with a receipt of something that has not happened, each with that state.
    early_receipts: list[str]


def handle_through_kills(stage: HarnessStage, messages: int, kills: int, seed: int) -> KillOutcome:
    """Send messages, kill the agent `kills` times at random moments, then let it finish; count the answers."""
    moments = random.Random(seed)
    sender = next(agent for agent in AGENTS if agent != stage.place.name)
    sent: list[str] = []
    early: set[str] = set()
    killed = 0
    while killed < kills:
        due = -(-messages * (killed + 1) // kills) - len(sent)
        sent += [stage.place.send(f"Which colour has number {len(sent) + number}?") for number in range(max(due, 0))]
        if not stage.place.document("inbox", "-a", stage.place.name):
            sent.append(stage.place.send("Which colour is left?"))
        killed += _run_and_kill(stage, moments)
        early |= _early_receipts(stage, sender)
    for _ in range(_MOST_DRAINS):
        if not stage.place.document("inbox", "-a", stage.place.name):
            break
        stage.place.print_mode("Hello.")
    answers = Counter(_answered(stage, sender))
    lost = [message for message in sent if not answers[message]]
    twice = [message for message in sent if answers[message] > 1]
    return KillOutcome(len(sent), killed, lost, twice, sorted(early | _early_receipts(stage, sender)))


def _run_and_kill(stage: HarnessStage, moments: random.Random) -> bool:
    """Start the agent, and kill it after some requests to its model; False if it ended before that."""
    requests = len(stage.model.requests) + moments.randrange(_MOST_REQUESTS)
    pause = moments.uniform(0, _AFTER_REQUEST_SECONDS)
    process = subprocess.Popen(
        stage.place.program.print_command("Hello."),
        env=stage.place.environment,
        cwd=stage.place.repository,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while len(stage.model.requests) < requests and process.poll() is None:
        time.sleep(0.01)
    time.sleep(pause)
    was_running = process.poll() is None
    os.kill(process.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
    process.wait()
    return was_running


_PARENT = re.compile(r"^parent_message_id: \"?([^\"\s]+)", re.MULTILINE)


def _answered(stage: HarnessStage, sender: str) -> list[str]:
    """For every answer in the inbox of the sender, the id of what it answers."""
    (inbox,) = stage.place.home.glob(f"oacp/projects/*/agents/{sender}/inbox")
    found = [_PARENT.search(path.read_text()) for path in inbox.glob("*.yaml")]
    return [match[1] for match in found if match is not None]


def _early_receipts(stage: HarnessStage, sender: str) -> set[str]:
    """The messages whose receipts are ahead of the truth, and the state: seen by a model that was never sent their
    ids, or answered without an answer.
    """
    (folder,) = stage.place.home.glob(f"oacp/projects/*/agents/{stage.place.name}")
    early = set()
    for path in folder.glob("receipts/*"):
        states = {json.loads(line)["state"] for line in path.read_text().splitlines() if line.startswith("{")}
        mark = f"[{path.name[-4:]}]"
        if "injected" in states and not any(mark in received.text for received in stage.model.received):
            early.add(f"{path.name} injected")
        # The receipt is read before the answers: what it says must be there by then.
        if "acted" in states and path.name not in _answered(stage, sender):
            early.add(f"{path.name} acted")
    return early
