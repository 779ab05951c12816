"""Channels at a file mailbox: a channel is a tag on messages, and an answer is a message that replies."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from parley import wiring
from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import AskTimeout
from parley.domain.message.message import Kind
from parley.sdk.agent.mailbox.payloads import body_of, kind_from, plain_payload, subject_of, to_channel_message
from parley.sdk.protocol.failures import check_answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from parley.domain.message.message import Message
    from parley.sdk.agent.mailbox.thread import MailboxThread
    from parley.sdk.mailbox import Mailbox
    from parley.wire.api.records.channels import ChannelMessage

_ROLE = "role:"
_EVERYONE = "*"
# Recipients of one message; for more, several messages are sent.
_RECIPIENTS_LIMIT = 10
_TAKEN_LIMIT = 10_000


class MailboxQuestions:
    """The open questions of an agent, so that their answers go to the caller that asked, and not to a handler."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenQuestion] = {}
        # Questions being sent: an answer may arrive before its question is registered.
        self._sending: set[asyncio.Future[None]] = set()
        self._taken: dict[str, None] = {}

    @property
    def open_questions(self) -> list[Message]:
        """The questions that are open."""
        return [waiting.question for waiting in self._open.values()]

    @contextmanager
    def block_while_sending(self) -> Iterator[None]:
        """Hold answers back while questions are being sent: an answer could arrive before its question is known."""
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending.add(end)
        try:
            yield
        finally:
            self._sending.discard(end)
            end.set_result(None)

    @contextmanager
    def subscribe(self, questions: Sequence[Message]) -> Iterator[asyncio.Queue[Message]]:
        """A queue of the answers to these questions."""
        answers: asyncio.Queue[Message] = asyncio.Queue()
        self._open |= {question.id: _OpenQuestion(question, answers) for question in questions}
        try:
            yield answers
        finally:
            for question in questions:
                del self._open[question.id]

    async def deliver_answer(self, message: Message) -> bool:
        """Deliver a message to the caller that waits for it; False when it answers no open question."""
        if not message.in_reply_to:
            return False
        while self._sending:
            await asyncio.wait(set(self._sending))
        if self.has_taken(message):
            return True
        waiting = self._open.get(message.in_reply_to)
        if waiting is None:
            return False
        self._taken[message.id] = None
        if len(self._taken) > _TAKEN_LIMIT:
            del self._taken[next(iter(self._taken))]
        waiting.answers.put_nowait(message)
        return True

    def has_taken(self, message: Message) -> bool:
        """Whether a message was delivered as an answer."""
        return message.id in self._taken


class _OpenQuestion:
    def __init__(self, question: Message, answers: asyncio.Queue[Message]) -> None:
        self.question = question
        self.answers = answers


def replies_in_ledger(mailbox: Mailbox, questions: Sequence[Message]) -> list[Message]:
    """The replies to questions in the ledger, received by any process of this agent."""
    store = mailbox.kernel.store
    replies: list[Message] = []
    for question in questions:
        entries = wiring.drive(store.conversation(question.conversation_id))
        replies += [entry.message for entry in entries if entry.message.in_reply_to == question.id]
    return replies


class MailboxChannel:
    """A channel at a mailbox."""

    def __init__(self, thread: MailboxThread, questions: MailboxQuestions, name: str) -> None:
        self.name = name
        self._thread = thread
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
        """Ask an agent and wait for the first answer. `MessageTimeoutError` when none comes in time.

        `AgentFailed` when the answer is an error; with `check=False` such an answer is returned. `wait_for_responders`
        changes nothing here: an agent without a mailbox is always refused.
        """
        del wait_for_responders
        answers = await self._ask_and_collect(self._resolve_names(to), payload, timeout, metadata, first=True)
        if not answers:
            raise AskTimeout(f"{to} did not answer within {timeout:g} seconds")
        return check_answer(answers[0]) if check else answers[0]

    async def ask_stream(
        self,
        to: str,
        payload: object,
        *,
        timeout: float = 30,
        wait_for_responders: bool = False,
        **metadata: Any,  # noqa: ANN401
    ) -> AsyncGenerator[ChannelMessage]:
        """Ask an agent; at a mailbox there is one answer, without partial ones."""
        del wait_for_responders  # as in `ask`
        yield await self.ask(to, payload, timeout=timeout, **metadata)

    async def follow_up(
        self,
        answer: ChannelMessage,
        payload: object,
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> ChannelMessage:
        """Ask on after an answer: the same agent, in the same conversation."""
        return await self.ask(answer.sender, payload, timeout=timeout, **{"follows": answer.id, **metadata})

    async def ask_all(
        self,
        to: str,
        payload: object,
        *,
        timeout: float = 30,
        wait_for_responders: bool = False,
        **metadata: Any,  # noqa: ANN401
    ) -> list[ChannelMessage]:
        """Ask an agent, several (`"codex,claude"`) or all others (`"*"`); every answer that comes within the time."""
        del wait_for_responders  # as in `ask`
        return await self._ask_and_collect(self._resolve_names(to), payload, timeout, metadata, first=False)

    async def notify(self, to: str, payload: object, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell an agent something, without waiting for anything."""
        return (await self._send(self._resolve_names(to), Kind.NOTIFICATION, payload, metadata))[0]

    async def broadcast(self, payload: object, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell all other agents of the project."""
        return await self.notify(_EVERYONE, payload, **metadata)

    def _resolve_names(self, to: str) -> list[str]:
        """The agents that an address names."""
        if to.startswith(_ROLE):
            raise Invalid(f"there are no roles at a mailbox: {to}", hint="name the agent")
        names = self._thread.other_agents() if to == _EVERYONE else [name.strip() for name in to.split(",")]
        if not names:
            raise Invalid("no other agent in this project", hint="add one with: parley agent add NAME")
        return names

    async def _ask_and_collect(
        self,
        to: list[str],
        payload: object,
        timeout: float,
        metadata: Mapping[str, Any],
        *,
        first: bool,
    ) -> list[ChannelMessage]:
        deadline = asyncio.get_running_loop().time() + timeout
        with ExitStack() as stack:
            with self._questions.block_while_sending():
                # Files know whole seconds: what is asked for less must not be over when it arrives.
                expires = timedelta(seconds=ceil(timeout) + 1)
                questions = await self._write_messages(to, Kind.QUESTION, payload, metadata, expires)
                answers = stack.enter_context(self._questions.subscribe(questions))
            for reply in await self._thread.run(lambda mailbox: replies_in_ledger(mailbox, questions)):
                await self._questions.deliver_answer(reply)
            return await self._collect_answers(answers, 1 if first else len(set(to)), deadline)

    async def _collect_answers(
        self, answers: asyncio.Queue[Message], count: int, deadline: float
    ) -> list[ChannelMessage]:
        messages: list[ChannelMessage] = []
        with suppress(TimeoutError):  # who has not answered by then is not waited for
            async with asyncio.timeout_at(deadline):
                while len({message.sender for message in messages}) < count:
                    messages.append(to_channel_message(self._thread.agent, await answers.get(), answers=True))
        return messages

    async def _send(
        self, to: list[str], kind: Kind, payload: object, metadata: Mapping[str, Any]
    ) -> list[ChannelMessage]:
        return [
            to_channel_message(self._thread.agent, message)
            for message in await self._write_messages(to, kind, payload, metadata, None)
        ]

    async def _write_messages(
        self,
        to: list[str],
        default: Kind,
        payload: object,
        metadata: Mapping[str, Any],
        expires: timedelta | None,
    ) -> list[Message]:
        kind = kind_from(metadata, default)
        fields = plain_payload(payload)
        body = body_of(kind, fields)

        def send(mailbox: Mailbox) -> list[Message]:
            max_chars = mailbox.kernel.limits.subject_chars
            return [
                mailbox.send(
                    to[start : start + _RECIPIENTS_LIMIT],
                    kind,
                    str(metadata.get("subject") or subject_of(fields, self.name, max_chars)),
                    body,
                    priority=metadata.get("priority"),
                    expires=expires,
                    conversation=metadata.get("conversation", ""),
                    related_pr=metadata.get("related_pr", ""),
                    tag=self.name,
                )
                for start in range(0, len(to), _RECIPIENTS_LIMIT)
            ]

        return await self._thread.run(send)


class MailboxChannels:
    """The channels of a mailbox: as many as there are names."""

    def __init__(self, thread: MailboxThread, questions: MailboxQuestions) -> None:
        self._thread = thread
        self._questions = questions

    async def open(self, name: str, intent_id: str = "", **options: Any) -> MailboxChannel:  # noqa: ANN401
        """The channel of this name. There are no intents at a mailbox, and no options: they do not matter here."""
        if not is_tag(name):
            raise Invalid(f"{name!r} cannot be the name of a channel", hint="letters, digits, '_' and '-'")
        return MailboxChannel(self._thread, self._questions, name)

    async def open_direct(self, agent: str) -> MailboxChannel:
        """Messages between mailboxes are direct anyway: no channel is named."""
        del agent
        return await self.open("direct")


def is_tag(name: str) -> bool:
    """Whether a channel of this name can be a tag on a message."""
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum() and len(name) <= 64
