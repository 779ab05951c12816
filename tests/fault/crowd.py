"""Many processes at one mailbox."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from tests.fault.history import Record, Recorder, check, load, look
from tests.fault.stage import PATIENCE, agent_folder, make_home, start

READER = "reader"


class Crowd:
    """Senders and readers of the mailbox of `reader`, with the history of what they do."""

    def __init__(
        self, folder: Path, senders: int, *, lease: str = "", mutant: str = "", home: Path | None = None
    ) -> None:
        self.agents = [f"sender{number}" for number in range(senders)]
        self.home = make_home(home or folder / "home", [*self.agents, READER])
        self.history = folder / "history"
        self.history.mkdir(parents=True)
        self.lease = lease
        self._mutant = mutant
        self._numbers = itertools.count()
        self._recorder = Recorder(self.history, "crowd")
        self._running: dict[str, subprocess.Popen[str]] = {}

    def add_sender(self, agent: str, count: int = 0) -> str:
        client = f"s{next(self._numbers)}"
        self._add(client, "send", str(self.home), agent, READER, client, str(self.history), str(count))
        return client

    def add_reader(self) -> str:
        client = f"r{next(self._numbers)}"
        self._add(client, "read", str(self.home), READER, client, str(self.history), self.lease)
        return client

    def add_observer(self) -> str:
        client = f"o{next(self._numbers)}"
        self._add(client, "observe", str(self.home), READER, client, str(self.history))
        return client

    def _add(self, client: str, *arguments: str) -> None:
        self._running[client] = start(*arguments, mutant=self._mutant)

    def wait_ready(self, client: str) -> None:
        stdout = self._running[client].stdout
        assert stdout is not None
        assert stdout.readline() == "ready\n"

    def kill(self, client: str) -> None:
        """As the kernel does when memory runs out: no last word."""
        self._recorder.note("kill", "ok", client)
        self._running[client].send_signal(signal.SIGKILL)
        self._forget(client)

    def finish(self, kind: str) -> None:
        """Tell all clients of one kind (s, r or o) that it is enough, and wait for their end."""
        for client in self.clients(kind):
            stdin = self._running[client].stdin
            assert stdin is not None
            stdin.close()
        self.join(kind)

    def join(self, kind: str) -> None:
        """Wait until all clients of one kind have done what they were asked for."""
        failed = []
        for client in self.clients(kind):
            process = self._running[client]
            process.wait(timeout=PATIENCE)
            if process.returncode:
                failed.append(client)
            self._forget(client)
        assert not failed, failed

    def _forget(self, client: str) -> None:
        process = self._running.pop(client)
        process.wait(timeout=PATIENCE)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def clients(self, *kinds: str) -> list[str]:
        return [client for client in self._running if client.startswith(kinds)]

    def abandon(self) -> None:
        """For a test that failed: leave no process behind."""
        for client in self.clients(""):
            self._running[client].kill()
            self._forget(client)

    def records(self) -> list[Record]:
        records = load(self.history)
        return [r._replace(client=r.tag, tag="") if r.op == "kill" else r for r in records]

    def violations(self) -> list[str]:
        mail = {agent: look(agent_folder(self.home, agent)) for agent in (*self.agents, READER)}
        seconds = float(self.lease[:-1]) if self.lease else None
        found = check(self.records(), mail, seconds)
        found += [f"{agent} has the stray file {name}" for agent, places in mail.items() for name in places.strays]
        return found

    def count(self, op: str, phase: str = "ok") -> int:
        return sum(1 for record in self.records() if (record.op, record.phase) == (op, phase))


def pass_time(seconds: float) -> None:
    """Let the others run for a moment; what happens in it is theirs."""
    time.sleep(seconds)


def chance(seed: object) -> random.Random:
    """Chances of one test run, repeatable by the seed that pytest-randomly prints."""
    return random.Random(f"{seed} {os.environ.get('PYTEST_XDIST_WORKER', '')}")
