"""Programs that users of the SDK write, run as processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from openintent import OpenIntentClient

from tests.rigs.process import ADMIN_KEY, ROOT, ServerProcess

HELPER = "import parley.compat.openintent\n"

# A program may say things with print(); what Parley's runtime logs comes as well, and says when it is ready.
HEAD = """
import logging
import sys

class Actions(logging.Filter):
    def filter(self, record):
        record.action = getattr(record, "action", "-")
        return True

handler = logging.StreamHandler(sys.stdout)
handler.addFilter(Actions())
logging.basicConfig(level=logging.INFO, handlers=[handler], format="%(action)s %(message)s")
logging.getLogger("httpx").setLevel(logging.WARNING)
logger = logging.getLogger("user")
"""

READY = "agent_started"
_LONGEST_SECONDS = 300.0

# The two classes as RFC-0021 prints them.
RFC_DATA_AGENT = '''
from openintent.agents import Agent, on_message, on_assignment

@Agent("data-agent-01")
class DataAgent:
    @on_assignment
    async def handle(self, intent):
        # Normal work...
        pass

    @on_message(channel="data-clarification")
    async def handle_clarification(self, message):
        """Called when a message arrives on the named channel."""
        if message.message_type == "request":
            # Return value is auto-sent as a response
            return {"answer": "v2.3", "confidence": 0.95}

    @on_message()  # No channel filter — receives all messages
    async def handle_any(self, message):
        """Called for messages on any channel."""
        logger.info(f"Got message from {message.sender}: {message.payload}")
'''

RFC_RESEARCH_AGENT = """
from openintent.agents import Agent, on_message, on_assignment

@Agent("research-agent-01")
class ResearchAgent:
    @on_assignment
    async def handle(self, intent):
        # Open/get a channel (created implicitly if it doesn't exist)
        channel = await self.channels.open("data-clarification", intent_id=intent.id)

        # Ask a question and wait for the answer
        response = await channel.ask("data-agent-01", {
            "question": "What schema version?"
        }, timeout=30)

        schema_version = response.payload["answer"]

        # Notify everyone
        await channel.broadcast({"status": "starting analysis", "schema": schema_version})

        # Fire-and-forget
        await channel.notify("logger-agent", {"phase": "research", "started": True})
"""


class Program:
    """A running program, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []

    def until(self, word: str) -> str:
        """The next line that holds a word; a failure with everything it said when there is none."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if word in line:
                return self.said[-1]
        raise AssertionError(f"it ended with {self.process.wait()} before {word!r}:\n" + "\n".join(self.said))

    def told(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and read on to the end; the exit code."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Read to the end; the exit code."""
        assert self.process.stdout is not None
        self.said += self.process.stdout.read().splitlines()
        return self.process.wait(60)


@contextmanager
def running_program(tmp_path: Path, text: str, *arguments: str) -> Iterator[Program]:
    """A Python program for as long as this lasts."""
    file = tmp_path / "program.py"
    file.write_text(text)
    command = [sys.executable, "-u", str(file), *arguments]
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=tmp_path
    )
    # A program that hangs ends a test, and not the whole run.
    patience = threading.Timer(_LONGEST_SECONDS, process.kill)
    patience.start()
    try:
        yield Program(process)
    finally:
        patience.cancel()
        process.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def running_agent(tmp_path: Path, server: ServerProcess, code: str, kind: str) -> Iterator[Program]:
    """A user's agent with the helper imported, at work."""
    folder = tmp_path / kind
    folder.mkdir(exist_ok=True)
    text = HEAD + HELPER + code + f"\n{kind}.run(sys.argv[1], sys.argv[2])\n"
    with running_program(folder, text, server.url, ADMIN_KEY) as program:
        program.until(READY)
        yield program


def client(server: ServerProcess, agent: str) -> OpenIntentClient:
    return OpenIntentClient(server.url, ADMIN_KEY, agent)


def until(found: Callable[[], object]) -> None:
    """Look again and again until something is there."""
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)
