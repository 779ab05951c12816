"""Asking and waiting for answers, without any I/O: one round trip when all goes well, and no answer lost when not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.errors import NotFound, ParleyError
from parley.domain.errors.team import AskEnded, AskTimeout, MessageExpired
from parley.domain.times import stamp
from parley.sdk.protocol.flow import Pause, as_payload, some_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.protocol.flow import ApiSession, Flow

# How much longer than the server we wait for an answer, and how long one long poll may take.
_GRACE_SECONDS = 15.0
_POLL_SECONDS = 15.0
# How long giving up a question may take, and when to look again for one that has not arrived yet.
_WITHDRAW_SECONDS = 2.0
_WITHDRAW_PAUSES = (0.05, 0.2)
_ROLE = "role:"
_SYSTEM = "system"


class Question(NamedTuple):
    """What is asked of whom, and for how long the answer is waited for."""

    channel_id: str
    to: str
    payload: object
    timeout: float = 30.0
    sender: str = ""
    metadata: Mapping[str, Any] | None = None
    # The idempotency key of its request, by which it can be withdrawn before its id is known.
    key: str = ""
    wait_for_responders: bool = False

    @property
    def headers(self) -> dict[str, str] | None:
        """What is sent beside the body."""
        return {"idempotency-key": self.key} if self.key else None

    @property
    def query(self) -> dict[str, str]:
        """The query of a plain post of it: whether somebody has to be there who could answer."""
        return {} if self.wait_for_responders else {"require_responders": "true"}

    def body(self) -> dict[str, Any]:
        """The fields that the server takes, without those that are not given."""
        fields: dict[str, Any] = {"to": self.to, "payload": as_payload(self.payload)}
        if self.sender:
            fields["sender"] = self.sender
        if self.metadata:
            fields["metadata"] = self.metadata
        return fields


def ask(session: ApiSession, question: Question) -> Flow[dict[str, Any]]:
    """The first answer; the server registers the wait before it delivers the question.

    A question that is held for approval is returned at once, with the status `held`. A server that restarts meanwhile
    has the question already; then the answer is looked for in the channel.
    """
    until = session.monotonic() + some_seconds("timeout", question.timeout)
    body = question.body() | {"timeout": question.timeout}
    if question.wait_for_responders:
        body["wait_for_responders"] = True
    path = ("channels", question.channel_id)
    wait = question.timeout + _GRACE_SECONDS
    try:
        answer = yield from session.send(
            "POST", *path, "ask", body=body, headers=question.headers, timeout=wait, within=question.timeout
        )
    except MessageExpired as error:
        raise session.with_hint(AskEnded(f"{question.to} will not answer: {error.message}")) from None
    message: dict[str, Any] = answer.document
    if message.get("status") == "held":
        return message
    question_id = cursor = message["id"]
    while message.get("correlation_id") is None:
        left = until - session.monotonic()
        if left <= 0:
            text = f"{question.to} did not answer within {question.timeout:g} seconds"
            raise session.with_hint(AskTimeout(text))
        query = {"since": cursor, "wait": f"{min(left, _POLL_SECONDS):.3f}"}
        page = (
            yield from session.send("GET", *path, "messages", query=query, timeout=left + _GRACE_SECONDS, within=left)
        ).document
        cursor = page[-1]["id"] if page else cursor
        message = next((reply for reply in page if reply["correlation_id"] == question_id), message)
    return message


def ask_all(session: ApiSession, question: Question, expires_at: str) -> Flow[list[dict[str, Any]]]:
    """Every answer that comes in time, in the channel's order; sooner when everybody who was asked has answered.

    A question that waits for a person comes back alone, as it is held.
    """
    until = session.monotonic() + some_seconds("timeout", question.timeout)
    body = question.body() | {"message_type": "request", "expires_at": expires_at}
    path = ("channels", question.channel_id, "messages")
    posted = yield from session.send(
        "POST", *path, body=body, query=question.query, headers=question.headers, within=question.timeout
    )
    message = posted.document
    if message.get("status") == "held":
        return [message]
    question_id = cursor = message["id"]
    awaited = yield from _addressees(session, question)
    waits_for_all = bool(awaited)
    answers: list[dict[str, Any]] = []
    while (left := until - session.monotonic()) > 0:
        query = {"since": cursor, "wait": f"{min(left, _POLL_SECONDS):.3f}"}
        page = (yield from session.send("GET", *path, query=query, timeout=left + _GRACE_SECONDS, within=left)).document
        cursor = page[-1]["id"] if page else cursor
        answers += [reply for reply in page if reply["correlation_id"] == question_id]
        awaited -= {answer["sender"] for answer in answers} | {*map(_departed, page)}
        if waits_for_all and not awaited:
            break
    return answers


class AnswerStream:
    """The answers to one question as they come: partial ones, and the answer, which ends it."""

    def __init__(self, session: ApiSession, question: Question, wall_time: float) -> None:
        self._session = session
        self._question = question
        seconds = some_seconds("timeout", question.timeout)
        self._until = session.monotonic() + seconds
        self._expires_at = stamp(datetime.fromtimestamp(wall_time + seconds, UTC))
        self._path = ("channels", question.channel_id, "messages")
        self._cursor = ""
        self._last_part = ""
        self.request_id = ""
        # Whether somebody may still answer: then it is withdrawn when nobody follows it any more.
        self.is_open = False

    def begin(self) -> Flow[dict[str, Any]]:
        """Send the question; the request, or the message that waits for a person."""
        question = self._question
        body = question.body() | {"message_type": "request", "expires_at": self._expires_at}
        body["metadata"] = {**(question.metadata or {}), "accepts_partial": True}
        self.is_open = True
        try:
            answer = yield from self._session.send(
                "POST", *self._path, body=body, query=question.query, headers=question.headers, within=question.timeout
            )
        except ParleyError:
            self.is_open = False
            raise
        message: dict[str, Any] = answer.document
        self.is_open = message.get("status") != "held"
        self.request_id = self._cursor = message.get("id", "")
        return message

    def next_page(self) -> Flow[list[dict[str, Any]]]:
        """The next answers, some or none; `AskTimeout` when the time is over before the last one came."""
        left = self._until - self._session.monotonic()
        if left <= 0:
            self.is_open = False
            text = f"{self._question.to} did not answer within {self._question.timeout:g} seconds"
            raise self._session.with_hint(AskTimeout(text))
        query = {"since": self._cursor, "wait": f"{min(left, _POLL_SECONDS):.3f}"}
        page = (
            yield from self._session.send("GET", *self._path, query=query, timeout=left + _GRACE_SECONDS, within=left)
        ).document
        self._cursor = page[-1]["id"] if page else self._cursor
        answers: list[dict[str, Any]] = []
        for message in page:
            if message["correlation_id"] == self.request_id and self.is_open:
                answers += self._noted(message)
            elif _departed(message) == self._question.to and not answers:
                self.is_open = False
                raise self._session.with_hint(AskEnded(f"{self._question.to} will not answer: it has left"))
        return answers

    def _noted(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """An answer; nothing for one that only repeats the last part."""
        if message["metadata"].get("partial"):
            self._last_part = message["id"]
            return [message]
        self.is_open = False
        return [] if self._last_part and message["metadata"].get("repeats") == self._last_part else [message]


def continued(answer_id: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the metadata of a question say that follows an answer: which one, and in which conversation."""
    envelope = metadata.get("ocip")
    conversation = envelope.get("conversation_id") if isinstance(envelope, dict) else None
    return {"follows": answer_id, **({"conversation_id": conversation} if conversation else {})}


def withdraw(session: ApiSession, question: Question) -> Flow[None]:
    """Withdraw a question that is given up. What is answered, over or unknown by now is left as it is."""
    query = {"sender": question.sender}
    for pause in (*_WITHDRAW_PAUSES, 0.0):
        try:
            path = ("channels", question.channel_id, "asks", question.key)
            yield from session.send("DELETE", *path, query=query, timeout=_WITHDRAW_SECONDS, within=_WITHDRAW_SECONDS)
        except NotFound:
            if pause:
                yield Pause(pause)  # the question may still be on its way
                continue
        except ParleyError:
            pass
        return


def _departed(message: dict[str, Any]) -> str:
    """The agent that was deregistered, when the server says so in a channel; else empty."""
    payload = message["payload"]
    announces = message["sender"] == _SYSTEM and payload.get("event") == "agent_departed"
    return str(payload.get("agent_id", "")) if announces else ""


def _addressees(session: ApiSession, question: Question) -> Flow[set[str]]:
    """Who is expected to answer."""
    if not question.to.startswith(_ROLE):
        return {question.to}
    role = (yield from session.send("GET", "roles", question.to.removeprefix(_ROLE), "holders")).document
    return {str(holder) for holder in role.get("holders", ())} - {question.sender or session.agent}
