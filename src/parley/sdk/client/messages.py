"""Messages: send, reply, read and acknowledge; ask, and collect answers; search."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from parley.domain.errors.rules import MessageHeld
from parley.domain.times import stamp
from parley.sdk.client.session import NOTHING, AsyncSession, Session, fetch, given, spelled
from parley.sdk.protocol import asking
from parley.sdk.protocol.asking import Question
from parley.sdk.protocol.flow import some_seconds
from parley.sdk.records.channels import ChannelMessage, made, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.sdk.client.session import Moment
    from parley.sdk.protocol.flow import Answer, Flow, Speaker

# How much longer than the server we wait for a page that it may hold back.
_GRACE_SECONDS = 15.0


def held(document: Mapping[str, Any]) -> MessageHeld:
    """The error for a message that waits for a person; its `facts` say for which approval and why."""
    why = document.get("reason", "")
    said = f"the message waits for a person ({document.get('approval', '')})"
    return MessageHeld(f"{said}: {why}" if why else said, facts=dict(document))


def _sent(answer: Answer) -> ChannelMessage:
    """The message that was posted; raises `MessageHeld` when it waits for a person."""
    if answer.status == 202:
        raise held(json.loads(answer.content))
    return read(answer.content, ChannelMessage)


def _post(speaker: Speaker, *path: str, body: dict[str, Any]) -> Flow[ChannelMessage]:
    return _sent((yield from speaker.send("POST", *path, body=body, parsed=False)))


def _batch(speaker: Speaker, channel_id: str, messages: Iterable[Mapping[str, Any]]) -> Flow[list[ChannelMessage]]:
    body = {"messages": [given(**one) | given(expires_at=spelled(one.get("expires_at"))) for one in messages]}
    return fetch(speaker, list[ChannelMessage], "POST", "channels", channel_id, "batch", body=body)


def _list(
    speaker: Speaker, channel_id: str, since: Moment | int | None, wait: float, query: dict[str, Any]
) -> Flow[list[ChannelMessage]]:
    query |= {"since": since if isinstance(since, int) else spelled(since), "wait": wait or None}
    timeout = wait + _GRACE_SECONDS if wait else 0.0
    path = ("channels", channel_id, "messages")
    return fetch(speaker, list[ChannelMessage], "GET", *path, query=query, timeout=timeout)


def _message(speaker: Speaker, method: str, channel_id: str, message_id: str, body: object) -> Flow[ChannelMessage]:
    return fetch(speaker, ChannelMessage, method, "channels", channel_id, "messages", message_id, body=body)


def _search(speaker: Speaker, text: str, channel_id: str | None, limit: int | None) -> Flow[list[ChannelMessage]]:
    path = ("channels", channel_id, "search") if channel_id else ("messages", "search")
    return fetch(speaker, list[ChannelMessage], "GET", *path, query={"q": text, "limit": limit})


def _ask(speaker: Speaker, question: Question) -> Flow[ChannelMessage]:
    said = yield from asking.ask(speaker, question)
    if said.get("status") == "held":
        raise held(said)
    return made(said, ChannelMessage)


def _ask_all(speaker: Speaker, question: Question) -> Flow[list[ChannelMessage]]:
    from parley.wiring import wall_time

    until = stamp(datetime.fromtimestamp(wall_time() + some_seconds("timeout", question.timeout), UTC))
    said = yield from asking.ask_all(speaker, question, until)
    if said and said[0].get("status") == "held":
        raise held(said[0])
    return made(said, list[ChannelMessage])


class Messages(Session):
    """What a client does with messages."""

    def send_message(
        self,
        channel_id: str,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: Mapping[str, Any] = NOTHING,
        expires_at: Moment | None = None,
        *,
        correlation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Post a message; on return it is durable.

        `message_type` is "notify", "request", "response" or "broadcast". `to` is an agent, `role:ROLE`, or `*` for
        everyone. `sender` is only for a key that speaks for several agents.

        Raises `Denied` when the rules refuse it, and `MessageHeld` when it waits for a person.
        """
        body = given(sender=sender, to=to, message_type=message_type, payload=payload, expires_at=spelled(expires_at))
        body |= given(correlation_id=correlation_id, metadata=metadata)
        return self._run(_post(self._speaker, "channels", channel_id, "messages", body=body))

    def reply_to(
        self,
        channel_id: str,
        message_id: str,
        sender: str | None = None,
        payload: Mapping[str, Any] = NOTHING,
        *,
        expires_at: Moment | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Answer a request.

        Only whom it was for may answer. Raises `MessageHeld` when the answer waits for a person.
        """
        body = given(sender=sender, payload=payload, expires_at=spelled(expires_at), metadata=metadata)
        path = ("channels", channel_id, "messages", message_id, "reply")
        return self._run(_post(self._speaker, *path, body=body))

    def list_messages(
        self,
        channel_id: str,
        since: Moment | int | None = None,
        to: str | None = None,
        *,
        limit: int | None = None,
        wait: float = 0,
        on_evicted: Literal["continue", "error"] | None = None,
    ) -> list[ChannelMessage]:
        """The messages of a channel that you may see, in their order.

        `since` is the id of a message, its `seq`, or a time: what comes after it. `wait` is how many seconds the server
        may wait for something new. Raises `CursorEvicted` when messages after `since` are no longer kept and
        `on_evicted` is "error".
        """
        query = given(to=to, limit=limit, on_evicted=on_evicted)
        return self._run(_list(self._speaker, channel_id, since, wait, query))

    def get_message(self, channel_id: str, message_id: str) -> ChannelMessage:
        """A message."""
        return self._run(_message(self._speaker, "GET", channel_id, message_id, None))

    def mark_read(self, channel_id: str, message_id: str) -> ChannelMessage:
        """Mark a message as read; doing it twice is no error."""
        return self._run(_message(self._speaker, "PATCH", channel_id, message_id, {"status": "read"}))

    def ask(
        self,
        channel_id: str,
        sender: str | None,
        to: str,
        payload: Mapping[str, Any],
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Ask, and wait for the first answer, in one round trip.

        `to` is an agent or `role:ROLE`. An agent that could not answer says why in `.error`. Raises
        `MessageTimeoutError` when nobody answers in time, and `MessageHeld` when the question waits for a person.
        """
        question = Question(channel_id, to, payload, timeout, sender or "", metadata)
        return self._run(_ask(self._speaker, question))

    def ask_all(
        self,
        channel_id: str,
        sender: str | None,
        to: str,
        payload: Mapping[str, Any],
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time.

        It ends sooner when everybody who was asked has answered. Raises `MessageHeld` when the question waits for a
        person.
        """
        question = Question(channel_id, to, payload, timeout, sender or "", metadata)
        return self._run(_ask_all(self._speaker, question))

    def send_to_name(
        self,
        intent_id: str,
        name: str,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: Mapping[str, Any] = NOTHING,
        expires_at: Moment | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Post a message to a channel by its name; it is created when it does not exist.

        Otherwise as `send_message`.
        """
        body = given(sender=sender, to=to, message_type=message_type, payload=payload, expires_at=spelled(expires_at))
        body |= given(metadata=metadata)
        return self._run(_post(self._speaker, "intents", intent_id, "channels", name, "messages", body=body))

    def send_batch(self, channel_id: str, messages: Iterable[Mapping[str, Any]]) -> list[ChannelMessage]:
        """Post several messages of one sender: all of them or none.

        Each is a mapping with the parameters of `send_message`. At most 100.
        """
        return self._run(_batch(self._speaker, channel_id, messages))

    def search(self, text: str, channel_id: str | None = None, *, limit: int | None = None) -> list[ChannelMessage]:
        """Messages that hold a text, in one channel or in all that you may see; in any case, the newest first."""
        return self._run(_search(self._speaker, text, channel_id, limit))


class AsyncMessages(AsyncSession):
    """What an asynchronous client does with messages."""

    async def send_message(
        self,
        channel_id: str,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: Mapping[str, Any] = NOTHING,
        expires_at: Moment | None = None,
        *,
        correlation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Post a message; on return it is durable.

        `message_type` is "notify", "request", "response" or "broadcast". `to` is an agent, `role:ROLE`, or `*` for
        everyone. `sender` is only for a key that speaks for several agents.

        Raises `Denied` when the rules refuse it, and `MessageHeld` when it waits for a person.
        """
        body = given(sender=sender, to=to, message_type=message_type, payload=payload, expires_at=spelled(expires_at))
        body |= given(correlation_id=correlation_id, metadata=metadata)
        return await self._run(_post(self._speaker, "channels", channel_id, "messages", body=body))

    async def reply_to(
        self,
        channel_id: str,
        message_id: str,
        sender: str | None = None,
        payload: Mapping[str, Any] = NOTHING,
        *,
        expires_at: Moment | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Answer a request.

        Only whom it was for may answer. Raises `MessageHeld` when the answer waits for a person.
        """
        body = given(sender=sender, payload=payload, expires_at=spelled(expires_at), metadata=metadata)
        path = ("channels", channel_id, "messages", message_id, "reply")
        return await self._run(_post(self._speaker, *path, body=body))

    async def list_messages(
        self,
        channel_id: str,
        since: Moment | int | None = None,
        to: str | None = None,
        *,
        limit: int | None = None,
        wait: float = 0,
        on_evicted: Literal["continue", "error"] | None = None,
    ) -> list[ChannelMessage]:
        """The messages of a channel that you may see, in their order.

        `since` is the id of a message, its `seq`, or a time: what comes after it. `wait` is how many seconds the server
        may wait for something new. Raises `CursorEvicted` when messages after `since` are no longer kept and
        `on_evicted` is "error".
        """
        query = given(to=to, limit=limit, on_evicted=on_evicted)
        return await self._run(_list(self._speaker, channel_id, since, wait, query))

    async def get_message(self, channel_id: str, message_id: str) -> ChannelMessage:
        """A message."""
        return await self._run(_message(self._speaker, "GET", channel_id, message_id, None))

    async def mark_read(self, channel_id: str, message_id: str) -> ChannelMessage:
        """Mark a message as read; doing it twice is no error."""
        return await self._run(_message(self._speaker, "PATCH", channel_id, message_id, {"status": "read"}))

    async def ask(
        self,
        channel_id: str,
        sender: str | None,
        to: str,
        payload: Mapping[str, Any],
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Ask, and wait for the first answer, in one round trip.

        `to` is an agent or `role:ROLE`. An agent that could not answer says why in `.error`. Raises
        `MessageTimeoutError` when nobody answers in time, and `MessageHeld` when the question waits for a person.
        """
        question = Question(channel_id, to, payload, timeout, sender or "", metadata)
        return await self._run(_ask(self._speaker, question))

    async def ask_all(
        self,
        channel_id: str,
        sender: str | None,
        to: str,
        payload: Mapping[str, Any],
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time.

        It ends sooner when everybody who was asked has answered. Raises `MessageHeld` when the question waits for a
        person.
        """
        question = Question(channel_id, to, payload, timeout, sender or "", metadata)
        return await self._run(_ask_all(self._speaker, question))

    async def send_to_name(
        self,
        intent_id: str,
        name: str,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: Mapping[str, Any] = NOTHING,
        expires_at: Moment | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Post a message to a channel by its name; it is created when it does not exist.

        Otherwise as `send_message`.
        """
        body = given(sender=sender, to=to, message_type=message_type, payload=payload, expires_at=spelled(expires_at))
        body |= given(metadata=metadata)
        return await self._run(_post(self._speaker, "intents", intent_id, "channels", name, "messages", body=body))

    async def send_batch(self, channel_id: str, messages: Iterable[Mapping[str, Any]]) -> list[ChannelMessage]:
        """Post several messages of one sender: all of them or none.

        Each is a mapping with the parameters of `send_message`. At most 100.
        """
        return await self._run(_batch(self._speaker, channel_id, messages))

    async def search(
        self, text: str, channel_id: str | None = None, *, limit: int | None = None
    ) -> list[ChannelMessage]:
        """Messages that hold a text, in one channel or in all that you may see; in any case, the newest first."""
        return await self._run(_search(self._speaker, text, channel_id, limit))
