"""The `parley` command as an agent's shell runs it: a process of its own each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from parley.cli.exits import NO_MESSAGE


class Shell(NamedTuple):
    """The terminal of one agent."""

    home: Path
    agent: str = ""
    # With which the agent's person decides.
    key: str = ""

    def run(self, *arguments: str, body: str = "") -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "parley.cli.main", *arguments],
            input=body,
            capture_output=True,
            text=True,
            cwd=self.home,
            env=self.environment(),
            check=False,
        )

    def say(self, *arguments: str, body: str = "") -> Any:  # noqa: ANN401  # whatever the command says
        """Run a command that must succeed; what it said in JSON. `next` may find nothing."""
        ran = self.run(*arguments, "--json", body=body)
        said = json.loads(ran.stdout or '""')
        code = NO_MESSAGE if said is None and arguments[0] == "next" else 0
        assert (ran.returncode, ran.stderr) == (code, ""), ran
        return said

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
        named = {"PARLEY_HOME": str(self.home / "oacp"), "PARLEY_AGENT": self.agent, "PARLEY_HUMAN_KEY": self.key}
        return {**kept, "HOME": str(self.home), **{name: value for name, value in named.items() if value}}

    def folder(self, *names: str) -> Path:
        return self.home.joinpath("oacp", "projects", "demo", "agents", self.agent, *names)

    def files(self, *names: str) -> list[str]:
        return sorted(path.name for path in self.folder(*names).glob("*.yaml"))


def agents(home: Path, *names: str) -> list[Shell]:
    """A new project, and the terminals of its agents."""
    ran = Shell(home).run("init", "demo", "--agents", ",".join(names))
    assert ran.returncode == 0, ran
    return [Shell(home, name) for name in names]
