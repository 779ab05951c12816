"""Running a command where nothing but loopback can be reached, and from where no process outlives it.

`python -m tests.harness.isolation COMMAND...` fetches the coding agents, and runs the command in namespaces of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from tests.harness import packages

_NEEDED = {"unshare": "util-linux", "ip": "iproute2", "tmux": "tmux", "node": "nodejs", "git": "git"}


def is_isolated() -> bool:
    """Whether loopback is the only network interface of this process."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    return [line.partition(":")[0].strip() for line in lines] == ["lo"]


def isolated_command(command: list[str]) -> list[str]:
    """The command in a network of its own, with process numbers of its own: when it ends, so does all it started."""
    spaces = ["--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
    if os.geteuid():
        spaces.append("--map-root-user")
    return ["unshare", *spaces, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]


def missing_programs() -> list[str]:
    """The system packages that have to be installed first."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [package for program, package in _NEEDED.items() if shutil.which(program, path=path) is None]


def main(command: list[str]) -> NoReturn:
    """Fetch the programs, then run the command in isolation in place of this process."""
    if missing := missing_programs():
        sys.exit(f"error: the tests with real coding agents need {', '.join(missing)}; install them")
    packages.fetch_all()
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    full = isolated_command(command)
    os.execvp(full[0], full)


if __name__ == "__main__":
    main(sys.argv[1:])
