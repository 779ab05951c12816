"""A real server in a process of its own, and commands that talk to it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rigs.process import KeptPort
from tests.surface.stage import Ran, Stage, parley_script

PATIENCE = 60


@dataclass
class Server:
    """`parley up` on a data directory; it can be killed and started again at the same address.

    `store` names a database, as `pytest --store` says; "" is a file in the directory.
    """

    data: Path
    store: str = ""
    port: int = 0
    url: str = ""
    key: str = ""
    # Settings of the server, as environment variables.
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    kept: KeptPort | None = None

    def start(self) -> Server:
        words = ["up", "--json", "--port", str(self.port), "--data", str(self.data)]
        words += ["--store", self.store] if self.store else []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
        environment |= self.variables
        self.process = subprocess.Popen(
            [sys.executable, "-m", "parley.cli.main", *words], stdout=subprocess.PIPE, env=environment, text=True
        )
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        self.url, self.key = said["url"], said["admin_key"] or self.key
        self.port = int(self.url.rpartition(":")[2])
        self.kept = None
        return self

    def kill(self) -> None:
        """As a power cut would: without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            process.wait(PATIENCE)
            self.kept = KeptPort(self.port)
            assert process.stdout is not None
            process.stdout.close()


@dataclass
class Team:
    """A server seen from a stage, with an intent of one's own to work on."""

    stage: Stage
    server: Server
    intent: str = ""
    listeners: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, *words: str, stdin: bytes = b"") -> Ran:
        return self.stage.run(*words, stdin=stdin)

    def said(self, *words: str, stdin: bytes = b"") -> Any:  # noqa: ANN401  # whatever the command says
        """The JSON of a command that must succeed."""
        ran = self.run(*words, "--json", stdin=stdin)
        assert (ran.code, ran.err) == (0, ""), ran
        return ran.json

    def channel(self, name: str = "questions", *more: str) -> str:
        made: str = self.said("channel", "create", self.intent, name, *more)["id"]
        return made

    def post(self, channel: str, *more: str, sender: str = "claude") -> str:
        posted: str = self.said("post", channel, "--agent", sender, "--wait-for-responders", *more)["id"]
        return posted

    def spawn(self, *words: str) -> subprocess.Popen[str]:
        """A command in a process of its own, to be read line by line."""
        process = subprocess.Popen(
            [parley_script(), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=self.stage.here,
        )
        self.listeners.append(process)
        return process

    def close(self) -> None:
        for process in self.listeners:
            with suppress(OSError):
                process.kill()
            process.communicate(timeout=PATIENCE)


def ended(process: subprocess.Popen[str]) -> Ran:
    """What a process said until its end."""
    out, err = process.communicate(timeout=PATIENCE)
    return Ran(process.returncode, out, err)


def typed_on_terminal(typed: str, *words: str) -> tuple[int, str]:
    """A command on a terminal of its own, and what somebody types there; the exit code and what was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([parley_script(), *words], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(PATIENCE), shown.decode()
