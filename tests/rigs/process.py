"""A real server as a process of its own, for tests that kill it or speak to it with other people's clients."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.rigs.chosen_store import a_database, database_of_the_test

ROOT = Path(__file__).resolve().parents[2]
ADMIN_KEY = "an-admin-key-for-tests-that-is-long-enough"


class KeptPort:
    """Keeps the port of a server that has ended for the one that comes after it.

    All the time other tests ask the system for any port that is free: they are not given this one. It is only bound,
    so nobody is answered there, and who asks for it by its number may listen on it.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # elsewhere it would keep the successor out, too
            with suppress(OSError):  # somebody was faster: the successor will say so
                self._socket.bind(("127.0.0.1", port))

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        # No other may come: then it goes with the server that it was for.
        self.close()


class ServerProcess:
    """`parley up` on a folder; started again it has the same address.

    `store` names a database; without one it is as `pytest --store` says, and what is in it is gone after the test.
    """

    def __init__(
        self,
        data: Path,
        *options: str,
        port: int = 0,
        environment: dict[str, str] | None = None,
        mutant: str = "",
        before: tuple[str, ...] = (),
        store: str = "",
    ) -> None:
        self.data = data
        self.store = store or database_of_the_test(data)
        self._module = ["tests.fault.team.mutants", mutant] if mutant else ["parley.cli.main"]
        self._before = before
        self.port = port
        self.url = ""
        self._options = options
        self._environment = environment or {}
        self.process: subprocess.Popen[bytes] | None = None
        self._kept: KeptPort | None = None

    def start(self) -> None:
        """Start, and return when it is ready."""
        command = [*self._before, sys.executable, "-m", *self._module, "up", "--json", "--port", str(self.port)]
        command += ["--data", str(self.data), *self._options]
        command += ["--store", self.store] if self.store else []
        environment = {
            "PATH": os.defpath,
            "HOME": str(self.data.parent),
            "PARLEY_ADMIN_KEY": ADMIN_KEY,
            **self._environment,
        }
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the server ended with {self.process.wait()}"
        self.url = json.loads(line)["url"]
        self.port = int(self.url.rsplit(":", 1)[1])
        self._kept = None

    def kill(self) -> None:
        """As the operating system does when it runs out of memory."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As a service manager does; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._kept = KeptPort(self.port)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code


@contextmanager
def running(
    data: Path, *options: str, environment: dict[str, str] | None = None, store: str = ""
) -> Iterator[ServerProcess]:
    """A server for as long as this lasts."""
    with a_database(data) as own:
        server = ServerProcess(data, *options, environment=environment, store=store or own)
        server.start()
        try:
            yield server
        finally:
            if server.process is not None:
                server.kill()
