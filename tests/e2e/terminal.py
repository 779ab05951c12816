"""A person at a terminal of 80 columns, in a fresh home: every command is typed, and no id or key is copied by hand."""

from __future__ import annotations

import os
import pty
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

COLUMNS = 80
BIN = Path(sys.executable).parent
_PATIENCE = 120
_STYLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\r")
# Whatever nobody can remember: ids of a server, of a mailbox or their ends, keys, digests.
_COPIED = re.compile(r"\b[a-z]{3,6}_[0-9A-HJKMNP-TV-Z]{26}\b|\bmsg-\d{8}|\bpk_|\bwhsec_|\b[0-9a-f]{12,}\b")


class Person:
    """Somebody who types. All terminals of one person have one home, and one list of what was typed."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.typed: list[str] = []
        self._environment = {"HOME": str(home), "PATH": f"{home}/bin:{BIN}:/usr/bin:/bin", "TERM": "xterm-256color"}
        self._environment |= {"LANG": "C.UTF-8", **environment}
        if "PYTHONPATH" in os.environ:
            self._environment["PYTHONPATH"] = os.environ["PYTHONPATH"]

    def type(self, line: str, *, code: int = 0, answer: str = "", cwd: Path | None = None, **marks: str) -> str:
        """Type a command line, and what it asks for; what is shown."""
        with self._started(line, cwd, marks) as (process, terminal):
            if answer:
                os.write(terminal, f"{answer}\n".encode())
            shown = _read_all(terminal)
        assert process.returncode == code, f"$ {line}\n{shown}"
        return shown

    @contextmanager
    def typing(self, line: str, until: str, cwd: Path | None = None) -> Iterator[None]:
        """Type a command that keeps running, and go on when it shows a text; it ends with Ctrl-C."""
        with self._started(line, cwd, {}) as (process, terminal):
            shown = b""
            while until.encode() not in shown:
                piece = _read(terminal)
                assert piece, f"$ {line}\n{shown.decode()}"
                shown += piece
            try:
                yield
            finally:
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PATIENCE)

    @contextmanager
    def _started(
        self, line: str, cwd: Path | None, marks: dict[str, str]
    ) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        assert not _COPIED.search(line), f"nobody types an id or a key: {line}"
        self.typed.append(line)
        ours, theirs = pty.openpty()
        ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd or self.home,
            env={**self._environment, **marks},
            start_new_session=True,
        )
        os.close(theirs)
        try:
            yield process, ours
            process.wait(_PATIENCE)
        finally:
            os.close(ours)
            if process.poll() is None:
                process.kill()
                process.wait()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so when the other end is closed
        return b""


def _read_all(terminal: int) -> str:
    shown = b""
    while piece := _read(terminal):
        shown += piece
    return _STYLE.sub("", shown.decode())


def wrapped_lines(shown: str) -> list[str]:
    """The lines that a terminal of 80 columns would break in the middle of a word."""
    return [
        line for line in shown.splitlines() if len(line) > COLUMNS and line[COLUMNS - 1] != " " and line[COLUMNS] != " "
    ]
