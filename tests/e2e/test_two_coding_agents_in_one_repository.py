"""Claude Code and Codex in one repository, with the commands that a person types and nothing copied by hand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


class Terminal:
    """A shell of one coding agent, somewhere inside the repository."""

    def __init__(self, user: Path, folder: Path, mark: str = "") -> None:
        self._folder = folder
        self._environment = {"HOME": str(user), "PATH": f"{user}/bin:{BIN}:/usr/bin:/bin"}
        if mark:
            self._environment[mark] = "1"

    def start(self, line: str) -> subprocess.Popen[str]:
        """Type a command line."""
        return subprocess.Popen(
            shlex.split(line),
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def type(self, line: str, code: int = 0) -> str:
        """Type a command line and read what it prints."""
        return printed(self.start(line), code)


def printed(process: subprocess.Popen[str], code: int = 0) -> str:
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (code, ""), (out, err)
    return out


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user who has Claude Code and Codex, a project from before, and a repository."""
    (tmp_path / "bin").mkdir()
    for command in ("claude", "codex"):
        (tmp_path / "bin" / command).touch(mode=0o755)
    for folder in ("src/api", "tests"):
        (tmp_path / "app" / folder).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path / "app")], check=True)
    Terminal(tmp_path, tmp_path).type("parley init before --agents claude,codex")
    return tmp_path


@pytest.mark.parametrize("options", ["", " --here"])
def test_one_asks_and_the_other_answers_from_any_folder(user: Path, options: str) -> None:
    app = user / "app"
    claude = Terminal(user, app / "src" / "api", "CLAUDECODE")
    codex = Terminal(user, app / "tests", "CODEX_SHELL")

    # Given a repository that was set up with one command
    assert "Agents: claude, codex (installed on this machine)" in Terminal(user, app).type(f"parley init{options}")

    # When Codex waits for work, and Claude asks and waits for the answer
    waiting = codex.start("parley next --wait 1m")
    asking = claude.start("parley send codex 'mTLS or JWT for internal calls?' --wait 1m")
    question = printed(waiting)
    codex.type("parley reply --body 'Signed JWTs.'")
    codex.type("parley done")

    # Then each has read the other, and nothing is left over
    assert question.endswith("\n\nmTLS or JWT for internal calls?\n")
    assert printed(asking).endswith("\n\nSigned JWTs.\n")
    assert claude.type("parley next", code=14) == "No message for claude.\n"
    assert codex.type("parley next", code=14) == "No message for codex.\n"
    # And neither the other project nor the repository was touched
    assert Terminal(user, user).type("parley inbox --all --project before --home oacp") == "2 inboxes, all empty.\n"
    status = ["git", "-C", str(app), "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""
    assert os.path.isdir(app / ".parley") == bool(options)
