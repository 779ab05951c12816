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
from parley.domain.times import seconds_text
from parley.sdk.agent.mailbox.payloads import body_of, kind_from, plain_payload, subject_of, to_channel_message
from parley.sdk.client.handle import AsyncChannelHandle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from parley.domain.message.message import Message
    from parley.sdk.agent.mailbox.thread import MailboxThread
    from parley.sdk.mailbox import Mailbox
    from parley.sdk.protocol.asking import Question
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


class MailboxChannel(AsyncChannelHandle):
    """A channel at a mailbox. An agent without a mailbox is always refused, so `wait_for_responders` changes nothing.

    `ask_all` and `notify` also take several names (`"codex,claude"`).
    """

    def __init__(self, thread: MailboxThread, questions: MailboxQuestions, name: str) -> None:
        super().__init__(None, name, name)
        self._thread = thread
        self._questions = questions

    async def _first_answer(self, question: Question) -> ChannelMessage:
        answers = await self._ask_and_collect(question, first=True)
        if not answers:
            raise AskTimeout(f"{question.to} did not answer within {seconds_text(question.timeout)} seconds")
        return answers[0]

    async def _all_answers(self, question: Question) -> list[ChannelMessage]:
        return await self._ask_and_collect(question, first=False)

    async def _answers(self, question: Question) -> AsyncGenerator[ChannelMessage]:
        yield await self._first_answer(question)  # there are no partial ones

    def _continuation(self, answer: ChannelMessage) -> dict[str, Any]:
        conversation = answer.metadata.get("conversation_id")
        return {"conversation": conversation} if conversation else {}

    async def _post(
        self, to: str, message_type: str, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None
    ) -> ChannelMessage:
        del message_type  # a broadcast is a notification to all
        messages = await self._write_messages(self._resolve_names(to), Kind.NOTIFICATION, payload, metadata or {}, None)
        return to_channel_message(self._thread.agent, messages[0])

    def _follow(self, after: str) -> AsyncGenerator[ChannelMessage]:
        raise self._unsupported("listen")

    async def _list(self, since: object) -> list[ChannelMessage]:
        raise self._unsupported("history")

    @staticmethod
    def _unsupported(verb: str) -> Invalid:
        return Invalid(
            f"{verb}: a mailbox has no channels to read", hint="use parley.Mailbox: watch(), thread(), search()"
        )

    def _resolve_names(self, to: str) -> list[str]:
        """The agents that an address names."""
        if to.startswith(_ROLE):
            raise Invalid(f"there are no roles at a mailbox: {to}", hint="name the agent")
        names = self._thread.other_agents() if to == _EVERYONE else [name.strip() for name in to.split(",")]
        if not names:
            raise Invalid("no other agent in this project", hint="add one with: parley agent add NAME")
        return names

    async def _ask_and_collect(self, question: Question, *, first: bool) -> list[ChannelMessage]:
        to = self._resolve_names(question.to)
        deadline = asyncio.get_running_loop().time() + question.timeout
        with ExitStack() as stack:
            with self._questions.block_while_sending():
                # Files know whole seconds: what is asked for less must not be over when it arrives.
                expires = timedelta(seconds=ceil(question.timeout) + 1)
                metadata = question.metadata or {}
                questions = await self._write_messages(to, Kind.QUESTION, question.payload, metadata, expires)
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
