"""A coding agent as a program that is talked to in lines of JSON on its standard input and output."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Document = dict[str, Any]

_END_SECONDS = 5.0
_LINE_MAX_BYTES = 16 * 1024 * 1024


class Program:
    """A running program, in a session of its own: signals for us do not reach it, and all that it starts ends with it.

    What is no JSON object is passed over: programs print notes, too.
    """

    def __init__(self, command: Sequence[str], cwd: str, environment: Mapping[str, str]) -> None:
        self.name = os.path.basename(command[0])
        try:
            self._process = subprocess.Popen(  # noqa: S603  # the program that the user named
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"cannot start {command[0]}: {error.strerror}") from None
        self._documents: queue.Queue[Document | None] = queue.Queue()
        threading.Thread(target=self._read_all, daemon=True).start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def _read_all(self) -> None:
        output = self._process.stdout
        assert output is not None  # noqa: S101  # a pipe was asked for
        with suppress(OSError, ValueError):  # closed while it was read
            while line := output.readline(_LINE_MAX_BYTES):
                with suppress(ValueError, RecursionError):
                    document = json.loads(line)
                    if isinstance(document, dict):
                        self._documents.put(document)
        self._documents.put(None)

    def write(self, document: Document) -> None:
        """Send a document; `Unavailable` when the program has ended."""
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101  # a pipe was asked for
        try:
            stdin.write(json.dumps(document).encode() + b"\n")
            stdin.flush()
        except (OSError, ValueError):
            raise self._ended() from None

    def read(self, seconds: float) -> Document | None:
        """The next document; None when none came in time, `Unavailable` when the program has ended."""
        try:
            document = self._documents.get(timeout=seconds)
        except queue.Empty:
            return None
        if document is None:
            self._documents.put(None)
            raise self._ended()
        return document

    def drain(self) -> None:
        """Forget what was sent so far; `Unavailable` when the program has ended."""
        while self.read(0.0) is not None:
            pass

    def _ended(self) -> Unavailable:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        code = self._process.returncode
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        return Unavailable(f"{self.name} ended {how}")

    def end(self) -> None:
        """End the program and what it started: by the end of its input, then by signals."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)
                break
        # What it started and did not end itself.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.stdout is not None:
            with suppress(OSError):
                self._process.stdout.close()
