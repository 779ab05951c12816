"""The real OACP tool beside ours: where they are, and how a test runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

BIN = Path(sys.executable).parent
OURS = [str(BIN / "parley")]
THEIRS = [str(BIN / "oacp")]
VERSION = "0.5.4"


class Ran(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


def require_peer() -> None:
    """Skip without the real tool at home; in CI it must be there."""
    if Path(THEIRS[0]).exists():
        return
    if os.environ.get("CI"):
        pytest.fail(f"oacp-cli {VERSION} is missing")
    pytest.skip(f"oacp-cli {VERSION} is missing")


def run(
    command: list[str],
    *arguments: str,
    at: Path,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> Ran:
    """Run one of the tools in `at`, with `at`/h as its home and no other word from the environment."""
    clean = {"PATH": os.defpath, "HOME": str(at), "LANG": "C.UTF-8", "OACP_HOME": "h", "COLUMNS": "80"}
    done = subprocess.run(
        [*command, *arguments], cwd=at, input=stdin, env=clean | dict(env or {}), capture_output=True, check=False
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def theirs(at: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    return run(THEIRS, *arguments, at=at, stdin=stdin, env=env)


def ours(at: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    return run([*OURS, "oacp"], *arguments, at=at, stdin=stdin, env=env)
