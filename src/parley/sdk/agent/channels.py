"""Channels as an agent uses them: open one by its name, then ask, notify and broadcast in it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from parley.domain.errors.errors import Invalid
from parley.sdk.protocol.asking import continued
from parley.sdk.protocol.failures import check_answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.channels import ChannelMessage

# The intent on which the handler that runs now was called.
current_intent: ContextVar[str] = ContextVar("current_intent", default="")
# The trace of the message that the handler was called with: what the handler says belongs to it, too.
current_trace: ContextVar[str] = ContextVar("current_trace", default="")

_ROLES = ("role:", "any:")
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
        payload: object,
        *,
        timeout: float = 30,
        check: bool = True,
        wait_for_responders: bool = False,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask an agent or `role:ROLE` and wait for the first answer. `MessageTimeoutError` when none comes in time.

        `AgentFailed` when the answer is an error; with `check=False` such an answer is returned. A handler that lets
        `AgentFailed` pass answers with its cause. `NoResponders` at once when no such agent is known, or nobody holds
        the role; with `wait_for_responders=True` the question waits for one.
        """

    def ask_stream(
        self,
        to: str,
        payload: object,
        *,
        timeout: float = 30,
        wait_for_responders: bool = False,
        **metadata: Any,  # noqa: ANN401
    ) -> AsyncGenerator[ChannelMessage]:
        """Ask, and follow the partial answers as they come; the last one is the answer."""

    async def ask_all(
        self,
        to: str,
        payload: object,
        *,
        timeout: float = 30,
        wait_for_responders: bool = False,
        **metadata: Any,  # noqa: ANN401
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time."""

    async def follow_up(
        self,
        answer: ChannelMessage,
        payload: object,
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask on after an answer, such as a question in return (`answer.is_question`): the same agent, conversation."""

    async def notify(self, to: str, payload: object, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell one agent, or the holders of a role, without waiting for anything."""

    async def broadcast(self, payload: object, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell everyone in the channel."""


class AgentChannels(Protocol):
    """The channels of an agent."""

    async def open(self, name: str, intent_id: str = "", **options: Any) -> ChannelHandle:  # noqa: ANN401
        """The channel of this name, which is created when it does not exist.

        `intent_id` may be left out in a handler: it is the intent of what the handler was called with. `options` are
        those of `Client.create_channel`: members, member_policy, options; they matter only when it is created.
        """

    async def open_direct(self, agent: str) -> ChannelHandle:
        """The channel of this agent with another one, which nobody else sees."""


class OpenQuestion:
    """A question that waits for its answers. To whom it went, if that is known; the request's id as soon as it is."""

    def __init__(self, to: str) -> None:
        self.to = "" if to.startswith(_ROLES) else to
        self.request_id = ""
        self.has_ended = False
        # Resolved when one of the two changes.
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def change(self, *, request_id: str = "", ended: bool = False) -> None:
        """Note the request, or the end, and wake those who look whether an answer is for this question."""
        self.request_id, self.has_ended = request_id or self.request_id, ended
        self.changed.set_result(None)
        self.changed = asyncio.get_running_loop().create_future()


class DirectHandle:
    """The direct channel of an agent with another one; it is opened when it is used."""

    def __init__(self, channels: AgentChannels, agent: str) -> None:
        self.agent = agent
        self._channels = channels
        self._channel: ChannelHandle | None = None

    async def _opened(self) -> ChannelHandle:
        if self._channel is None:
            self._channel = await self._channels.open_direct(self.agent)
        return self._channel

    async def ask(
        self,
        payload: object,
        *,
        timeout: float = 30,
        check: bool = True,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask the other agent and wait for its answer."""
        return await (await self._opened()).ask(self.agent, payload, timeout=timeout, check=check, **metadata)

    async def ask_stream(
        self,
        payload: object,
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> AsyncGenerator[ChannelMessage]:
        """Ask the other agent, and follow its partial answers as they come; the last one is the answer."""
        answers = (await self._opened()).ask_stream(self.agent, payload, timeout=timeout, **metadata)
        async with aclosing(answers):
            async for answer in answers:
                yield answer

    async def notify(self, payload: object, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell the other agent something, without waiting for anything."""
        return await (await self._opened()).notify(self.agent, payload, **metadata)

    async def follow_up(
        self,
        answer: ChannelMessage,
        payload: object,
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask on after an answer, in the same conversation."""
        return await (await self._opened()).follow_up(answer, payload, timeout=timeout, **metadata)


class ServerQuestions:
    """The open questions of an agent, so that their answers go to the caller that asked, and not to a handler too."""

    def __init__(self) -> None:
        # By the channel.
        self._open: dict[str, list[OpenQuestion]] = {}
        # Answers that a caller has, and requests whose answers all go to a caller.
        self._taken: dict[str, None] = {}

    async def wait_for_answer(self, channel_id: str, question: Any, to: str = "") -> Any:  # noqa: ANN401  # whatever is awaited
        """Await a question in a channel and remember what answered it."""
        with self._opened(channel_id, to):
            answer = await question
            for message in answer if isinstance(answer, list) else [answer]:
                self._note(message.id)
            return answer

    async def follow_answers(
        self, channel_id: str, answers: AsyncGenerator[ChannelMessage], to: str = ""
    ) -> AsyncGenerator[ChannelMessage]:
        """Pass on answers that come one by one: all answers to their request go this way."""
        with self._opened(channel_id, to) as question:
            async with aclosing(answers):
                async for message in answers:
                    if not question.request_id and message.correlation_id:
                        self._note(message.correlation_id)
                        question.change(request_id=message.correlation_id)
                    yield message

    @contextmanager
    def _opened(self, channel_id: str, to: str) -> Iterator[OpenQuestion]:
        question = OpenQuestion(to)
        self._open.setdefault(channel_id, []).append(question)
        try:
            yield question
        finally:
            self._open[channel_id].remove(question)
            if not self._open[channel_id]:
                del self._open[channel_id]
            question.change(ended=True)

    def _note(self, taken_id: str) -> None:
        self._taken[taken_id] = None
        while len(self._taken) > _TAKEN_LIMIT:
            del self._taken[next(iter(self._taken))]

    async def has_taken(self, answer: ChannelMessage) -> bool:
        """Whether an answer went to a question; known at the latest when those that it can be for have ended."""
        # A request may have been handed on: then somebody else answers than was asked.
        senders = ("", answer.sender, *answer.forwarded_by)
        pending = [waiting for waiting in self._open.get(answer.channel_id, ()) if waiting.to in senders]
        while not self._is_taken(answer) and pending:
            await asyncio.wait({waiting.changed for waiting in pending}, return_when=asyncio.FIRST_COMPLETED)
            pending = [waiting for waiting in pending if not waiting.has_ended]
        return self._is_taken(answer)

    def _is_taken(self, answer: ChannelMessage) -> bool:
        return answer.id in self._taken or answer.correlation_id in self._taken


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
        payload: object,
        *,
        timeout: float = 30,
        check: bool = True,
        wait_for_responders: bool = False,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask an agent or `role:ROLE` and wait for the first answer."""
        question = self._client.ask(
            self.id,
            None,
            to,
            payload,
            timeout,
            metadata=with_trace(metadata),
            check=False,
            wait_for_responders=wait_for_responders,
        )
        answer: ChannelMessage = await self._questions.wait_for_answer(self.id, question, to)
        return check_answer(answer) if check else answer

    def ask_stream(
        self,
        to: str,
        payload: object,
        *,
        timeout: float = 30,
        wait_for_responders: bool = False,
        **metadata: Any,  # noqa: ANN401
    ) -> AsyncGenerator[ChannelMessage]:
        """Ask, and follow the partial answers as they come; the last one is the answer."""
        answers = self._client.ask_stream(
            self.id,
            None,
            to,
            payload,
            timeout,
            metadata=with_trace(metadata),
            wait_for_responders=wait_for_responders,
        )
        return self._questions.follow_answers(self.id, answers, to)

    async def ask_all(
        self,
        to: str,
        payload: object,
        *,
        timeout: float = 30,
        wait_for_responders: bool = False,
        **metadata: Any,  # noqa: ANN401
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time."""
        question = self._client.ask_all(
            self.id,
            None,
            to,
            payload,
            timeout,
            metadata=with_trace(metadata),
            wait_for_responders=wait_for_responders,
        )
        answers: list[ChannelMessage] = await self._questions.wait_for_answer(self.id, question, to)
        return answers

    async def follow_up(
        self,
        answer: ChannelMessage,
        payload: object,
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask on after an answer: the same agent, in the same conversation."""
        fields = {**continued(answer.id, answer.metadata), **metadata}
        return await self.ask(answer.sender, payload, timeout=timeout, **fields)

    async def notify(self, to: str, payload: object, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell one agent, or the holders of a role, without waiting for anything."""
        return await self._client.send_message(self.id, None, to, "notify", payload, metadata=with_trace(metadata))

    async def broadcast(self, payload: object, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
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

    async def open_direct(self, agent: str) -> ServerChannel:
        """The direct channel with another agent; the first message creates it."""
        channel = await self._client.get_direct_channel(agent)
        return ServerChannel(self._client, self._questions, channel.channel_id, "direct", channel.intent_id)
