"""Many readers of one work queue, which are killed again and again; and what must hold of what they did."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from parley.domain.errors.errors import Conflict, ParleyError
from parley.sdk.client.client import AsyncClient
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.process import ADMIN_KEY, ROOT

BATCH = 25
LEASE = 3.0


class History(NamedTuple):
    """What was asked, what was answered to which request, what readers noted, and when each killed process ended."""

    asked: Sequence[str]
    answered: Sequence[str]
    journal: Sequence[dict[str, Any]]
    killed: dict[int, float]


def problems(history: History) -> list[str]:
    """What must not be: a job without an answer or with two, an answer to nothing, and two readers of one job."""
    answers = Counter(history.answered)
    asked = set(history.asked)
    found = [f"{one} has no answer" for one in history.asked if not answers[one]]
    found += [f"{one} has {count} answers" for one, count in answers.items() if count > 1]
    found += [f"{one} was answered, and never asked" for one in answers if one not in asked]
    return found + _two_at_once(history)


def _two_at_once(history: History) -> list[str]:
    """Jobs that a reader began while another one had not ended: by itself, or with its process."""
    spans: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    begun: dict[tuple[int, str], list[float]] = defaultdict(list)
    for line in history.journal:
        if "begins" in line:
            begun[line["pid"], line["begins"]].append(line["at"])
        else:
            began = begun[line["pid"], line["ends"]].pop(0)
            spans[line["ends"]].append((began, line["at"], line["pid"]))
    for (pid, job), times in begun.items():
        spans[job] += [(at, history.killed.get(pid, float("inf")), pid) for at in times]
    found = []
    for job, parts in spans.items():
        parts.sort()
        for (_, end, one), (begin, _, other) in pairwise(parts):
            if begin < end:
                found.append(f"{job} was with {one} and {other} at once, for {end - begin:.3f} s")
    return found


def displaced(history: History) -> int:
    """By how many places a job was begun later than its order says, at most."""
    first: dict[str, float] = {}
    for line in history.journal:
        if "begins" in line:
            first.setdefault(line["begins"], line["at"])
    order = sorted(first, key=lambda job: first[job])
    return max((place - at for place, at in _places(order, history.asked)), default=0)


def _places(order: list[str], asked: Sequence[str]) -> Iterable[tuple[int, int]]:
    position = {job: number for number, job in enumerate(asked)}
    return [(place, position[job]) for place, job in enumerate(order)]


class WorkerProcess:
    """One reader; started again it is another process."""

    def __init__(self, name: str, url: str, journal: Path) -> None:
        self.name = name
        self._url = url
        self._journal = journal
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.fault.team.queue_worker", self.name, str(self._journal), str(LEASE)]
        home = str(self._journal.parent)
        environment = {"PATH": os.defpath, "HOME": home, "PARLEY_URL": self._url, "PARLEY_KEY": ADMIN_KEY}
        with self._journal.with_suffix(f".{self.name}.log").open("a") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=environment
            )

    def kill(self, number: int = signal.SIGKILL) -> tuple[int, float]:
        """Its pid, and when it had ended."""
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(number)
        process.wait(60)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        return process.pid, time.monotonic()


class Scene:
    """A queue, its readers, and who kills them."""

    def __init__(self, folder: Path, urls: Sequence[str], workers: int, seed: int = 1) -> None:
        self._urls = ",".join(urls)
        self._journal = folder / "journal"
        self._chance = random.Random(seed)
        self._workers = [
            WorkerProcess(f"worker-{number}", ",".join(self._chance.sample(list(urls), len(urls))), self._journal)
            for number in range(workers)
        ]
        self._client = AsyncClient(self._urls, key=ADMIN_KEY, agent="boss", patience=60)
        self._channel = ""
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.killed: dict[int, float] = {}
        self.late = Counter[str]()
        self._zombies: list[asyncio.Task[None]] = []

    async def open(self, zombies: int = 0) -> None:
        """A channel that keeps everything, and readers that come and go; some of them answer too late."""
        intent = await self._client.create_intent("jobs", status="active")
        options = {"max_messages": 10**6}
        self._channel = (await self._client.create_channel(intent.id, "jobs", options=options)).id
        for name in [f"zombie-{number}" for number in range(zombies)] + [one.name for one in self._workers]:
            await self._client.register_agent(name, role_id="coder")
            await self._client.assign_agent(intent.id, name)
        self._zombies = [asyncio.create_task(self._haunt(f"zombie-{number}")) for number in range(zombies)]

    async def post(self, count: int, seconds: Callable[[int], float]) -> None:
        """Ask so many things, in batches."""
        for begin in range(0, count, BATCH):
            body = [
                {
                    "to": "any:coder",
                    "message_type": "request",
                    "sender": "boss",
                    "payload": {"n": n, "seconds": seconds(n)},
                }
                for n in range(begin, min(count, begin + BATCH))
            ]
            path = ("channels", self._channel, "batch")
            while True:
                try:
                    answer = await self._client.connection.send("POST", *path, body={"messages": body}, timeout=60)
                except Conflict:  # holders of the role come and go too fast; nothing was posted
                    continue
                self.asked += [message["id"] for message in answer.document]
                break

    def start_workers(self) -> None:
        for worker in self._workers:
            worker.start()

    async def kill_workers(self, kills: int, pause: float) -> None:
        """Kill one after the other, and start it again."""
        for _ in range(kills):
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * pause)
            worker = self._chance.choice(self._workers)
            pid, at = await asyncio.to_thread(worker.kill)
            self.killed[pid] = at
            worker.start()

    async def _haunt(self, name: str) -> None:
        """Claim, let the lease run out, and answer all the same."""
        client = AsyncClient(self._urls, key=ADMIN_KEY, agent=name, patience=60)
        try:
            while True:
                try:
                    for job in await client.claim_jobs(name, wait=5, lease_seconds=1):
                        await asyncio.sleep(1.5)
                        await client.reply_to(self._channel, job.item_id, name, {"late": True}, lease=job.lease)
                        self.late["accepted"] += 1
                except Conflict:
                    self.late["refused"] += 1
                except ParleyError:
                    self.late["unanswered"] += 1
        finally:
            await client.close()

    async def finished(self, seconds: float) -> list[str]:
        """The answers, by what they answer, once all are there, or after so many seconds."""
        answered: list[str] = []
        since: str | None = None
        until = time.monotonic() + seconds
        while time.monotonic() < until and len(set(answered)) < len(self.asked):
            page: list[ChannelMessage] = await self._client.list_messages(self._channel, since, limit=1000, wait=1)
            answered += [one.correlation_id for one in page if one.correlation_id]
            since = page[-1].id if page else since
        # What is answered twice is seen, too.
        while page := await self._client.list_messages(self._channel, since, limit=1000, wait=2):
            answered += [one.correlation_id for one in page if one.correlation_id]
            since = page[-1].id
        self.answered = answered
        return answered

    async def dead(self) -> int:
        return len(await self._client.list_dead(limit=1000))

    async def close(self) -> None:
        for zombie in self._zombies:
            zombie.cancel()
        await asyncio.gather(*self._zombies, return_exceptions=True)
        for worker in self._workers:
            if worker.process is not None:
                pid, at = await asyncio.to_thread(worker.kill)
                self.killed[pid] = at
        await self._client.close()

    def history(self, answered: Sequence[str]) -> History:
        lines = self._journal.read_bytes().split(b"\n")[:-1] if self._journal.exists() else []
        return History(self.asked, answered, [json.loads(line) for line in lines], self.killed)


async def play(scene: Scene, jobs: int, kills: int, *, zombies: int, pause: float, seconds: float) -> History:
    """Post, work, kill, and look at what has come of it."""
    try:
        await scene.open(zombies)
        scene.start_workers()
        # Some take longer than a lease, which is extended.
        posting = asyncio.create_task(scene.post(jobs, lambda n: 1.5 * LEASE if n % 500 == 7 else 0.002))
        await scene.kill_workers(kills, pause)
        await posting
        answered = await scene.finished(seconds)
    finally:
        await scene.close()
    return scene.history(answered)
