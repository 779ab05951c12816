"""What an agent is and how it works, as its class or a workflow says."""

from __future__ import annotations

from typing import Literal, NamedTuple

Start = Literal["unanswered", "now", "beginning"]


class Plan(NamedTuple):
    """An agent's name, and how it works.

    `concurrency` is how many things it deals with at once; with 1 it takes them in their order. `start` is where it
    begins when it comes for the first time: at the oldest question to it that nobody has answered, now, or at the
    beginning of all. `timeout`, in seconds, ends a call of a handler that takes longer; `drain` is how long what runs
    may take when the agent is told to stop.
    """

    name: str
    capabilities: tuple[str, ...] = ()
    role: str = ""
    title: str = ""
    concurrency: int = 10
    timeout: float | None = None
    drain: float = 30.0
    start: Start = "unanswered"
