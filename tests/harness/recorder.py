"""Parley, with a copy of what hooks and MCP servers are given on standard input. Copied into the folder of a test."""

import os
import sys
import threading
import time

from parley.cli.main import entry

_FOLDER = "RECORD"


def _copy(source: int, target: int, path: str) -> None:
    with open(path, "ab", buffering=0) as file:
        while chunk := os.read(source, 65_536):
            file.write(chunk)
            os.write(target, chunk)
    os.close(target)


def _record(kind: str) -> None:
    """Put a pipe in front of standard input; a thread passes on what comes, and keeps a copy."""
    source = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    path = f"{_FOLDER}/{kind}-{time.time_ns()}-{os.getpid()}"
    threading.Thread(target=_copy, args=(source, writing, path), daemon=True).start()


if sys.argv[1:2] == ["hook"] and "wait" not in sys.argv:
    _record("hook")
elif sys.argv[1:2] == ["mcp"]:
    _record("mcp")
entry()
