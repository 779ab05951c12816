"""Fresh processes at the price of a fork, and a tracer that kills them or lets a system call fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("worker.py")
PATIENCE = 300.0  # a stuck process is a failure, a slow machine is none

# Everything that changes a file, a name or a lock, or makes one durable; whatever happens between two of these
# leaves no trace that a crash could show.
CALLS = (
    "openat", "write", "pwrite64", "ftruncate", "fallocate", "fsync", "fdatasync", "linkat", "link", "unlink",
    "unlinkat", "rename", "renameat", "renameat2", "flock", "fchmod", "mkdir", "mkdirat",
)  # fmt: skip
_CALL = re.compile(r"^(?:\d+\s+)?(?P<name>[a-z0-9]+)\((?P<arguments>.*)$")

# Set for senders that put what they send under the rules of an exchange.
RULES = "PARLEY_TEST_RULES"


def environment(mutant: str = "") -> dict[str, str]:
    """For a worker: able to import the tests and Parley, with compiled modules kept aside."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", RULES) if name in os.environ}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        "PYTHONPYCACHEPREFIX": str(ROOT / ".pytest_cache" / "workers"),
        "PARLEY_TEST_MUTANT": mutant,
    }


def start(*arguments: str, mutant: str = "") -> subprocess.Popen[str]:
    """A worker; it says `ready` and lives until its standard input is closed or its work is done."""
    return subprocess.Popen(
        [sys.executable, str(WORKER), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(mutant),
    )


class Boundary(NamedTuple):
    """The moment before the `number`-th call of one name."""

    call: str
    number: int

    def __str__(self) -> str:
        return f"{self.call}:{self.number}"


class Outcome(NamedTuple):
    """What an act said, how it ended (0, or minus the signal that killed it), and its calls if they were traced."""

    said: list[str]
    status: int
    boundaries: list[Boundary]

    @property
    def acknowledged(self) -> list[str]:
        return [line.split()[1] for line in self.said if line.startswith("ok ")]

    @property
    def errors(self) -> list[str]:
        return [line.split()[1] for line in self.said if line.startswith("error ")]

    @property
    def killed(self) -> bool:
        return self.status == -9


class Stage:
    """Runs one act at a time, each in a process of its own."""

    def __init__(self, folder: Path, mutant: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._count = 0
        self._process = start("stage", mutant=mutant)

    def act(
        self,
        name: str,
        home: Path,
        agent: str,
        *,
        inject: str | None = None,
        user: tuple[int, int, list[int]] | None = None,
        umask: int | None = None,
        **options: object,
    ) -> Outcome:
        """Perform an act with these options; the rest as in `perform`."""
        return self.perform(name, home, agent, options, inject=inject, user=user, umask=umask)

    def perform(
        self,
        name: str,
        home: Path,
        agent: str,
        options: Mapping[str, object],
        *,
        inject: str | None = None,
        user: tuple[int, int, list[int]] | None = None,
        umask: int | None = None,
    ) -> Outcome:
        """Perform an act; `inject` is what strace injects behind the gate, "" to trace and inject nothing."""
        self._count += 1
        out = self._folder / f"{self._count}.out"
        gate = self._folder / f"{self._count}.gate"
        order: dict[str, Any] = {"act": name, "home": str(home), "agent": agent, "options": options, "out": str(out)}
        order["gate"] = str(gate) if inject is not None else ""
        if user is not None:
            order["user"] = user
        if umask is not None:
            order["umask"] = umask
        boundaries: list[Boundary] = []
        if inject is None:
            self._tell(order)
            self._hear()
        else:
            boundaries = self._traced(order, inject, gate, out)
        status = int(self._hear())
        said = [line for line in out.read_text(encoding="utf-8").splitlines() if line != "at the gate"]
        out.unlink()
        outcome = Outcome(said, status, boundaries)
        assert status in (0, -9), "\n".join(said).replace(" | ", "\n")
        return outcome

    def _traced(self, order: dict[str, Any], inject: str, gate: Path, out: Path) -> list[Boundary]:
        os.mkfifo(gate)
        trace = self._folder / f"{self._count}.trace"
        opener = os.open(gate, os.O_RDWR)
        self._tell(order)
        pid = int(self._hear())
        try:
            until(lambda: _is_over(pid) or (out.exists() and b"at the gate" in out.read_bytes()))
            calls = inject.partition(":")[0] if inject else ",".join(CALLS)
            command = ["strace", "-qq", "-o", str(trace), "-e", f"trace={calls}", "-e", "signal=none"]
            command += ["-e", f"inject={inject}"] if inject else []
            with subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.PIPE, text=True) as tracer:
                until(lambda: _is_traced(pid) or tracer.poll() is not None)
                os.write(opener, b"x")
                _, complaint = tracer.communicate(timeout=PATIENCE)
                assert not complaint, complaint
        finally:
            os.write(opener, b"x")
            os.close(opener)
            gate.unlink()
        return [] if inject else boundaries_of(trace.read_text(encoding="utf-8"))

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=5 if kind else PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def until(holds: Callable[[], bool]) -> None:
    """Poll: nothing tells us that a process stands at its gate with a tracer beside it, except looking."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _is_over(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def _is_traced(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return "\nTracerPid:\t0\n" not in status


def boundaries_of(trace: str) -> list[Boundary]:
    """Every call that can leave a trace, numbered as strace numbers it: by name."""
    counts: Counter[str] = Counter()
    found = []
    for line in trace.splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        name = match["name"]
        counts[name] += 1
        if name != "openat" or "O_CREAT" in match["arguments"] or "O_TMPFILE" in match["arguments"]:
            found.append(Boundary(name, counts[name]))
    return found


def make_home(home: Path, agents: Iterable[str]) -> Path:
    """As little of a project as mailboxes need."""
    for agent in agents:
        folder = home / "projects" / "demo" / "agents" / agent
        for name in ("inbox", "inbox/archive", "outbox", "dead_letter"):
            (folder / name).mkdir(parents=True)
    return home


def agent_folder(home: Path, agent: str) -> Path:
    return home / "projects" / "demo" / "agents" / agent
