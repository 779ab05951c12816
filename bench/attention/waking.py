"""How long a message takes from `parley send` into a request to the model, in the real coding agents."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence

from bench.attention.record import Latency
from tests.harness.stage import a_stage
from tests.harness.waking import RUN, TERMINAL, send_and_wait, send_to_busy, waiting_agent, working_agent

IDLE, BUSY = "idle", "busy"
# Program, where it runs, and what it does when the message comes.
SITUATIONS = (
    ("claude", TERMINAL, IDLE),
    ("codex", TERMINAL, IDLE),
    ("opencode", TERMINAL, IDLE),
    ("gemini", RUN, IDLE),
    ("opencode", RUN, IDLE),
    ("claude", RUN, IDLE),
    ("claude", TERMINAL, BUSY),
    ("codex", TERMINAL, BUSY),
    ("opencode", TERMINAL, BUSY),
    ("gemini", TERMINAL, BUSY),
)
# A session handles so many, then a new one begins: what a model is sent grows with each message.
_SESSION_MESSAGES = 25
# Messages come at any moment of a step of the model.
_PAUSE_MAX_SECONDS = 0.8
_SEED = 18


def in_order(latencies: Sequence[Latency]) -> list[Latency]:
    """As the situations are listed, in whatever order they were measured."""
    return sorted(latencies, key=lambda latency: SITUATIONS.index(latency[:3]))


def measure(program: str, way: str, state: str, messages: int) -> Latency:
    """Send messages one after the other; each that does not arrive counts as missing, and ends its session."""
    noticed: list[float] = []
    attempted = 0
    while attempted < messages:
        due = min(_SESSION_MESSAGES, messages - attempted)
        attempted += due
        try:
            noticed.extend(_session(program, way, state, due))
        except TimeoutError as error:
            print(f"    {error}", flush=True)
    # `parley run` may be told before the process of `parley send` has ended.
    seconds = tuple(sorted(round(max(each, 0.0), 3) for each in noticed))
    return Latency(program, way, state, attempted, seconds, round(os.getloadavg()[0], 1))


def _session(program: str, way: str, state: str, messages: int) -> Iterator[float]:
    pauses = random.Random(_SEED)
    with a_stage(program, record=True) as stage:
        if state == IDLE:
            with waiting_agent(stage, way):
                for number in range(messages):
                    yield send_and_wait(stage, f"Which colour has number {number}?").noticed
            return
        with working_agent(stage):
            for number in range(messages):
                time.sleep(pauses.uniform(0, _PAUSE_MAX_SECONDS))
                yield send_to_busy(stage, f"Which colour has number {number}?").noticed
