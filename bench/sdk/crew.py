"""Agents as processes, to be measured: they say when they are ready, and what they have done, as lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Self

from bench.channels.processes import KEY


class AgentProcess:
    """`python -m MODULE NAME ...`, on a server."""

    def __init__(self, module: str, port: int, *arguments: str) -> None:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PARLEY_URL": f"http://127.0.0.1:{port}",
            "PARLEY_KEY": KEY,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, env=environment
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def read_report(self) -> Any:  # noqa: ANN401  # whatever it has to say
        """The next thing that it says."""
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the agent has ended")
        return json.loads(line)


def say(**fields: object) -> None:
    """Tell it to whoever measures."""
    print(json.dumps(fields), flush=True)
