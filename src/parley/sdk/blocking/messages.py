# Written by tools/gen_client.py from sdk/client/messages.py. Change that, then run: make docs
"""Messages: send, reply, read and acknowledge; ask, and collect answers; search."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from parley.domain.errors.errors import Invalid
from parley.sdk.blocking.answers import all_answers, answer_stream, first_answer, held_error
from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import NOTHING, timestamp_of, without_none
from parley.sdk.protocol import asking
from parley.sdk.protocol.asking import Question
from parley.sdk.protocol.call_arguments import NOT_GIVEN, address_from, brief, id_from
from parley.sdk.protocol.failures import check_answer
from parley.sdk.protocol.flow import as_payload, encoded, header
from parley.sdk.records import read_answer
from parley.wire.api.records.channels import Ask, AskCount, ChannelMessage, Conversation, DirectChannel, RequestInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from parley.sdk.client.fields import Moment
    from parley.wire.api.records.channels import Channel

# How much longer than the server we wait for a page that it may hold back.
_GRACE_SECONDS = 15.0
_ORDER = "the order is channel_id, sender, to, payload; by name: to=..., payload=..."


def _patience(wait_for_responders: bool | None) -> dict[str, str] | None:
    return None if wait_for_responders is None else {"wait_for_responders": str(wait_for_responders).lower()}


def _message_body(call: str, sender: object, to: object, message_type: object, payload: object) -> dict[str, Any]:
    """The fields of a message that is posted, each of them what it has to be."""
    if not isinstance(message_type, str):
        hint = "the payload comes after it: write payload=..."
        raise Invalid(f"{call}: message_type is a text such as 'notify', not {brief(message_type)}", hint=hint)
    if payload is NOTHING and to is None:  # RFC-0021 allows it, but an empty message to nobody is never meant
        meant = f"{brief(sender)} was taken for the sender: " if sender else ""
        raise Invalid(f"{call}: there is no payload", hint=f"{meant}write payload=...")
    to = None if to is None else address_from(call, to)
    return without_none(sender=_sender(call, sender), to=to, message_type=message_type, payload=as_payload(payload))


def _sender(call: str, sender: object) -> str | None:
    if sender is None or isinstance(sender, str):
        return sender or None
    raise Invalid(f"{call}: sender is an agent's name or None, not {brief(sender)}", hint=_ORDER)


def _question(  # what `ask` takes
    call: str,
    channel_id: object,
    sender: object,
    to: object,
    payload: object,
    timeout: float,
    metadata: Mapping[str, Any] | None,
    wait_for_responders: bool,
) -> Question:
    """A question whose parameters are in the order of RFC-0021."""
    if to is None or not isinstance(to, str):
        text = f"{call}: to is missing" if to is None else f"{call}: to is an agent's name, not {brief(to)}"
        raise Invalid(text, hint=_ORDER)
    if payload is NOT_GIVEN:
        raise Invalid(f"{call}: there is no payload", hint=_ORDER)
    channel, speaker = id_from(call, "channel_id", channel_id), _sender(call, sender) or ""
    return Question(channel, to, payload, timeout, speaker, metadata, wait_for_responders=wait_for_responders)


def _given_payload(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    return as_payload(fields["payload"]) if fields.get("payload") is not None else None


class Messages(Area):
    """What a client does with messages."""

    def send_message(  # noqa: PLR0913  # one parameter a field
        self,
        channel_id: str | Channel,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: object = NOTHING,
        expires_at: Moment | None = None,
        *,
        correlation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        wait_for_responders: bool | None = None,
    ) -> ChannelMessage:
        """Post a message; on return it is durable.

        `message_type` is "notify", "request", "response" or "broadcast". `to` is an agent, `role:ROLE` for all who
        hold a role, `any:ROLE` for one of them, or `*` for everyone. `sender` is only for a key that speaks for several
        agents.

        Raises `Denied` when the rules refuse it, `MessageHeld` when it waits for a person, and `NoResponders` for
        `any:ROLE` when the role was never granted. With `wait_for_responders` false it is refused so whenever nobody
        could get the message now; with true the message always waits.
        """
        body = _message_body("send_message", sender, to, message_type, payload)
        body |= without_none(expires_at=timestamp_of(expires_at), correlation_id=correlation_id, metadata=metadata)
        path = ("channels", id_from("send_message", "channel_id", channel_id), "messages")
        return self._post(*path, body=body, query=_patience(wait_for_responders))

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

    def reply_to(
        self,
        channel_id: str | Channel,
        message_id: str | ChannelMessage,
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
        channel, message = id_from("reply_to", "channel_id", channel_id), id_from("reply_to", "message_id", message_id)
        path = ("channels", channel, "messages", message, "reply")
        return self._post(*path, body=body, idempotency_key=idempotency_key)

    def list_messages(  # one parameter a field
        self,
        channel_id: str | Channel,
        since: Moment | int | None = None,
        to: str | None = None,
        *,
        limit: int | None = None,
        wait: float = 0,
        on_evicted: Literal["continue", "error"] | None = None,
        before: str | int | None = None,
        order: Literal["asc", "desc"] | None = None,
    ) -> list[ChannelMessage]:
        """The messages of a channel that you may see, in their order; with `order="desc"` the newest first.

        `before` is the id of a message, or its `seq`: what comes before it, newest first.

        `since` is the id of a message, its `seq`, or a time: what comes after it. `wait` is how many seconds the server
        may wait for something new. Raises `CursorEvicted` when messages after `since` are no longer kept and
        `on_evicted` is "error".
        """
        query = without_none(to=to, limit=limit, on_evicted=on_evicted, wait=wait or None, before=before, order=order)
        query["since"] = since if isinstance(since, int) else timestamp_of(since)
        timeout = wait + _GRACE_SECONDS if wait else 0.0
        path = ("channels", id_from("list_messages", "channel_id", channel_id), "messages")
        return self._fetch(list[ChannelMessage], "GET", *path, query=query, timeout=timeout)

    def get_message(self, channel_id: str | Channel, message_id: str) -> ChannelMessage:
        """A message."""
        channel = id_from("get_message", "channel_id", channel_id)
        return self._fetch(ChannelMessage, "GET", "channels", channel, "messages", message_id)

    def list_conversations(self, *, limit: int = 50) -> list[Conversation]:
        """The last conversations of which you may see messages, in all channels, last active first."""
        conversations: list[Conversation] = []
        before = ""
        while len(conversations) < limit:
            query = {"limit": min(limit - len(conversations), 200), **({"before": before} if before else {})}
            answer = self.connection.send("GET", "conversations", query=query, parsed=False)
            conversations += read_answer(answer.content, list[Conversation])
            before = answer.headers.get("x-next-cursor", "")
            if not before:
                break
        return conversations

    def list_conversation(
        self,
        conversation_id: str,
        *,
        since: str | None = None,
        before: str | None = None,
        order: str | None = None,
        limit: int | None = None,
    ) -> list[ChannelMessage]:
        """The messages of a conversation that you may see, in all channels, oldest first; with `order="desc"` or
        `before` newest first.

        `since` and `before` are ids of messages. Raises `NotFound` when you may see nothing of it.
        """
        query = without_none(since=since, before=before, order=order, limit=limit)
        return self._fetch(list[ChannelMessage], "GET", "conversations", conversation_id, "messages", query=query)

    def mark_read(self, channel_id: str | Channel, message_id: str) -> ChannelMessage:
        """Mark a message as read; doing it twice is no error."""
        path = ("channels", id_from("mark_read", "channel_id", channel_id), "messages", message_id)
        return self._fetch(ChannelMessage, "PATCH", *path, body={"status": "read"})

    def ask(
        self,
        channel_id: str | Channel,
        sender: str | None = None,
        to: str | None = None,
        payload: object = NOT_GIVEN,
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
        question = _question("ask", channel_id, sender, to, payload, timeout, metadata, wait_for_responders)
        message = first_answer(self.connection, question)
        return check_answer(message) if check else message

    def ask_all(
        self,
        channel_id: str | Channel,
        sender: str | None = None,
        to: str | None = None,
        payload: object = NOT_GIVEN,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        wait_for_responders: bool = False,
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time.

        It ends sooner when everybody who was asked has answered. An agent that could not answer says why in `.error`.
        Raises `MessageHeld` when the question waits for a person, and `NoResponders` as `ask` does.
        """
        question = _question("ask_all", channel_id, sender, to, payload, timeout, metadata, wait_for_responders)
        return all_answers(self.connection, question)

    def ask_stream(
        self,
        channel_id: str | Channel,
        sender: str | None = None,
        to: str | None = None,
        payload: object = NOT_GIVEN,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        check: bool = True,
        wait_for_responders: bool = False,
    ) -> Generator[ChannelMessage]:
        """Ask, and follow the partial answers as they come; the last one is the answer.

        Partial answers have a `.partial`, "artifact" or "progress". An answer that only repeats the last artifact is
        left out: that artifact is the answer. An agent that sends no partial answers gives one answer. `timeout` is for
        all of it. Raises as `ask` does. Whoever stops following before the end withdraws the request.
        """
        question = _question("ask_stream", channel_id, sender, to, payload, timeout, metadata, wait_for_responders)
        with closing(answer_stream(self.connection, question)) as answers:
            for answer in answers:
                yield check_answer(answer) if check and not answer.partial else answer

    def withdraw_request(self, channel_id: str, message_id: str, *, sender: str | None = None) -> RequestInfo:
        """Withdraw a request that you sent and that is not answered yet; doing it twice is no error.

        Whoever was asked is notified, and a handler that works on it is cancelled. Raises `Conflict` with the code
        `already_answered` or `message_expired` when it is too late. `sender` is only for a key that speaks for several
        agents.
        """
        path, query = ("channels", channel_id, "messages", message_id), {"sender": sender}
        return self._fetch(RequestInfo, "DELETE", *path, query=query)

    def forward_request(  # noqa: PLR0913  # one parameter a field
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
        wait_for_responders: bool = False,
    ) -> ChannelMessage:
        """Hand a request that you were sent on to another agent: it answers the one who asked, and you no longer can.

        Without a `payload` the other agent is asked what you were asked. Returns the request that it gets. Raises
        `Conflict` with the code `forward_loop` when it had the request before, and `MessageHeld` when a person has to
        approve it. `lease` is that of a request that was claimed. Raises `NoResponders` when no such agent is known, or
        nobody holds the role; with `wait_for_responders=True` the request waits for one.
        """
        content = as_payload(payload) if payload is not None else None
        body = without_none(to=to, payload=content, sender=sender, metadata=metadata, lease=lease)
        body |= without_none(wait_for_responders=wait_for_responders or None)
        path = ("channels", channel_id, "messages", message_id, "forward")
        return self._post(*path, body=body, idempotency_key=idempotency_key)

    def follow_up(
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
        return self.ask(answer.channel_id, sender, answer.sender, payload, timeout, metadata=fields, check=check)

    def get_direct_channel(self, agent: str) -> DirectChannel:
        """Where you and another agent talk directly, whether or not anything was said there."""
        return self._fetch(DirectChannel, "GET", "agents", agent, "direct")

    def get_request(self, channel_id: str, message_id: str) -> RequestInfo:
        """Where a request stands: its `state` says whether it is open, forwarded, answered, withdrawn or expired."""
        return self._fetch(RequestInfo, "GET", "channels", channel_id, "messages", message_id, "request")

    def list_asks(  # one parameter a filter
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        channel_id: str | Channel | None = None,
        since: str | None = None,
        order: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Ask]:
        """The requests that wait for an answer, oldest first, of those that you may see.

        `state` is "waiting" (the default), "late" for those whose time has passed, or "waiting,late". `agent` has sent
        them or was asked. `order` is "oldest" or "newest"; `after` is the `message_id` at which the page before ended.
        """
        query = without_none(state=state, agent=agent, since=since, order=order, limit=limit, after=after)
        query |= {"channel_id": id_from("list_asks", "channel_id", channel_id)} if channel_id is not None else {}
        return self._fetch(list[Ask], "GET", "asks", query=query)

    def count_asks(
        self, *, agent: str | None = None, channel_id: str | Channel | None = None, since: str | None = None
    ) -> AskCount:
        """How many requests wait for an answer, and how many got none in time."""
        query = without_none(agent=agent, since=since)
        query |= {"channel_id": id_from("count_asks", "channel_id", channel_id)} if channel_id is not None else {}
        return self._fetch(AskCount, "GET", "asks", "count", query=query)

    def send_to_name(  # noqa: PLR0913  # one parameter a field
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
        wait_for_responders: bool | None = None,
    ) -> ChannelMessage:
        """Post a message to a channel by its name; it is created when it does not exist.

        Otherwise as `send_message`.
        """
        body = _message_body("send_to_name", sender, to, message_type, payload)
        body |= without_none(expires_at=timestamp_of(expires_at), metadata=metadata)
        return self._post(
            "intents",
            self._intent_id(intent_id),
            "channels",
            name,
            "messages",
            body=body,
            query=_patience(wait_for_responders),
        )

    def send_batch(self, channel_id: str, messages: Iterable[Mapping[str, Any]]) -> list[ChannelMessage]:
        """Post several messages of one sender: all of them or none.

        Each is a mapping with the parameters of `send_message`. At most 100.
        """
        bodies = [
            without_none(**fields)
            | without_none(expires_at=timestamp_of(fields.get("expires_at")), payload=_given_payload(fields))
            for fields in messages
        ]
        path = ("channels", channel_id, "batch")
        return self._fetch(list[ChannelMessage], "POST", *path, body={"messages": bodies})

    def search(self, text: str, channel_id: str | None = None, *, limit: int | None = None) -> list[ChannelMessage]:
        """Messages that hold a text, in one channel or in all that you may see; in any case, the newest first."""
        path = ("channels", channel_id, "search") if channel_id else ("messages", "search")
        return self._fetch(list[ChannelMessage], "GET", *path, query={"q": text, "limit": limit})

    def _post(
        self,
        *path: str,
        body: dict[str, Any],
        idempotency_key: str | None = None,
        query: Mapping[str, object] | None = None,
    ) -> ChannelMessage:
        headers = {"idempotency-key": header("idempotency-key", idempotency_key)} if idempotency_key else None
        answer = self.connection.send("POST", *path, body=body, query=query, headers=headers, parsed=False)
        if answer.status == 202:
            raise held_error(json.loads(answer.content))
        return read_answer(answer.content, ChannelMessage)
