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
from parley.sdk.agent.mailbox.payloads import body_of, kind_in, seen_by, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from parley.domain.message.message import Message
    from parley.sdk.agent.mailbox.thread import Desk
    from parley.sdk.mailbox import Mailbox
    from parley.wire.api.records.channels import ChannelMessage

_ROLE = "role:"
_EVERYONE = "*"
# One message has so many recipients at most; to more, several are sent.
_RECIPIENTS = 10
_REMEMBERED = 10_000


class Questions:
    """The questions that an agent waits for, so that their answers go to whoever asked, and not to a handler."""

    def __init__(self) -> None:
        self._open: dict[str, _Waiting] = {}
        # Questions on their way: their answers may be faster than we.
        self._sending: set[asyncio.Future[None]] = set()
        self._taken: dict[str, None] = {}

    @property
    def asked(self) -> list[Message]:
        """The questions that are open."""
        return [one.question for one in self._open.values()]

    @contextmanager
    def sending(self) -> Iterator[None]:
        """While questions are sent, nobody can say whether a message answers one."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending.add(ended)
        try:
            yield
        finally:
            self._sending.discard(ended)
            ended.set_result(None)

    @contextmanager
    def waiting(self, questions: Sequence[Message]) -> Iterator[asyncio.Queue[Message]]:
        """The answers to these, as they come."""
        answers: asyncio.Queue[Message] = asyncio.Queue()
        self._open |= {one.id: _Waiting(one, answers) for one in questions}
        try:
            yield answers
        finally:
            for one in questions:
                del self._open[one.id]

    async def take(self, message: Message) -> bool:
        """Hand a message to whoever waits for it; whether somebody does, or has got it before."""
        if not message.in_reply_to:
            return False
        while self._sending:
            await asyncio.wait(set(self._sending))
        if self.took(message):
            return True
        waiting = self._open.get(message.in_reply_to)
        if waiting is None:
            return False
        self._taken[message.id] = None
        if len(self._taken) > _REMEMBERED:
            del self._taken[next(iter(self._taken))]
        waiting.answers.put_nowait(message)
        return True

    def took(self, message: Message) -> bool:
        """Whether somebody who asked has got it."""
        return message.id in self._taken


class _Waiting:
    def __init__(self, question: Message, answers: asyncio.Queue[Message]) -> None:
        self.question = question
        self.answers = answers


def replies_in_ledger(mailbox: Mailbox, questions: Sequence[Message]) -> list[Message]:
    """What was received in answer to questions, by whichever process of this agent."""
    store = mailbox.kernel.store
    found: list[Message] = []
    for question in questions:
        kept = wiring.drive(store.conversation(question.conversation_id))
        found += [one.message for one in kept if one.message.in_reply_to == question.id]
    return found


class MailboxChannel:
    """A channel at a mailbox."""

    def __init__(self, desk: Desk, questions: Questions, name: str) -> None:
        self.name = name
        self._desk = desk
        self._questions = questions

    async def ask(self, to: str, payload: Mapping[str, Any], *, timeout: float = 30, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Ask an agent and wait for the first answer. `MessageTimeoutError` when none comes in time."""
        answers = await self._asked(self._named(to), payload, timeout, metadata, first=True)
        if not answers:
            raise AskTimeout(f"{to} did not answer within {timeout:g} seconds")
        return answers[0]

    async def ask_all(
        self,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> list[ChannelMessage]:
        """Ask an agent, several (`"codex,claude"`) or all others (`"*"`); every answer that comes within the time."""
        return await self._asked(self._named(to), payload, timeout, metadata, first=False)

    async def notify(self, to: str, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell an agent something, without waiting for anything."""
        return (await self._sent(self._named(to), Kind.NOTIFICATION, payload, metadata))[0]

    async def broadcast(self, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell all other agents of the project."""
        return await self.notify(_EVERYONE, payload, **metadata)

    def _named(self, to: str) -> list[str]:
        """Who is meant."""
        if to.startswith(_ROLE):
            raise Invalid(f"there are no roles at a mailbox: {to}", hint="name the agent")
        names = self._desk.others() if to == _EVERYONE else [one.strip() for one in to.split(",")]
        if not names:
            raise Invalid("there is no other agent in this project", hint="add one with: parley agent add NAME")
        return names

    async def _asked(
        self,
        to: list[str],
        payload: Mapping[str, Any],
        timeout: float,
        metadata: Mapping[str, Any],
        *,
        first: bool,
    ) -> list[ChannelMessage]:
        until = asyncio.get_running_loop().time() + timeout
        with ExitStack() as stack:
            with self._questions.sending():
                # Files know whole seconds: what is asked for less must not be over when it arrives.
                expires = timedelta(seconds=ceil(timeout) + 1)
                questions = await self._written(to, Kind.QUESTION, payload, metadata, expires)
                answers = stack.enter_context(self._questions.waiting(questions))
            for reply in await self._desk.do(lambda mailbox: replies_in_ledger(mailbox, questions)):
                await self._questions.take(reply)
            return await self._collected(answers, 1 if first else len(set(to)), until)

    async def _collected(self, answers: asyncio.Queue[Message], enough: int, until: float) -> list[ChannelMessage]:
        said: list[ChannelMessage] = []
        with suppress(TimeoutError):  # who has not answered by then is not waited for
            async with asyncio.timeout_at(until):
                while len({one.sender for one in said}) < enough:
                    said.append(seen_by(self._desk.agent, await answers.get(), answers=True))
        return said

    async def _sent(
        self, to: list[str], kind: Kind, payload: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> list[ChannelMessage]:
        return [seen_by(self._desk.agent, one) for one in await self._written(to, kind, payload, metadata, None)]

    async def _written(
        self,
        to: list[str],
        default: Kind,
        payload: Mapping[str, Any],
        metadata: Mapping[str, Any],
        expires: timedelta | None,
    ) -> list[Message]:
        kind = kind_in(metadata, default)
        body = body_of(kind, payload)

        def send(mailbox: Mailbox) -> list[Message]:
            most = mailbox.kernel.limits.subject_chars
            return [
                mailbox.send(
                    to[start : start + _RECIPIENTS],
                    kind,
                    str(metadata.get("subject") or subject_of(payload, self.name, most)),
                    body,
                    priority=metadata.get("priority"),
                    expires=expires,
                    conversation=metadata.get("conversation", ""),
                    related_pr=metadata.get("related_pr", ""),
                    tag=self.name,
                )
                for start in range(0, len(to), _RECIPIENTS)
            ]

        return await self._desk.do(send)


class MailboxChannels:
    """The channels of a mailbox: as many as there are names."""

    def __init__(self, desk: Desk, questions: Questions) -> None:
        self._desk = desk
        self._questions = questions

    async def open(self, name: str, intent_id: str = "", **options: Any) -> MailboxChannel:  # noqa: ANN401
        """The channel of this name. There are no intents at a mailbox, and no options: they do not matter here."""
        if not is_tag(name):
            raise Invalid(f"{name!r} cannot be the name of a channel", hint="letters, digits, '_' and '-'")
        return MailboxChannel(self._desk, self._questions, name)


def is_tag(name: str) -> bool:
    """Whether a channel of this name can be a tag on a message."""
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum() and len(name) <= 64
