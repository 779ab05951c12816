"""The command of Codex that puts a prompt into the queue of a thread. It is durable, and waits while a turn runs."""

from __future__ import annotations

import re
import subprocess

_SECONDS = 20.0
_DETAIL_CHARS = 200
_THREAD = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,199}")


def queue_message(command: str, thread: str, text: str) -> str:
    """Put a text into the queue of a thread; what went wrong, or "" when Codex has taken it."""
    if not _THREAD.fullmatch(thread):
        return "the session has no name that Codex could know"
    arguments = [command, "queue", "--thread", thread, "--message", text]
    try:
        ran = subprocess.run(  # noqa: S603  # the program that the settings of Codex name
            arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except OSError as error:
        return f"cannot run {command}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{command} queue took longer than {_SECONDS:g} s"
    if ran.returncode:
        detail = (ran.stderr or ran.stdout).decode("utf-8", "replace").strip()[:_DETAIL_CHARS]
        return f"{command} queue exited with {ran.returncode}: {detail}"
    return ""
