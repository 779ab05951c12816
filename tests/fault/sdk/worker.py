"""An agent as a process of its own, which behaves as its messages say and keeps a journal of what it was called with.

    python -m tests.fault.sdk.worker NAME JOURNAL [MUTANT]

The server is in PARLEY_URL and PARLEY_KEY. Says "ready" once it works. The journal has a line for each call, which is
the effect that a handler would have elsewhere: it outlives the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.running import run_agents
from parley.wire.api.records.channels import ChannelMessage

CONCURRENCY = 8


class Journal:
    """Lines in a file that several processes append to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **line: object) -> None:
        os.write(self._fd, json.dumps({"pid": os.getpid(), **line}).encode() + b"\n")

    def has(self, message_id: str) -> bool:
        """Whether somebody was called with this before."""
        with open(self._path, "rb") as file:
            # Others go on writing: the last line may be the first half of one.
            return any(json.loads(line).get("id") == message_id for line in file if line.endswith(b"\n"))


def worker(name: str, journal: Journal, concurrency: int = CONCURRENCY) -> BaseAgent:
    """An agent that does what it is told."""

    @Agent(name, concurrency=concurrency, start="beginning", drain=20)
    class Worker(BaseAgent):
        @on_message(kind="notify")
        async def told(self, message: ChannelMessage) -> None:
            journal.write(id=message.id, n=message.payload.get("n"))
            await asyncio.sleep(message.payload.get("seconds", 0.0))
            journal.write(ended=message.id)

        @on_message(kind="request")
        async def asked(self, message: ChannelMessage) -> dict[str, Any] | None:
            again = message.payload.get("do") == "die" and journal.has(message.id)
            journal.write(id=message.id, n=message.payload.get("n"))
            try:
                return await self._does(message, again=again)
            finally:
                journal.write(ended=message.id)

        async def _does(self, message: ChannelMessage, *, again: bool) -> dict[str, Any] | None:
            answer = {"n": message.payload.get("n"), "by": name}
            match message.payload.get("do"):
                case "late":
                    await asyncio.sleep(message.payload["after"])
                case "twice":
                    await self.client.reply_to(message.channel_id, message.id, None, {**answer, "first": True})
                case "raise":
                    raise ValueError(f"no {message.payload.get('n')}")
                case "never":
                    return None
                case "die" if not again:
                    os.kill(os.getpid(), signal.SIGKILL)
                case "block":
                    await asyncio.to_thread(time.sleep, message.payload["after"])
            return answer

    return Worker()


def _say_when_ready(name: str) -> None:
    """Print a line once the agent works."""
    from parley.sdk.agent import running

    serve = running.serve_agents

    async def telling(agents: Any, **options: Any) -> None:  # noqa: ANN401  # whatever it takes
        await serve(agents, **{**options, "ready": lambda: print("ready", name, flush=True)})

    running.serve_agents = telling


def _note_what_is_on_record(journal: Journal) -> None:
    """Write down with which messages it was done before each save that has succeeded: none of them may come again."""
    from parley.sdk.agent.server.workplace import ServerWorkplace
    from parley.sdk.agent.workplace import Arrival

    done, save = ServerWorkplace.finish, ServerWorkplace._save
    finished: list[str] = []

    async def noting(self: ServerWorkplace, arrival: Arrival, problem: str = "", attempts: int = 1) -> None:
        await done(self, arrival, problem, attempts)
        finished.extend([arrival.message.id] if arrival.message is not None else [])

    async def saving(self: ServerWorkplace, *, close: bool = False) -> None:
        before = len(finished)
        await save(self, close=close)
        if before:
            journal.write(on_record=finished[:before])
            del finished[:before]

    ServerWorkplace.finish = noting  # type: ignore[method-assign]
    ServerWorkplace._save = saving  # type: ignore[method-assign]


def main(name: str, journal: str, mutant: str = "", concurrency: str = str(CONCURRENCY)) -> None:
    if mutant:
        from tests.fault.sdk.mutants import MUTANTS

        MUTANTS[mutant]()
    _say_when_ready(name)
    kept = Journal(journal)
    _note_what_is_on_record(kept)
    # A process that lost its tests ends, too.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()
    run_agents(worker(name, kept, int(concurrency)))


if __name__ == "__main__":
    main(*sys.argv[1:])
