"""Channels as an agent uses them: open one by its name, then ask, notify and broadcast in it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from parley.domain.errors.errors import Invalid
from parley.sdk.protocol.failures import check_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.channels import ChannelMessage

# The intent on which the handler that runs now was called.
current_intent: ContextVar[str] = ContextVar("current_intent", default="")
# The trace of the message that the handler was called with: what the handler says belongs to it, too.
current_trace: ContextVar[str] = ContextVar("current_trace", default="")

_ROLE = "role:"
# How many answers are remembered; the stream shows each of them soon after it was taken.
_TAKEN_LIMIT = 10_000


def with_trace(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Metadata with the trace of the message that is handled now, unless it names one; None when there is nothing."""
    trace = current_trace.get()
    return {**({"trace_id": trace} if trace else {}), **(metadata or {})} or None


class ChannelHandle(Protocol):
    """An open channel."""

    name: str

    async def ask(
        self,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30,
        check: bool = True,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask an agent or `role:ROLE` and wait for the first answer. `MessageTimeoutError` when none comes in time.

        `AgentFailed` when the answer is an error; with `check=False` such an answer is returned. A handler that lets
        `AgentFailed` pass answers with its cause.
        """

    async def ask_all(
        self,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time."""

    async def notify(self, to: str, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell one agent, or the holders of a role, without waiting for anything."""

    async def broadcast(self, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell everyone in the channel."""


class AgentChannels(Protocol):
    """The channels of an agent."""

    async def open(self, name: str, intent_id: str = "", **options: Any) -> ChannelHandle:  # noqa: ANN401
        """The channel of this name, which is created when it does not exist.

        `intent_id` may be left out in a handler: it is the intent of what the handler was called with. `options` are
        those of `Client.create_channel`: members, member_policy, options; they matter only when it is created.
        """


class ServerQuestions:
    """The open questions of an agent, so that their answers go to the caller that asked, and not to a handler too."""

    def __init__(self) -> None:
        # By the channel; to whom each went, if that is known.
        self._open: dict[str, dict[asyncio.Future[None], str]] = {}
        self._taken: dict[str, None] = {}

    async def wait_for_answer(self, channel_id: str, question: Any, to: str = "") -> Any:  # noqa: ANN401  # whatever is awaited
        """Await a question in a channel and remember what answered it."""
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.setdefault(channel_id, {})[end] = "" if to.startswith(_ROLE) else to
        try:
            answer = await question
            for message in answer if isinstance(answer, list) else [answer]:
                self._taken[message.id] = None
            while len(self._taken) > _TAKEN_LIMIT:
                del self._taken[next(iter(self._taken))]
            return answer
        finally:
            end.set_result(None)
            open_questions = self._open[channel_id]
            del open_questions[end]
            if not open_questions:
                del self._open[channel_id]

    async def has_taken(self, answer: ChannelMessage) -> bool:
        """Whether an answer went to a question; known at the latest when those that it can be for have ended."""
        open_questions = self._open.get(answer.channel_id, {})
        pending = {end for end, to in open_questions.items() if to in ("", answer.sender)}
        while answer.id not in self._taken and pending:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        return answer.id in self._taken


class ServerChannel:
    """A channel on a server."""

    def __init__(
        self, client: AsyncClient, questions: ServerQuestions, channel_id: str, name: str, intent_id: str
    ) -> None:
        self.id = channel_id
        self.name = name
        self.intent_id = intent_id
        self._client = client
        self._questions = questions

    async def ask(
        self,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30,
        check: bool = True,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask an agent or `role:ROLE` and wait for the first answer."""
        question = self._client.ask(self.id, None, to, payload, timeout, metadata=with_trace(metadata), check=False)
        answer: ChannelMessage = await self._questions.wait_for_answer(self.id, question, to)
        return check_answer(answer) if check else answer

    async def ask_all(
        self,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time."""
        question = self._client.ask_all(self.id, None, to, payload, timeout, metadata=with_trace(metadata))
        answers: list[ChannelMessage] = await self._questions.wait_for_answer(self.id, question, to)
        return answers

    async def notify(self, to: str, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell one agent, or the holders of a role, without waiting for anything."""
        return await self._client.send_message(self.id, None, to, "notify", payload, metadata=with_trace(metadata))

    async def broadcast(self, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell everyone in the channel."""
        return await self._client.send_message(self.id, None, "*", "broadcast", payload, metadata=with_trace(metadata))


class ServerChannels:
    """The channels of a server."""

    def __init__(self, client: AsyncClient, questions: ServerQuestions) -> None:
        self._client = client
        self._questions = questions

    async def open(self, name: str, intent_id: str = "", **options: Any) -> ServerChannel:  # noqa: ANN401
        """The channel of this name on an intent, which is created when it does not exist."""
        intent = intent_id or current_intent.get()
        if not intent:
            raise Invalid(f"on which intent is the channel {name!r}?", hint="channels.open(name, intent_id=...)")
        channel = await self._client.open_channel(intent, name, **options)
        return ServerChannel(self._client, self._questions, channel.id, channel.name, intent)
