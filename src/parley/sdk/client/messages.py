"""Messages: send, reply, read and acknowledge; ask, and collect answers; search."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from parley.domain.errors.rules import MessageHeld
from parley.domain.times import stamp
from parley.sdk.client.area import AsyncArea
from parley.sdk.client.direct import AsyncDirect
from parley.sdk.client.fields import NOTHING, timestamp_of, without_none
from parley.sdk.protocol import asking
from parley.sdk.protocol.asking import Question
from parley.sdk.protocol.failures import check_answer
from parley.sdk.protocol.flow import as_payload, encoded, header, some_seconds
from parley.sdk.records import convert_answer, read_answer
from parley.wire.api.records.channels import ChannelMessage, DirectChannel, RequestInfo

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from parley.sdk.client.fields import Moment

# How much longer than the server we wait for a page that it may hold back.
_GRACE_SECONDS = 15.0


def _held(document: Mapping[str, Any]) -> MessageHeld:
    """The error for a message that waits for a person; its `facts` say for which approval and why."""
    reason = document.get("reason", "")
    text = f"the message waits for a person ({document.get('approval', '')})"
    return MessageHeld(f"{text}: {reason}" if reason else text, facts=dict(document))


def _given_payload(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    return as_payload(fields["payload"]) if fields.get("payload") is not None else None


class AsyncMessages(AsyncArea):
    """What a client does with messages."""

    async def send_message(  # noqa: PLR0913  # one parameter a field
        self,
        channel_id: str,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: object = NOTHING,
        expires_at: Moment | None = None,
        *,
        correlation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        require_responders: bool = False,
    ) -> ChannelMessage:
        """Post a message; on return it is durable.

        `message_type` is "notify", "request", "response" or "broadcast". `to` is an agent, `role:ROLE` for all who
        hold a role, `any:ROLE` for one of them, or `*` for everyone. `sender` is only for a key that speaks for several
        agents.

        Raises `Denied` when the rules refuse it, `MessageHeld` when it waits for a person, and with
        `require_responders` `NoResponders` when nobody is known who could answer a request.
        """
        body = without_none(sender=sender, to=to, message_type=message_type, payload=as_payload(payload))
        body |= without_none(expires_at=timestamp_of(expires_at), correlation_id=correlation_id, metadata=metadata)
        query = {"require_responders": "true"} if require_responders else None
        return await self._post("channels", channel_id, "messages", body=body, query=query)

    def sign(  # noqa: PLR0913  # what `send_message` takes
        self,
        sign: Callable[[bytes], bytes],
        channel_id: str,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: object = NOTHING,
        expires_at: Moment | None = None,
        *,
        correlation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, object]:
        """The metadata of a message with a proof of its sender: pass them on to `send_message` with the same values.

        `sign` signs bytes with the agent's Ed25519 key, such as `private_key.sign` of the package cryptography.
        A broadcast is `to="*"`; a reply is a "response" to the sender of the request, with its id as `correlation_id`.
        """
        from parley.wire.proofs.event_log import canonical

        fields = dict(metadata or {})
        document = {
            "channel_id": channel_id,
            "sender": sender or self.connection.agent,
            "to": to,
            "message_type": message_type,
            "correlation_id": correlation_id,
            "payload": json.loads(encoded(as_payload(payload))),
            "expires_at": timestamp_of(expires_at),
            "metadata": fields,
        }
        signature = urlsafe_b64encode(sign(canonical(document))).rstrip(b"=").decode()
        return {**fields, "proof": {"type": "Ed25519Signature2026", "signature": signature}}

    async def reply_to(
        self,
        channel_id: str,
        message_id: str,
        sender: str | None = None,
        payload: object = NOTHING,
        *,
        expires_at: Moment | None = None,
        metadata: Mapping[str, Any] | None = None,
        lease: str | None = None,
        idempotency_key: str | None = None,
    ) -> ChannelMessage:
        """Answer a request.

        Only whom it was for may answer; a request that you claimed, with its `lease`. Raises `MessageHeld` when the
        answer waits for a person. Calls with the same `idempotency_key` send one answer: the second returns what the
        first sent.
        """
        body = without_none(sender=sender, payload=as_payload(payload), metadata=metadata)
        body |= without_none(expires_at=timestamp_of(expires_at))
        body |= without_none(lease=lease)
        path = ("channels", channel_id, "messages", message_id, "reply")
        return await self._post(*path, body=body, idempotency_key=idempotency_key)

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
        query = without_none(to=to, limit=limit, on_evicted=on_evicted, wait=wait or None)
        query["since"] = since if isinstance(since, int) else timestamp_of(since)
        timeout = wait + _GRACE_SECONDS if wait else 0.0
        path = ("channels", channel_id, "messages")
        return await self._fetch(list[ChannelMessage], "GET", *path, query=query, timeout=timeout)

    async def get_message(self, channel_id: str, message_id: str) -> ChannelMessage:
        """A message."""
        return await self._fetch(ChannelMessage, "GET", "channels", channel_id, "messages", message_id)

    async def mark_read(self, channel_id: str, message_id: str) -> ChannelMessage:
        """Mark a message as read; doing it twice is no error."""
        path = ("channels", channel_id, "messages", message_id)
        return await self._fetch(ChannelMessage, "PATCH", *path, body={"status": "read"})

    async def ask(
        self,
        channel_id: str,
        sender: str | None,
        to: str,
        payload: object,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        check: bool = True,
        wait_for_responders: bool = False,
    ) -> ChannelMessage:
        """Ask, and wait for the first answer, in one round trip.

        `to` is an agent, `role:ROLE`, or `any:ROLE` for one of them. Raises `AgentFailed` when the answer is an error,
        with its cause and the agents through which it came; with `check=False` such an answer is returned, and `.error`
        says why. Raises `MessageTimeoutError` when nobody answers in time, and `MessageHeld` when the question waits
        for a person. Raises `NoResponders` at once when no such agent is known, or nobody holds the role; with
        `wait_for_responders=True` the question waits for one. When the call is cancelled or interrupted, the request is
        withdrawn.
        """
        session = self.connection.session
        question = Question(
            channel_id, to, payload, timeout, sender or "", metadata, session.new_key(), wait_for_responders
        )
        answer = await self.connection.run_question(question, asking.ask(session, question))
        if answer.get("status") == "held":
            raise _held(answer)
        message = convert_answer(answer, ChannelMessage)
        return check_answer(message) if check else message

    async def ask_all(
        self,
        channel_id: str,
        sender: str | None,
        to: str,
        payload: object,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        wait_for_responders: bool = False,
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time.

        It ends sooner when everybody who was asked has answered. An agent that could not answer says why in `.error`.
        Raises `MessageHeld` when the question waits for a person, and `NoResponders` as `ask` does.
        """
        from parley.wiring import wall_time

        session = self.connection.session
        question = Question(
            channel_id, to, payload, timeout, sender or "", metadata, session.new_key(), wait_for_responders
        )
        until = stamp(datetime.fromtimestamp(wall_time() + some_seconds("timeout", timeout), UTC))
        answers = await self.connection.run_question(question, asking.ask_all(session, question, until))
        if answers and answers[0].get("status") == "held":
            raise _held(answers[0])
        return convert_answer(answers, list[ChannelMessage])

    async def ask_stream(
        self,
        channel_id: str,
        sender: str | None,
        to: str,
        payload: object,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        check: bool = True,
        wait_for_responders: bool = False,
    ) -> AsyncGenerator[ChannelMessage]:
        """Ask, and follow the partial answers as they come; the last one is the answer.

        Partial answers have a `.partial`, "artifact" or "progress". An answer that only repeats the last artifact is
        left out: that artifact is the answer. An agent that sends no partial answers gives one answer. `timeout` is for
        all of it. Raises as `ask` does. Whoever stops following before the end withdraws the request.
        """
        question = Question(
            channel_id, to, payload, timeout, sender or "", metadata, wait_for_responders=wait_for_responders
        )
        async with aclosing(self.connection.ask_stream(question)) as answers:
            async for answer in answers:
                if answer.get("status") == "held":
                    raise _held(answer)
                message = convert_answer(answer, ChannelMessage)
                yield check_answer(message) if check and not message.partial else message

    async def withdraw_request(self, channel_id: str, message_id: str, *, sender: str | None = None) -> RequestInfo:
        """Withdraw a request that you sent and that is not answered yet; doing it twice is no error.

        Whoever was asked is notified, and a handler that works on it is cancelled. Raises `Conflict` with the code
        `already_answered` or `message_expired` when it is too late. `sender` is only for a key that speaks for several
        agents.
        """
        path, query = ("channels", channel_id, "messages", message_id), {"sender": sender}
        return await self._fetch(RequestInfo, "DELETE", *path, query=query)

    async def forward_request(
        self,
        channel_id: str,
        message_id: str,
        to: str,
        payload: object = None,
        *,
        sender: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        lease: str | None = None,
        idempotency_key: str | None = None,
    ) -> ChannelMessage:
        """Hand a request that you were sent on to another agent: it answers the one who asked, and you no longer can.

        Without a `payload` the other agent is asked what you were asked. Returns the request that it gets. Raises
        `Conflict` with the code `forward_loop` when it had the request before, and `MessageHeld` when a person has to
        approve it. `lease` is that of a request that was claimed.
        """
        said = as_payload(payload) if payload is not None else None
        body = without_none(to=to, payload=said, sender=sender, metadata=metadata, lease=lease)
        path = ("channels", channel_id, "messages", message_id, "forward")
        return await self._post(*path, body=body, idempotency_key=idempotency_key)

    async def follow_up(
        self,
        answer: ChannelMessage,
        payload: object,
        timeout: float = 30,
        *,
        sender: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        check: bool = True,
    ) -> ChannelMessage:
        """Ask on after an answer, such as a question in return (`answer.is_question`), and wait for the next answer.

        It goes to whoever answered, in the same channel and conversation; `metadata.follows` names the answer.
        """
        fields = {**asking.continued(answer.id, answer.metadata), **(metadata or {})}
        return await self.ask(answer.channel_id, sender, answer.sender, payload, timeout, metadata=fields, check=check)

    def direct(self, agent: str) -> AsyncDirect:
        """Talk to one agent directly, without an intent: `direct("writer").ask({...})`.

        The two of you have one channel, which nobody else sees and which the first message creates.
        """
        return AsyncDirect(self, agent)

    async def get_direct_channel(self, agent: str) -> DirectChannel:
        """Where you and another agent talk directly, whether or not anything was said there."""
        return await self._fetch(DirectChannel, "GET", "agents", agent, "direct")

    async def get_request(self, channel_id: str, message_id: str) -> RequestInfo:
        """Where a request stands: its `state` says whether it is open, forwarded, answered, withdrawn or expired."""
        return await self._fetch(RequestInfo, "GET", "channels", channel_id, "messages", message_id, "request")

    async def send_to_name(
        self,
        intent_id: str,
        name: str,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: object = NOTHING,
        expires_at: Moment | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> ChannelMessage:
        """Post a message to a channel by its name; it is created when it does not exist.

        Otherwise as `send_message`.
        """
        body = without_none(sender=sender, to=to, message_type=message_type, payload=as_payload(payload))
        body |= without_none(expires_at=timestamp_of(expires_at), metadata=metadata)
        return await self._post("intents", intent_id, "channels", name, "messages", body=body)

    async def send_batch(self, channel_id: str, messages: Iterable[Mapping[str, Any]]) -> list[ChannelMessage]:
        """Post several messages of one sender: all of them or none.

        Each is a mapping with the parameters of `send_message`. At most 100.
        """
        bodies = [
            without_none(**fields)
            | without_none(expires_at=timestamp_of(fields.get("expires_at")), payload=_given_payload(fields))
            for fields in messages
        ]
        path = ("channels", channel_id, "batch")
        return await self._fetch(list[ChannelMessage], "POST", *path, body={"messages": bodies})

    async def search(
        self, text: str, channel_id: str | None = None, *, limit: int | None = None
    ) -> list[ChannelMessage]:
        """Messages that hold a text, in one channel or in all that you may see; in any case, the newest first."""
        path = ("channels", channel_id, "search") if channel_id else ("messages", "search")
        return await self._fetch(list[ChannelMessage], "GET", *path, query={"q": text, "limit": limit})

    async def _post(
        self,
        *path: str,
        body: dict[str, Any],
        idempotency_key: str | None = None,
        query: Mapping[str, object] | None = None,
    ) -> ChannelMessage:
        headers = {"idempotency-key": header("idempotency-key", idempotency_key)} if idempotency_key else None
        answer = await self.connection.send("POST", *path, body=body, query=query, headers=headers, parsed=False)
        if answer.status == 202:
            raise _held(json.loads(answer.content))
        return read_answer(answer.content, ChannelMessage)
