"""What was asked and told, what came of it, and what must hold of that.

answered once   no agent has answered a request twice, unless it was told to
asked once      nothing that was said once is in the channel twice
kept            what was acknowledged is in the channel
called          handlers were called with everything that was for them
its own         an answer is the one to its question, by whom was asked
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.domain.errors.errors import ParleyError
from parley.domain.errors.team import AskTimeout
from parley.sdk.client.client import AsyncClient
from parley.wire.api.records.channels import ChannelMessage
from tests.fault.sdk.crew import begun, ended


@dataclass
class Asked:
    """One question and how it ended."""

    n: int
    do: str
    to: str
    answer: ChannelMessage | None = None
    error: ParleyError | None = None

    @property
    def timed_out(self) -> bool:
        return isinstance(self.error, AskTimeout)


@dataclass
class Account:
    """All that happened in one channel."""

    asked: list[Asked] = field(default_factory=list)
    told: list[ChannelMessage] = field(default_factory=list)
    channel: list[ChannelMessage] = field(default_factory=list)
    begun: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    async def close(self, client: AsyncClient, channel_id: str, journal: Path) -> Account:
        """Read the whole channel, as one who sees everything, and the journal."""
        since = 0
        while page := await client.list_messages(channel_id, since, limit=1000):
            self.channel += page
            since = page[-1].seq
        self.begun, self.ended = begun(journal), ended(journal)
        return self

    def problems(self) -> list[str]:
        """What does not hold."""
        over = self.ended.keys() | {one.correlation_id for one in self.channel}
        left = [f"dealt with: {one.id} never" for one in self._directed() if one.id not in over]
        return [*self._answers(), *self._said_once(), *self._kept(), *self._own(), *left]

    def repeated(self) -> list[str]:
        """What handlers were called with more than once."""
        return [one for one, count in self.begun.items() if count > 1]

    def _directed(self) -> list[ChannelMessage]:
        return [one for one in self.channel if one.message_type in ("request", "notify") and one.sender != "system"]

    def _answers(self) -> list[str]:
        twice = {one.id for one in self.channel if one.payload.get("do") == "twice"}
        given = Counter(
            (one.correlation_id, one.sender) for one in self.channel if one.correlation_id not in (None, *twice)
        )
        return [
            f"answered once: {request} {count} times by {by}" for (request, by), count in given.items() if count > 1
        ]

    def _said_once(self) -> list[str]:
        said = Counter((one.message_type, one.payload["n"]) for one in self._directed())
        return [f"asked once: {kind} {n} {count} times" for (kind, n), count in said.items() if count > 1]

    def _kept(self) -> list[str]:
        there = {one.id for one in self.channel}
        answers = [one.answer for one in self.asked if one.answer is not None]
        return [f"kept: {one.id} is gone" for one in (*self.told, *answers) if one.id not in there]

    def _own(self) -> list[str]:
        requests = {one.id: one for one in self.channel if one.message_type == "request"}
        found = []
        for one in self.asked:
            if one.answer is None:
                continue
            request = requests.get(str(one.answer.correlation_id))
            error: Any = one.answer.payload.get("error")
            said = error["message"].split()[-1] if error else one.answer.payload["n"]
            if (
                request is None
                or request.payload["n"] != one.n
                or str(said) != str(one.n)
                or one.answer.sender != one.to
            ):
                found.append(f"its own: {one.n} was answered by {one.answer}")
        return found
