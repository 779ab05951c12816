"""Why a command of the drop-in ends early, and with which exit code."""

from __future__ import annotations


class Refusal(Exception):
    """A message in the tool's own words and the exit code that goes with it."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
