"""A coding agent in a terminal that nobody looks at: `tmux` with a server of its own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.programs import Workplace
from tests.harness.scripted_model import LIMIT_SECONDS

_LOOK_SECONDS = 0.05


class Terminal:
    """The screen and the keyboard of one program."""

    def __init__(self, place: Workplace, *options: str) -> None:
        self._place = place
        self._socket = f"{place.home.parent}/tmux"
        command = shlex.join([*place.program.terminal_command, *options])
        size = ("-x", "120", "-y", "40")
        self._tmux("new-session", "-d", *size, "-c", str(place.repository), f"exec {command}")
        self.pid = int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server", check=False)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments]
        ran = subprocess.run(command, env=self._place.environment, capture_output=True, text=True, check=check)
        return ran.stdout

    def screen(self) -> str:
        """What a person would see."""
        return self._tmux("capture-pane", "-p", check=False)

    def press(self, *keys: str) -> None:
        """Press keys by their names, such as Enter."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text, without the Enter key."""
        self._tmux("send-keys", "-l", text)

    def wait_for(self, *texts: str, seconds: float = LIMIT_SECONDS) -> str:
        """Wait until the screen shows one of these texts, and say which."""
        deadline = time.monotonic() + seconds
        while True:
            screen = self.screen()
            for text in texts:
                if text in screen:
                    return text
            if time.monotonic() > deadline:
                raise TimeoutError(f"the screen does not show {' or '.join(texts)}:\n{screen}")
            time.sleep(_LOOK_SECONDS)

    def kill(self) -> None:
        """End the program as a power cut would, and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        while Path(f"/proc/{self.pid}").exists() and "State:\tZ" not in _status(self.pid):
            time.sleep(_LOOK_SECONDS)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "State:\tZ"
