"""The workplace of an agent, a server or a file mailbox: what the runtime needs of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from parley.sdk.agent.channels import AgentChannels
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.protocol.failures import Failure
    from parley.wire.api.records.channels import ChannelMessage, ForwardedRequest
    from parley.wire.api.records.intents import Intent
    from parley.wire.api.records.rules import Approval


@dataclass(slots=True)
class JobLease:
    """A job that this process has claimed, and what happens when it is lost to another."""

    id: str
    message_id: str
    lease: str
    attempts: int
    on_lost: Callable[[], object] | None = None
    # It was answered, given back or lost.
    ended: bool = False


class Arrival(NamedTuple):
    """Something that arrived for the agent; exactly one of message, intent, approval and withdrawn is there.

    `withdrawn` is the id of a request whose sender no longer wants an answer. `place` is the workplace's own reference
    to it. `job` is there when it was claimed from a queue.
    """

    place: Any
    message: ChannelMessage | None = None
    intent: Intent | None = None
    approval: Approval | None = None
    withdrawn: str = ""
    job: JobLease | None = None

    @property
    def id(self) -> str:
        """Its id in logs."""
        if self.withdrawn:
            return self.withdrawn
        return next(record.id for record in (self.message, self.intent, self.approval) if record is not None)


class IntentScope:
    """The one intent that an agent works on; set before the agent opens its bookmark."""

    def __init__(self, intent_id: str = "") -> None:
        self.intent_id = intent_id


class Workplace(Protocol):
    """The place where one agent works. All verbs are for one event loop."""

    # How many arrivals may be taken while all handlers are busy.
    read_ahead: int

    @property
    def channels(self) -> AgentChannels:
        """The agent's channels there."""

    @property
    def client(self) -> AsyncClient | None:
        """A client that speaks for the agent; None where there is no server."""

    async def register(self) -> None:
        """Check that the agent can work there, without taking anything over."""

    async def open(self) -> None:
        """Begin to work there, in the place of a process that does so already."""

    def arrivals(self) -> AsyncGenerator[Arrival]:
        """What is for the agent, from where it had come before, without end. Closing it stops the stream."""

    async def answer(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Answer a request, once, however often this is called for the same one. Durable on return."""

    async def report_failed_assignment(self, arrival: Arrival, failure: Failure) -> None:
        """Record that the agent failed at an assignment, once, where others can see it. Durable on return."""

    async def send_part(self, message: ChannelMessage, payload: Mapping[str, Any], kind: str, number: int) -> str:
        """Send a partial answer of this kind, the same one once; the id of its message."""

    async def forward(self, message: ChannelMessage, forward: ForwardedRequest) -> None:
        """Hand a request on, once, however often this is called for the same one."""

    async def is_awaited_answer(self, response: ChannelMessage) -> bool:
        """Whether a response was delivered to a caller that asked through `channels`, so that no handler gets it."""

    async def claim(self, most: int) -> list[Arrival] | None:
        """Wait for jobs that this agent may claim, at most so many; none when none came for a while.

        None where there are no queues.
        """

    async def retry_later(self, arrival: Arrival, problem: str, pause: float) -> None:
        """Give a claimed job back, to be tried again after a pause."""

    async def release(self, arrival: Arrival) -> None:
        """Give a claimed job back as if it had not been claimed."""

    async def finish(self, arrival: Arrival, problem: str = "", attempts: int = 1) -> None:
        """Mark an arrival as handled: it must not arrive again, also after a restart.

        `problem` is why nobody could deal with it, where nobody was told so, and `attempts` how often it was tried: it
        becomes a dead letter.
        """

    async def run_upkeep(self) -> None:
        """Save what is finished, until cancelled. Raises when another process has taken over the agent."""

    async def heartbeat(self, load: int) -> float | None:
        """Send a heartbeat with the load; returns the seconds until the next one.

        None: the agent is to stop.
        """

    async def announce_stopping(self) -> None:
        """Announce that the agent accepts no more work."""

    async def close(self) -> None:
        """Leave: finished work is saved, the rest arrives again."""
