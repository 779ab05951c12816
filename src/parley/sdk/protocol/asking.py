"""Asking and waiting for answers, without any I/O: one round trip when all goes well, and no answer lost when not."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from parley.domain.errors.errors import NotFound, ParleyError
from parley.domain.errors.team import AskEnded, AskTimeout, MessageExpired
from parley.domain.times import seconds_text, stamp
from parley.sdk.protocol.flow import Pause, as_payload, some_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parley.sdk.protocol.flow import ApiSession, Flow

# How much longer than the server we wait for an answer, and how long one long poll may take.
_GRACE_SECONDS = 15.0
_POLL_SECONDS = 15.0
# How long giving up a question may take, and when to look again for one that has not arrived yet.
_WITHDRAW_SECONDS = 2.0
_WITHDRAW_PAUSES = (0.05, 0.2)
_ROLE = "role:"
_ANY = "any:"
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
        """The query of a plain post of it: whether it waits for somebody who could answer."""
        return {"wait_for_responders": str(self.wait_for_responders).lower()}

    def body(self) -> dict[str, Any]:
        """The fields that the server takes, without those that are not given."""
        fields: dict[str, Any] = {"to": self.to, "payload": as_payload(self.payload)}
        if self.sender:
            fields["sender"] = self.sender
        if self.metadata:
            fields["metadata"] = self.metadata
        return fields


class QuestionObserver(Protocol):
    """Hears of the questions of a client, before they are sent and until they have ended."""

    def opened(self, question: OpenQuestion) -> None:
        """It is about to be sent."""

    def changed(self, question: OpenQuestion) -> None:
        """Its request, or an answer that it took, is known now."""

    def closed(self, question: OpenQuestion) -> None:
        """It takes no more answers."""


class OpenQuestion:
    """A question from before it is sent until it has ended: the one record of it, however its answers are collected.

    `first_answer` waits for one answer, `all_answers` for everybody who was asked; `begin` and `next_answers` give
    partial answers as they come.
    """

    def __init__(
        self, session: ApiSession, question: Question, wall_time: float = 0.0, observer: QuestionObserver | None = None
    ) -> None:
        seconds = some_seconds("timeout", question.timeout)
        self.question = question if question.key else question._replace(key=session.new_key())
        # The id of its request, as soon as it is known: all answers to it belong to this question.
        self.request_id = ""
        # The answers that it took, where others to the same request may be for somebody else.
        self.answer_ids: list[str] = []
        # Whether somebody may still answer: then it is withdrawn when nobody waits for it any more.
        self.is_open = False
        self._session = session
        self._observer = observer
        self._until = session.monotonic() + seconds
        self._expires_at = stamp(datetime.fromtimestamp(wall_time + seconds, UTC))
        self._path = ("channels", question.channel_id)
        self._cursor = ""
        self._last_part = ""

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Tell the observer that it is asked now, and when it has ended."""
        if self._observer is None:
            yield
            return
        self._observer.opened(self)
        try:
            yield
        finally:
            self._observer.closed(self)

    def first_answer(self) -> Flow[dict[str, Any]]:
        """The first answer; the server registers the wait before it delivers the question.

        A question that is held for approval is returned at once, with the status `held`. A server that restarts
        meanwhile has the question already; then the answer is looked for in the channel.
        """
        question, session = self.question, self._session
        body = question.body() | {"timeout": question.timeout}
        if question.wait_for_responders:
            body["wait_for_responders"] = True
        wait = question.timeout + _GRACE_SECONDS
        try:
            response = yield from session.send(
                "POST", *self._path, "ask", body=body, headers=question.headers, timeout=wait, within=question.timeout
            )
        except MessageExpired as error:
            raise session.with_hint(AskEnded(f"{question.to} will not answer: {error.message}")) from None
        message: dict[str, Any] = response.document
        if message.get("status") == "held":
            return message
        question_id = self._cursor = message["id"]
        while message.get("correlation_id") is None:
            page = yield from self._next_page()
            message = next((reply for reply in page if reply["correlation_id"] == question_id), message)
        self._note(answer_id=message["id"])
        return message

    def all_answers(self) -> Flow[list[dict[str, Any]]]:
        """Every answer that comes in time, in the channel's order; sooner when everybody who was asked has answered.

        A question that waits for a person comes back alone, as it is held.
        """
        message = yield from self._post({})
        if message.get("status") == "held":
            return [message]
        awaited = yield from _addressees(self._session, self.question)
        waits_for_all = bool(awaited)
        answers: list[dict[str, Any]] = []
        while (left := self._seconds_left) > 0:
            page = yield from self._page(left)
            answers += [reply for reply in page if reply["correlation_id"] == self.request_id]
            if answers and self.question.to.startswith(_ANY):
                break  # one holder of the role took the job
            awaited -= {answer["sender"] for answer in answers} | {*map(_departed, page)}
            if waits_for_all and not awaited:
                break
        return answers

    def begin(self) -> Flow[dict[str, Any]]:
        """Send the question, for partial answers; the request, or the message that waits for a person."""
        self.is_open = True
        try:
            message = yield from self._post({"metadata": {**(self.question.metadata or {}), "accepts_partial": True}})
        except ParleyError:
            self.is_open = False
            raise
        self.is_open = message.get("status") != "held"
        return message

    def next_answers(self) -> Flow[list[dict[str, Any]]]:
        """The next answers, some or none; `AskTimeout` when the time is over before the last one came."""
        page = yield from self._next_page()
        answers: list[dict[str, Any]] = []
        for message in page:
            if message["correlation_id"] == self.request_id and self.is_open:
                answers += self._without_repeated(message)
            elif _departed(message) == self.question.to and not answers:
                self.is_open = False
                raise self._session.with_hint(AskEnded(f"{self.question.to} will not answer: it has left"))
        return answers

    def withdraw(self) -> Flow[dict[str, Any] | ParleyError]:
        """Withdraw it; see `withdraw`."""
        return withdraw(self._session, self.question)

    @property
    def _seconds_left(self) -> float:
        return self._until - self._session.monotonic()

    def _post(self, fields: dict[str, Any]) -> Flow[dict[str, Any]]:
        """Post its request, whose answers all belong to it."""
        question = self.question
        body = question.body() | {"message_type": "request", "expires_at": self._expires_at} | fields
        response = yield from self._session.send(
            "POST",
            *self._path,
            "messages",
            body=body,
            query=question.query,
            headers=question.headers,
            within=question.timeout,
        )
        message: dict[str, Any] = response.document
        if message.get("status") != "held":
            self._cursor = message["id"]
            self._note(request_id=message["id"])
        return message

    def _next_page(self) -> Flow[list[dict[str, Any]]]:
        """What was said since, as soon as there is something; `AskTimeout` when the time is over."""
        left = self._seconds_left
        if left <= 0:
            self.is_open = False
            text = f"{self.question.to} did not answer within {seconds_text(self.question.timeout)} seconds"
            raise self._session.with_hint(AskTimeout(text))
        return (yield from self._page(left))

    def _page(self, left: float) -> Flow[list[dict[str, Any]]]:
        query = {"since": self._cursor, "wait": f"{min(left, _POLL_SECONDS):.3f}"}
        response = yield from self._session.send(
            "GET", *self._path, "messages", query=query, timeout=left + _GRACE_SECONDS, within=left
        )
        page: list[dict[str, Any]] = response.document
        self._cursor = page[-1]["id"] if page else self._cursor
        return page

    def _note(self, *, request_id: str = "", answer_id: str = "") -> None:
        self.request_id = request_id or self.request_id
        self.answer_ids += [answer_id] if answer_id else []
        if self._observer is not None:
            self._observer.changed(self)

    def _without_repeated(self, message: dict[str, Any]) -> list[dict[str, Any]]:
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


def withdraw(session: ApiSession, question: Question) -> Flow[dict[str, Any] | ParleyError]:
    """Withdraw a question that is given up: its request, or why it was not withdrawn.

    What is answered, over or unknown by now is left as it is.
    """
    query = {"sender": question.sender}
    path = ("channels", question.channel_id, "asks", question.key)
    refusal: ParleyError = NotFound.no_such("request")
    for pause in (*_WITHDRAW_PAUSES, 0.0):
        try:
            answer = yield from session.send(
                "DELETE", *path, query=query, timeout=_WITHDRAW_SECONDS, within=_WITHDRAW_SECONDS
            )
        except NotFound:
            yield Pause(pause)  # the question may still be on its way
        except ParleyError as error:
            return error
        else:
            document: dict[str, Any] = answer.document
            return document
    return refusal


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
