"""A channel as people and agents use it: ask, notify, broadcast, listen, and look back.

There is one kind of handle: `parley.connect()` gives it to programs, `self.channels.open()` to agents, and
`stage.channel()` to tests. At a file mailbox `sdk.agent.mailbox.channels` replaces what sends and waits.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid
from parley.sdk.client.answers import all_answers, answer_stream, first_answer
from parley.sdk.client.received import AsyncReceivedMessage, received
from parley.sdk.protocol.asking import Question, continued
from parley.sdk.protocol.call_arguments import NOT_GIVEN, address_from, brief, count_from, flag_from, payload_from
from parley.sdk.protocol.context import with_trace
from parley.sdk.protocol.failures import check_answer
from parley.sdk.protocol.flow import some_seconds
from parley.sdk.tracebacks import short_tracebacks
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from datetime import timedelta

    from parley.domain.receipts import MessageStatus, ReceiptState
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.client.fields import Moment

_PAGE = 500
_EVERYONE = "*"
_KINDS = ("request", "response", "notify", "broadcast")


@short_tracebacks
class AsyncChannelHandle:
    """A channel. A payload is a text (sent as `{"text": ...}`), a mapping or another value, or given as keywords:

    answer = await questions.ask("data-agent", question="Which schema?")
    print(answer["schema"])
    """

    __module__ = "parley"

    def __init__(self, client: AsyncClient | None, channel_id: str, name: str, intent_id: str = "") -> None:
        self.id = channel_id
        self.name = name
        self.intent_id = intent_id
        self._given_client = client

    @property
    def _client(self) -> AsyncClient:
        if self._given_client is None:
            raise Invalid("no server at a mailbox")
        return self._given_client

    async def ask(  # one parameter a choice
        self,
        to: str,
        payload: object = NOT_GIVEN,
        *,
        timeout: float = 30,
        check: bool = True,
        wait_for_responders: bool = False,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> AsyncReceivedMessage:
        """Ask an agent, `role:ROLE` or `any:ROLE` (one of them), and wait for the first answer.

        Raises `AgentFailed` when the answer is an error (with `check=False` it is returned), `MessageTimeoutError` when
        none comes in time, `NoResponders` at once when no such agent is known or nobody holds the role (with
        `wait_for_responders=True` the question waits for one), and `MessageHeld` when it waits for a person. A handler
        that lets `AgentFailed` pass answers with its cause.
        """
        flag_from("ask", "check", check)
        content = payload_from("ask", payload, fields)
        question = self._question("ask", to, content, timeout, wait_for_responders, metadata)
        answer = await self._first_answer(question)
        return self._received(check_answer(answer) if check else answer)

    async def ask_all(
        self,
        to: str,
        payload: object = NOT_GIVEN,
        *,
        timeout: float = 30,
        wait_for_responders: bool = False,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> list[AsyncReceivedMessage]:
        """Ask, and collect every answer that comes within the time; sooner when everybody has answered.

        An agent that could not answer says why in `.error`.
        """
        content = payload_from("ask_all", payload, fields)
        question = self._question("ask_all", to, content, timeout, wait_for_responders, metadata)
        return [self._received(answer) for answer in await self._all_answers(question)]

    async def ask_stream(
        self,
        to: str,
        payload: object = NOT_GIVEN,
        *,
        timeout: float = 30,
        check: bool = True,
        wait_for_responders: bool = False,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> AsyncGenerator[AsyncReceivedMessage]:
        """Ask, and follow the partial answers as they come (`.partial`); the last one is the answer. Raises as `ask`.

        Whoever stops following before the end withdraws the request.
        """
        flag_from("ask_stream", "check", check)
        content = payload_from("ask_stream", payload, fields)
        question = self._question("ask_stream", to, content, timeout, wait_for_responders, metadata)
        async with aclosing(self._answers(question)) as answers:
            async for answer in answers:
                yield self._received(check_answer(answer) if check and not answer.partial else answer)

    async def follow_up(
        self,
        answer: ChannelMessage,
        payload: object = NOT_GIVEN,
        *,
        timeout: float = 30,
        check: bool = True,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> AsyncReceivedMessage:
        """Ask on after an answer, such as a question in return (`answer.is_question`): the same agent, conversation."""
        if not isinstance(answer, ChannelMessage):
            raise Invalid(f"follow_up: answer is a message that was received, not {brief(answer)}")
        content = payload_from("follow_up", payload, fields)
        follows = {**self._continuation(answer), **(metadata or {})}
        return await self.ask(answer.sender, content, timeout=timeout, check=check, metadata=follows)

    async def notify(
        self,
        to: str,
        payload: object = NOT_GIVEN,
        *,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> AsyncReceivedMessage:
        """Tell an agent or the holders of a role something, without waiting for anything. On return it is durable."""
        content = payload_from("notify", payload, fields)
        return self._received(await self._post(address_from("notify", to), "notify", content, metadata))

    async def broadcast(
        self,
        payload: object = NOT_GIVEN,
        *,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> AsyncReceivedMessage:
        """Tell everyone who takes part."""
        content = payload_from("broadcast", payload, fields)
        return self._received(await self._post(_EVERYONE, "broadcast", content, metadata))

    async def listen(self, kind: str = "", *, from_start: bool = False) -> AsyncGenerator[AsyncReceivedMessage]:
        """The messages that you may see, as they come and for ever; yours are among them.

        `kind` is "request", "response", "notify" or "broadcast" for those alone. It begins with what is new; with
        `from_start` with what was said before. A connection that breaks is opened again: nothing is lost, nothing comes
        twice. Leave the loop to end it.
        """
        if kind and kind not in _KINDS:
            raise Invalid(f"listen: kind is one of {', '.join(_KINDS)}, not {brief(kind)}")
        async with aclosing(self._follow("0" if from_start else "")) as messages:
            async for message in messages:
                if kind in ("", message.message_type):
                    yield self._received(message)

    async def history(
        self, limit: int | None = None, *, since: Moment | int | None = None
    ) -> list[AsyncReceivedMessage]:
        """What was said here and is kept, the oldest first; with `limit` only the last ones.

        `since` is the id of a message, its `seq`, or a time: what came after it.
        """
        if limit is not None:
            limit = count_from("history", "limit", limit)
        messages = await self._list(since)
        return [self._received(message) for message in messages[-limit if limit else 0 :]]

    async def respond(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None
    ) -> None:
        """Answer a request that was received here; `message.reply(...)` does."""
        traced = with_trace(metadata)
        await self._client.reply_to(message.channel_id, message.id, None, payload, metadata=traced)

    async def message_status(self, message: ChannelMessage) -> MessageStatus:
        """How far a message that was sent here has come; `message.receipt` is that."""
        return await self._client.message_status(message)

    async def wait_until(
        self, message: ChannelMessage, state: ReceiptState | str, wait: str | timedelta
    ) -> MessageStatus:
        """Wait until a message that was sent here is as far as a state; `message.wait_until(...)` does."""
        return await self._client.wait_until(message, state, wait=wait)

    # ------------------------------------------------------------ how messages are sent and read

    async def _first_answer(self, question: Question) -> ChannelMessage:
        return await first_answer(self._client.connection, question)

    async def _all_answers(self, question: Question) -> list[ChannelMessage]:
        return await all_answers(self._client.connection, question)

    def _answers(self, question: Question) -> AsyncGenerator[ChannelMessage]:
        return answer_stream(self._client.connection, question)

    def _continuation(self, answer: ChannelMessage) -> dict[str, Any]:
        return continued(answer.id, answer.metadata)

    async def _post(
        self, to: str, message_type: str, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None
    ) -> ChannelMessage:
        traced = with_trace(metadata)
        return await self._client.send_message(self.id, None, to, message_type, payload, metadata=traced)

    async def _follow(self, after: str) -> AsyncGenerator[ChannelMessage]:
        async with aclosing(self._client.follow(channel=self.id, after=after)) as items:
            async for item in items:
                if item.message is not None:
                    yield item.message

    async def _list(self, since: Moment | int | None) -> list[ChannelMessage]:
        messages: list[ChannelMessage] = []
        while page := await self._client.list_messages(self.id, since, limit=_PAGE):
            messages += page
            if len(page) < _PAGE:
                break
            since = page[-1].id
        return messages

    # ------------------------------------------------------------ what they have in common

    def _question(
        self,
        call: str,
        to: object,
        payload: dict[str, Any],
        timeout: float,
        wait_for_responders: bool,
        metadata: Mapping[str, Any] | None,
    ) -> Question:
        return Question(
            self.id,
            address_from(call, to),
            payload,
            some_seconds(f"{call}: timeout", timeout),
            metadata=with_trace(metadata),
            wait_for_responders=flag_from(call, "wait_for_responders", wait_for_responders),
        )

    def _received(self, message: ChannelMessage) -> AsyncReceivedMessage:
        return received(message, self, self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, id={self.id!r})"
