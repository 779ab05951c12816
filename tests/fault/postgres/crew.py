"""The crew of examples/crew.py as processes on two nodes, without a balancer; and what became of its reports."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from parley.sdk.client.client import AsyncClient
from tests.fault.postgres.nodes import Node
from tests.rigs.process import ADMIN_KEY, ROOT

NAMES = ("planner", "researcher-1", "researcher-2", "researcher-3", "writer", "critic")
_SCRIPT = ROOT / "examples" / "crew.py"
_PARTS = ("history", "present", "outlook")
# All reports are there by then, or will never be.
_PATIENCE_SECONDS = 240.0
_POLL_SECONDS = 0.2


class CrewAgent:
    """One agent of the crew as a process of its own; started again it goes on where it was."""

    def __init__(self, name: str, url: str, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._environment = {"PATH": os.defpath, "PARLEY_URL": url, "PARLEY_KEY": ADMIN_KEY, "HOME": str(folder)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, str(_SCRIPT), self.name]
            self._process = subprocess.Popen(command, stderr=log, cwd=ROOT, env=self._environment)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(60)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself, which no outage may bring about."""
        return self._process is not None and self._process.poll() is not None


class Report(NamedTuple):
    """What an intent's state and log say about its report."""

    topic: str
    status: str
    text: str
    writes: int
    completions: int
    failures: int
    seconds: float


def expected_text(topic: str) -> str:
    return f"{topic}: " + " ".join(f"The {part} of {topic} is bright." for part in _PARTS)


def problems(reports: Sequence[Report], given: int) -> list[str]:
    """What is wrong with the reports; each has to be there, whole, and once."""
    found = [] if len(reports) == given else [f"{len(reports)} of {given} were ordered"]
    for report in reports:
        if report.status != "completed":
            found.append(f"{report.topic}: lost, the intent is {report.status}")
        elif report.text != expected_text(report.topic):
            found.append(f"{report.topic}: wrong: {report.text!r}")
        if report.writes > 1 or report.completions > 1:
            found.append(f"{report.topic}: doubled, {report.writes} writes, {report.completions} completions")
        if report.failures:
            found.append(f"{report.topic}: {report.failures} failed assignments")
    return found


class Crew:
    """Two nodes, six agents, and an owner who orders reports; all of them use both addresses."""

    def __init__(self, folder: Path, nodes: Sequence[Node], seed: int) -> None:
        self.nodes = nodes
        self.url = ",".join(node.url for node in nodes)
        self.agents = [CrewAgent(name, self.url, folder) for name in NAMES]
        self.chance = random.Random(seed)
        self._ordered: dict[str, str] = {}
        self._client = AsyncClient(self.url, key=ADMIN_KEY, agent="owner", patience=120)

    async def order(self, topic: str) -> None:
        """Have a report written."""
        intent = await self._client.create_intent(topic, status="active")
        self._ordered[intent.id] = topic
        # The planner last: it begins at once, and a writer that is not on the intent yet cannot be asked.
        for name in reversed(NAMES):
            await self._client.assign_agent(intent.id, name)

    async def run(self, reports: int, node_kills: int, agent_kills: int) -> None:
        """Order reports while nodes and agents are killed, and wait for all of them."""
        await self.start_agents()
        # Every fifth kill of a node is one of both at the same time.
        both = node_kills // 10
        victims = ["both"] * both + ["node"] * (node_kills - 2 * both) + ["agent"] * agent_kills
        self.chance.shuffle(victims)
        for number, victim in enumerate(victims):
            for topic in range(reports * number // len(victims), reports * (number + 1) // len(victims)):
                await self.order(f"topic {topic}")
            await asyncio.sleep(self.chance.uniform(0.0, 0.5))
            if victim == "agent":
                await self._kill_agent()
            else:
                await self._kill_nodes(self.nodes if victim == "both" else [self.chance.choice(self.nodes)])
        await self.wait_for_all()

    async def _kill_nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            await _off_loop(node.kill)
        await asyncio.sleep(self.chance.uniform(0.0, 2.0))
        for node in nodes:
            await _off_loop(node.start)

    async def _kill_agent(self) -> None:
        agent = self.chance.choice(self.agents)
        await _off_loop(agent.kill)
        await asyncio.sleep(self.chance.uniform(0.0, 0.5))
        agent.start()

    async def start_agents(self) -> None:
        for agent in self.agents:
            agent.start()

    async def kill_everything(self) -> None:
        for agent in self.agents:
            await _off_loop(agent.kill)
        for node in self.nodes:
            await _off_loop(node.kill)

    async def start_everything(self) -> None:
        for node in self.nodes:
            await _off_loop(node.start)
        await self.start_agents()

    async def wait_for_all(self) -> None:
        """Wait until every report is there, or for as long as it may take."""
        left, deadline = set(self._ordered), time.monotonic() + _PATIENCE_SECONDS
        while left and time.monotonic() < deadline:
            for intent_id in tuple(left):
                if (await self._client.get_intent(intent_id)).status == "completed":
                    left.discard(intent_id)
            await asyncio.sleep(_POLL_SECONDS)

    async def reports(self) -> list[Report]:
        """What became of each report that was ordered."""
        found = []
        for intent_id, topic in self._ordered.items():
            intent = await self._client.get_intent(intent_id)
            events = await self._client.list_events(intent_id, after=0, limit=1_000)
            types = [event.event_type for event in events]
            texts = [event.payload for event in events]
            found.append(
                Report(
                    topic,
                    intent.status,
                    str(intent.state.get("report", "")),
                    types.count("state_patched"),
                    sum(text.get("new_status") == "completed" for text in texts),
                    types.count("assignment_failed"),
                    (events[-1].created_at - events[0].created_at).total_seconds(),
                )
            )
        return found

    async def close(self) -> None:
        for agent in self.agents:
            await _off_loop(agent.kill)
        await self._client.close()


async def _off_loop(call: object) -> None:
    assert callable(call)
    await asyncio.get_running_loop().run_in_executor(None, call)
