"""Real servers that share one PostgreSQL: several nodes of one installation, each a process of its own."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.rigs.process import ServerProcess

LOCAL = "127.0.0.1"
# A node that is not ready by then never is.
_PATIENCE = 60.0
# Who logs an error that came as far as this.
_OUTERMOST = ("asyncio", "parley.background", "parley.surfaces.http.http1.shared")


class Door(NamedTuple):
    """Where a node is reached."""

    host: str
    port: int


class Node(ServerProcess):
    """`parley up --store`; with a `mutant` it is broken in one way."""

    def __init__(
        self,
        folder: Path,
        dsn: str,
        name: str,
        *options: str,
        host: str = LOCAL,
        mutant: str = "",
        before: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.log = folder / f"{name}.log"
        # What it says goes into a file of its own.
        logged = ("/bin/sh", "-c", 'exec "$@" 2>>"$0"', str(self.log))
        super().__init__(
            folder / name, "--node", name, *options, before=(*logged, *before), environment=environment, store=dsn
        )
        if mutant:
            self._module = ["tests.fault.postgres.mutants", mutant]
        self.name = name
        self.host = host

    @property
    def door(self) -> Door:
        return Door(self.host, self.port)

    def start(self) -> None:
        """Start, and return when it is ready; one that never is, is killed."""
        late = threading.Timer(_PATIENCE, self._give_up)
        late.start()
        try:
            super().start()
        finally:
            late.cancel()

    def _give_up(self) -> None:
        if self.process is not None:
            self.process.kill()

    def surprises(self) -> list[str]:
        """Errors that nobody in the server knew what to do with."""
        # It goes on writing: the last line may be the first half of one.
        whole = self.log.read_bytes().split(b"\n")[:-1]
        lines = [json.loads(line) for line in whole if line.startswith(b"{")]
        return [
            f"{self.name}: {line['message']} {line.get('error', '')} {line.get('where', '')}"
            for line in lines
            if line["level"] == "error" and line["logger"] in _OUTERMOST
        ]

    def freeze(self) -> None:
        """It stands still, wherever it is."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on as if nothing had happened."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)


@contextmanager
def running(nodes: Sequence[Node], *, at_once: bool = True) -> Iterator[Sequence[Node]]:
    """All of them started, at once or one by one, and killed at the end."""
    try:
        for node in nodes:
            node.data.parent.mkdir(exist_ok=True)
        with ThreadPoolExecutor(len(nodes) if at_once else 1) as starting:
            list(starting.map(Node.start, nodes))
        yield nodes
    finally:
        for node in nodes:
            if node.process is not None:
                node.kill()


@contextmanager
def several(folder: Path, dsn: str, count: int, mutant: str = "") -> Iterator[Sequence[Node]]:
    """So many nodes on this machine."""
    # What is broken in a mutant need not break it while it starts.
    wanted = [Node(folder, dsn, f"n{number}", mutant=mutant) for number in range(count)]
    with running(wanted, at_once=not mutant) as nodes:
        yield nodes


def surprises(nodes: Sequence[Node]) -> list[str]:
    """What surprised any of them."""
    return [line for node in nodes for line in node.surprises()]
