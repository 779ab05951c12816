"""Agents as processes, to be killed and started again; and what their journal says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Self

from tests.fault.sdk.worker import CONCURRENCY
from tests.rigs.process import ADMIN_KEY, ROOT


class AgentProcess:
    """One agent; started again it goes on where it was."""

    def __init__(self, name: str, url: str, journal: Path, *, mutant: str = "", concurrency: int = CONCURRENCY) -> None:
        self.name = name
        self.url = url
        self.journal = journal
        self._more = [mutant, str(concurrency)]
        self._log = journal.with_suffix(f".{name}.log")
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start, and return when it works."""
        command = [sys.executable, "-m", "tests.fault.sdk.worker", self.name, str(self.journal), *self._more]
        environment = {
            "PATH": os.defpath,
            "PARLEY_URL": self.url,
            "PARLEY_KEY": ADMIN_KEY,
            "HOME": str(self._log.parent),
        }
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=environment
            )
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            self.kill()
            raise AssertionError(f"{self.name} ended: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """As the operating system does when it runs out of memory."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As a service manager does; its exit code."""
        return self._end(signal.SIGTERM)

    def ended(self) -> bool:
        """Whether it has died by itself."""
        return self.process is not None and self.process.poll() is not None

    def _end(self, number: int) -> int:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(number)
        code = process.wait(120)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        return code

    def again(self) -> None:
        """Start one that has died."""
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()


def begun(journal: Path) -> Counter[str]:
    """How often a handler was called with each message, by its id."""
    return Counter(line["id"] for line in lines(journal) if "id" in line)


def ended(journal: Path) -> Counter[str]:
    """How often a handler came to its end with each message."""
    return Counter(line["ended"] for line in lines(journal) if "ended" in line)


def lines(journal: Path) -> list[dict[str, Any]]:
    """The journal. A process that is killed leaves whole lines; one that is just being written is not yet there."""
    return [json.loads(line) for line in journal.read_bytes().split(b"\n")[:-1]] if journal.exists() else []


def on_record(journal: Path) -> list[str]:
    """With which messages an agent was done when it saved its bookmark, by their ids."""
    return [one for line in lines(journal) for one in line.get("on_record", ())]
