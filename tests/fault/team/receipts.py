"""A sender, and a reader of a queue whose server is killed while it answers: what receipts say, and the truth."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import parley
from parley.domain.errors.errors import ParleyError
from parley.wire.api.records.queues import ClaimedJob
from tests.rigs.process import ADMIN_KEY, ServerProcess

T = TypeVar("T")
LEASE_SECONDS = 1.0


@dataclass
class Truth:
    """What the reader has: the message, and what it asked for and was told about it."""

    has_message: bool = False
    asked_to_finish: bool = False
    # What the server has confirmed, and may not forget.
    confirmed: set[str] = field(default_factory=set)


@dataclass
class Scene:
    """One server that is killed `longest` seconds after the beginning of a request, at the latest."""

    server: ServerProcess
    dice: random.Random
    longest: float
    kills: int = 0
    # Where receipts said more than was true, and less than was confirmed.
    ahead: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    channel: str = ""

    def client(self, agent: str, patience: float = 60.0) -> parley.Client:
        return parley.Client(self.server.url, key=ADMIN_KEY, agent=agent, patience=patience)

    def open(self) -> None:
        with self.client("boss") as boss:
            intent = boss.create_intent("jobs", status="active")
            self.channel = boss.create_channel(intent.id, "jobs").id
            boss.register_agent("reader", role_id="coder")
            boss.assign_agent(intent.id, "reader")

    def killed_during(self, request: Callable[[parley.Client], T]) -> T | None:
        """What a request was answered, if it was, of a server that is killed meanwhile and started again."""
        killer = threading.Timer(self.dice.uniform(0.0, self.longest), self.server.kill)
        with self.client("reader", patience=0.01) as reader:
            reader.whoami()  # connected, so that the time goes to the request
            killer.start()
            answer: T | None = None
            with suppress(ParleyError):
                answer = request(reader)
            killer.join()
        self.kills += 1
        self.server.start()
        return answer

    def compare(self, message_id: str, truth: Truth) -> None:
        with self.client("boss") as boss:
            status = boss.message_status(message_id)
        facts = {"acknowledged": truth.has_message, "acted": truth.asked_to_finish}
        for state, is_true in facts.items():
            if status.has_reached(parley.ReceiptState(state)) and not is_true:
                self.ahead.append(f"{message_id}: {state}")
            if state in truth.confirmed and not status.has_reached(parley.ReceiptState(state)):
                self.behind.append(f"{message_id}: {state}")

    def handle(self) -> str:
        """One message, with a kill during each act of its reader; its state in the end."""
        truth = Truth()
        with self.client("boss") as boss:
            message = boss.send_message(self.channel, to="any:coder", payload={"text": "work"})
        jobs = self.killed_during(lambda reader: reader.claim_jobs("reader", lease_seconds=LEASE_SECONDS))
        truth.has_message |= bool(jobs)
        self.compare(message.id, truth)
        if jobs:
            self._keep(jobs[0], truth)
            self.compare(message.id, truth)
        self._finish(truth)
        self.compare(message.id, truth)
        with self.client("boss") as boss:
            return boss.message_status(message.id).state

    def _keep(self, job: ClaimedJob, truth: Truth) -> None:
        which = ("reader", job.id, job.lease)
        if self.killed_during(lambda reader: reader.extend_job(*which, lease_seconds=LEASE_SECONDS)):
            truth.confirmed.add("acknowledged")

    def _finish(self, truth: Truth) -> None:
        """Go on without kills, as the next reader does when the lease has run out."""
        end = time.monotonic() + 60
        while time.monotonic() < end and not truth.confirmed >= {"acted"}:
            with self.client("reader") as reader:
                for job in reader.claim_jobs("reader", wait=20, lease_seconds=60):
                    truth.has_message = truth.asked_to_finish = True
                    reader.finish_job("reader", job.id, job.lease)
                    truth.confirmed |= {"acknowledged", "acted"}


def play(server: ServerProcess, seed: int, messages: int, longest: float) -> tuple[Scene, list[str]]:
    """Handle messages on a server that is killed; the scene, and the states in the end."""
    server.start()
    scene = Scene(server, random.Random(seed), longest)
    try:
        scene.open()
        return scene, [scene.handle() for _ in range(messages)]
    finally:
        if server.process is not None:
            server.kill()
