"""A home on a temporary folder, commands that run on it, and hostile files to plant there."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from parley.adapters.files import layout
from parley.cli.main import main
from parley.sdk.mailbox import Mailbox
from tests.rigs.settled_files import settle
from tests.samples.messages import a_file

PROJECT = "demo"
AGENTS = ("claude", "codex", "gemini")
CREATED = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
# Everything by which a command could find out where and as whom it runs.
FOREIGN_VARIABLES = (
    "AGENT_NAME",
    "CLAUDECODE",
    "CLAUDE_CODE",
    "COLUMNS",
    "EDITOR",
    "FORCE_COLOR",
    "NO_COLOR",
    "VISUAL",
    "XDG_CONFIG_HOME",
)
FOREIGN_PREFIXES = ("PARLEY_", "OACP_", "CODEX_", "GEMINI_")


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever the command says
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The stable code at the end of the one error on standard error, which a line with a hint may follow."""
        error, *hint = self.err.splitlines()
        assert len(hint) <= 1, self.err
        assert all(line.startswith("hint: ") for line in hint), self.err
        assert error.startswith("error: "), self.err
        return error.rpartition(" [")[2].removesuffix("]")


@dataclass(frozen=True)
class Stage:
    """A home with one project, seen from the working directory `here`."""

    home: Path
    here: Path
    patch: pytest.MonkeyPatch

    @property
    def project(self) -> Path:
        return self.home / "projects" / PROJECT

    def agent(self, name: str) -> Path:
        return self.project / "agents" / name

    def inbox(self, name: str) -> Path:
        return self.agent(name) / "inbox"

    def files(self, name: str, place: str = "inbox") -> list[str]:
        """The message files of a place, sorted."""
        folder = self.agent(name) / place
        return sorted(path.name for path in folder.glob("*.yaml")) if folder.is_dir() else []

    def everything(self) -> dict[str, bytes]:
        """Every file below the home but the ledgers, with its content: for telling that nothing was written."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_file() and not path.is_symlink() and ".parley" not in path.parts
        }

    def plant(self, name: str, file: str = "20260313T1430Z_claude_task_request.yaml", **fields: str) -> Path:
        """A file that another tool wrote into an agent's inbox, a while ago."""
        path = self.inbox(name) / file
        path.write_bytes(a_file(**fields))
        settle(path)
        return path

    def run(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """Run a command line in this process."""
        streams = [io.TextIOWrapper(io.BytesIO(content), encoding="utf-8") for content in (stdin, b"", b"")]
        with self.patch.context() as patch, warnings.catch_warnings():
            # A command leaves its ledger open on purpose: the process that ran it would be gone by now.
            warnings.simplefilter("ignore", ResourceWarning)
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            code = main(list(arguments))
        return Ran(code, *(_written(stream) for stream in streams[1:]))

    def script(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        """Run the real `parley` in a process of its own."""
        ended = subprocess.run(
            [parley_script(), *arguments],
            input=stdin,
            env={**os.environ, **(env or {})},
            cwd=self.here,
            capture_output=True,
            check=False,
            timeout=60,
        )
        return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    def on_terminal(self, *arguments: str, columns: int = 100) -> tuple[int, str]:
        """Run the real `parley` on a terminal; its exit code and what the terminal was sent."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        try:
            process = subprocess.Popen(
                [parley_script(), *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=self.here
            )
        finally:
            os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux says EIO when the last one has left the terminal
            while part := os.read(ours, 65_536):
                shown += part
        os.close(ours)
        return process.wait(timeout=60), shown.decode().replace("\r\n", "\n")

    def send(self, *more: str, to: str = "codex", sender: str = "claude", subject: str = "Hello") -> dict[str, Any]:
        """Send a message by command and give back its JSON."""
        words = ["send", "--from", sender, "--to", to, "--subject", subject, "--json", *more]
        if not {"--type", "--kind"} & set(more):
            words += ["--type", "question"]
        if not {"--body", "--body-file", "--set"} & set(more):
            words += ["--body", "Can you look?"]
        ran = self.run(*words)
        assert ran.code == 0, ran.err
        sent: dict[str, Any] = ran.json
        return sent

    def mailbox(self, agent: str) -> Mailbox:
        return Mailbox(PROJECT, agent=agent, home=str(self.home))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode()


def parley_script() -> str:
    """The installed command, beside the interpreter that runs the tests."""
    return str(Path(sys.executable).with_name("parley"))


def bare_environment(patch: pytest.MonkeyPatch, user_home: Path) -> None:
    """An environment that says nothing about agents, with an empty home directory."""
    for name in list(os.environ):
        if name in FOREIGN_VARIABLES or name.startswith(FOREIGN_PREFIXES):
            patch.delenv(name)
    patch.setenv("HOME", str(user_home))
    patch.setenv("TERM", "xterm")


def a_home(folder: Path) -> Path:
    """A home with the project, to be copied: making one syncs every file to disk."""
    home = folder / "oacp-home"
    layout.create_project(str(home), PROJECT, AGENTS, at=CREATED)
    return home


def a_stage(folder: Path, patch: pytest.MonkeyPatch, home_to_copy: Path) -> Stage:
    """A home in `folder`, named by the environment; the working directory is empty."""
    home, here, user_home = folder / "oacp-home", folder / "here", folder / "user"
    here.mkdir()
    user_home.mkdir()
    bare_environment(patch, user_home)
    patch.chdir(here)
    patch.setenv("PARLEY_HOME", str(home))
    shutil.copytree(home_to_copy, home)
    return Stage(home, here, patch)
