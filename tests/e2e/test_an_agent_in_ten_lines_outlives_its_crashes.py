"""An agent in ten lines, asked from a shell: it answers, is killed, is stopped, loses its server, and answers on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parley import Client
from tests.rigs.process import ADMIN_KEY, ServerProcess

pytestmark = pytest.mark.both_stores

AGENT = """\
import parley

@parley.Agent("counter", start="beginning", concurrency=1)
class Counter:
    @parley.on_message(channel="numbers")
    async def count(self, message):
        with open("seen", "a") as file:
            file.write(f"{message.payload['n']}\\n")
        return {"twice": message.payload["n"] * 2}

Counter().run()
"""


class Terminal:
    """A shell next to a server."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "PARLEY_URL": url,
            "PARLEY_KEY": ADMIN_KEY,
            "PARLEY_AGENT": "boss",
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "parley.cli.main", *words, "--json"]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.home, env=self.environment, check=False)

    def ask(self, intent: str, n: int) -> int:
        """What the agent answers to a number."""
        asked = self.run(
            "ask", "numbers", "--intent", intent, "--to", "counter", "--timeout", "60s", "--field", f"n:={n}"
        )
        assert asked.returncode == 0, asked
        return int(json.loads(asked.stdout)["payload"]["twice"])

    @contextmanager
    def agent(self, end: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
        """The agent at work, until a signal ends it."""
        environment = {name: value for name, value in self.environment.items() if name != "PARLEY_AGENT"}
        process = subprocess.Popen([sys.executable, "counter.py"], cwd=self.home, env=environment)
        try:
            yield process
        finally:
            process.send_signal(end)
            process.wait(60)

    def seen(self) -> list[int]:
        return list(map(int, (self.home / "seen").read_text().split()))


def test_an_agent_answers_through_crashes_restarts_and_a_lost_server(tmp_path: Path) -> None:
    # Given a server, an intent, and the agent's ten lines
    server = ServerProcess(tmp_path / "data")
    server.start()
    try:
        terminal = Terminal(tmp_path, server.url)
        (tmp_path / "counter.py").write_text(AGENT)
        intent = json.loads(terminal.run("intent", "create", "Count", "--access", "counter").stdout)["id"]

        # When it is asked, killed, told something while it is away, and started again
        with terminal.agent(signal.SIGKILL):
            assert terminal.ask(intent, 1) == 2
        with Client(server.url, key=ADMIN_KEY, agent="boss") as boss:
            channel = boss.open_channel(intent, "numbers").id
            boss.send_message(channel, to="counter", payload={"n": 2})
            with terminal.agent(signal.SIGTERM) as counter:
                assert terminal.ask(intent, 3) == 6

            # Then what came meanwhile is dealt with once, in its order, and it ends well
            assert counter.returncode == 0
            assert terminal.seen() == [1, 2, 3]

            # And a server that dies and comes back costs nothing
            with terminal.agent(signal.SIGTERM) as counter:
                assert terminal.ask(intent, 4) == 8
                server.kill()
                server.start()
                assert terminal.ask(intent, 5) == 10
            assert counter.returncode == 0
            assert terminal.seen() == [1, 2, 3, 4, 5]
            assert boss.get_agent("counter").status == "dead"
    finally:
        if server.process is not None:
            server.kill()
