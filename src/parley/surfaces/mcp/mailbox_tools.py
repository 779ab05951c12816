"""The tools on a mailbox: each call opens the mailbox, does one thing, and answers with text for a model."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.mailbox import answers, claims, find, read, sending, waiting
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.receipts import steps as receipt_steps
from parley.domain.errors.errors import ParleyError
from parley.domain.mailbox.waiting import expects_answer
from parley.domain.message.bodies import default_kind, default_reply, default_subject
from parley.domain.message.kinds import Kind
from parley.domain.message.message import Draft
from parley.surfaces.mcp.arguments import body_of, budget_of, kind_of, priority_of, wait_of
from parley.surfaces.mcp.protocol import ToolResult
from parley.surfaces.mcp.results import (
    FINISHED,
    NO_ANSWER_YET,
    RELEASED,
    error_result,
    held_result,
    name_tools,
    not_waiting,
    nothing_waits,
)
from parley.wire.model_text import NextSteps, inbox_text, message_text, short_refs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.listing import Claimed
    from parley.domain.message.message import Body, Message


class WaitInterrupted(Exception):
    """The client has sent something else, or has gone: nothing may be claimed for it any more."""


class MailboxAccess(NamedTuple):
    """How to reach the mailbox of the agent that is served."""

    open: Callable[[], Kernel]
    list_agents: Callable[[], list[str]]
    lease: timedelta
    # Sleeps, and raises `WaitInterrupted` when the client does not wait any more.
    sleep: Callable[[float], None]
    # Whether an agent is known not to notice its messages by itself.
    is_unaware: Callable[[str], bool] = lambda _agent: False


class ToolMessage(NamedTuple):
    """A message that is the result of a tool, with its claim where it was claimed."""

    message_id: str
    file: str
    claimed: Claimed | None = None


class MailboxTools:
    """The tools of one agent. The tokens of its claims are remembered, so that it finishes only what it holds."""

    def __init__(self, access: MailboxAccess) -> None:
        self._access = access
        self._tokens: dict[str, str] = {}
        self._results: list[ToolMessage] = []

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool whose arguments have been checked against its schema."""
        try:
            kernel = self._access.open()
            try:
                return ToolResult(_CALLS[name](self, kernel, arguments))
            finally:
                kernel.close()
        except ParleyError as error:
            if error.code == "held":
                return held_result(error.message)
            return error_result(error)

    def acknowledge(self) -> None:
        """Tell the senders of the messages in the last result that it was handed over. To be called after it was."""
        if not self._results:
            return
        results, self._results = self._results, []
        with suppress(ParleyError):
            kernel = self._access.open()
            try:
                for result in results:
                    if result.claimed is not None:
                        receipt_steps.acknowledge(kernel, result.claimed, "next tool")
                    else:
                        receipt_steps.acknowledge_reading(kernel, result.message_id, result.file, "inbox tool")
            finally:
                kernel.close()

    def _inbox(self, kernel: Kernel, arguments: Mapping[str, Any]) -> str:
        budget = budget_of(arguments)
        now = kernel.clock.now().at
        if ref := arguments.get("id", ""):
            located = drive(find.find_readable(kernel, ref))
            message = located.message
            notes = [f"it is in {located.place}", *map(str, located.doubts)]
            steps = _steps(message, drive(find.short_ref(kernel, message.id)), answered=False)
            if located.place == "inbox":
                self._results.append(ToolMessage(message.id, located.file))
            return message_text(message, ref, steps, now, kernel.ids.token(), budget, notes)
        items = drive(read.inbox(kernel))
        bodies = find.readable_bodies(kernel, items) if budget else ()
        return inbox_text(kernel.agent, items, now, kernel.ids.token(), budget, bodies)

    def _next(self, kernel: Kernel, arguments: Mapping[str, Any]) -> str:
        budget = budget_of(arguments)
        seconds = wait_of(arguments)
        try:
            looked = drive(waiting.next_message(kernel, self._access.lease, seconds, self._access.sleep))
        except WaitInterrupted:
            return nothing_waits(kernel.agent, "yet")
        if looked.claimed is None:
            return nothing_waits(kernel.agent)
        return self._claimed_text(kernel, looked.claimed, budget)

    def _claimed_text(self, kernel: Kernel, claimed: Claimed, budget: int) -> str:
        message = claimed.message
        self._tokens[message.id] = claimed.lease.token
        ref = drive(find.short_ref(kernel, message.id))
        answered = drive(answers.answered_by(kernel, message))
        notes = [f"already answered by {', '.join(answered)}"] if answered else []
        if not answered and expects_answer(message.kind):
            notes += _expected_fields(message.kind)
        steps = _steps(message, ref, answered=bool(answered))
        now = kernel.clock.now().at
        text = message_text(message, ref, steps, now, kernel.ids.token(), budget, [*notes, *map(str, claimed.doubts)])
        self._results.append(ToolMessage(message.id, claimed.file, claimed))
        return text

    def _reply(self, kernel: Kernel, arguments: Mapping[str, Any]) -> str:
        answered = drive(find.find(kernel, arguments.get("id") or drive(claims.only_claim(kernel))))
        kind = kind_of(arguments)
        wanted = kind or default_reply(answered.message.kind)
        draft = _draft(kernel, wanted, body_of(arguments), "")
        keep_open = bool(arguments.get("keep_open"))
        token = None if keep_open else self._tokens.get(answered.message.id)
        replying = sending.reply(kernel, answered.message.id, draft, kind_given=True, keep_open=keep_open, token=token)
        sent = drive(replying)
        self._tokens.pop(sent.finished, None)
        ending = ", and finished the message" if sent.finished else ""
        return f"Sent to {', '.join(sent.message.to)} as {sent.message.kind}{ending}."

    def _done(self, kernel: Kernel, arguments: Mapping[str, Any]) -> str:
        located = drive(find.find(kernel, arguments.get("id") or drive(claims.only_claim(kernel))))
        message_id = located.message.id
        token = self._tokens.get(message_id)
        if arguments.get("release"):
            drive(claims.release(kernel, message_id, token=token))
        else:
            drive(claims.done(kernel, message_id, token=token))
        self._tokens.pop(message_id, None)
        return RELEASED if arguments.get("release") else FINISHED

    def _send(self, kernel: Kernel, arguments: Mapping[str, Any]) -> str:
        seconds = wait_of(arguments)
        body = body_of(arguments)
        text = body if isinstance(body, str) else ""
        kind = kind_of(arguments) or (Kind.QUESTION if seconds else default_kind(text))
        subject = arguments.get("subject", "") or default_subject(text, kernel.limits.subject_chars)
        to = tuple(name.strip() for name in arguments["to"].split(","))
        draft = _draft(kernel, kind, body, subject)._replace(to=to, priority=priority_of(arguments))
        sent = drive(sending.send(kernel, draft)).message
        report = f"Sent [{short_refs([sent.id])[0]}] to {', '.join(sent.to)} as {sent.kind}."
        if not seconds or not expects_answer(sent.kind):
            return report
        try:
            return f"{report}\n{self._answer_text(kernel, sent, seconds)}"
        except ParleyError as error:
            return not_waiting(report, name_tools(str(error)), comes_later=True)

    def _answer_text(self, kernel: Kernel, sent: Message, seconds: float) -> str:
        """The answer that came in time, which is finished with that."""
        deadline = waiting.Deadline(kernel, seconds)
        answering = waiting.next_answer(kernel, sent.id, self._access.lease, deadline, self._access.sleep)
        try:
            answer = drive(answering)
        except WaitInterrupted:
            answer = None
        if answer is None:
            return NO_ANSWER_YET
        if answer.claimed is not None:
            with suppress(ParleyError):  # then next hands it out once more
                drive(claims.done(kernel, answer.claimed.file, token=answer.claimed.lease.token))
        ref = short_refs([answer.message.id])[0]
        doubts = answer.claimed.doubts if answer.claimed is not None else ()
        steps = NextSteps("", "", f"inbox with id {ref}")
        return message_text(answer.message, ref, steps, kernel.clock.now().at, kernel.ids.token(), 0, map(str, doubts))

    def _agents(self, kernel: Kernel, arguments: Mapping[str, Any]) -> str:
        del arguments
        others = [name for name in self._access.list_agents() if name != kernel.agent]
        return f"You are {kernel.agent}. Others: {', '.join(map(self._agent_text, others)) or 'none'}."

    def _agent_text(self, agent: str) -> str:
        return f"{agent} (does not notice)" if self._access.is_unaware(agent) else agent


_CALLS: dict[str, Callable[[MailboxTools, Kernel, Mapping[str, Any]], str]] = {
    "inbox": MailboxTools._inbox,
    "next": MailboxTools._next,
    "reply": MailboxTools._reply,
    "done": MailboxTools._done,
    "send": MailboxTools._send,
    "agents": MailboxTools._agents,
}


def _draft(kernel: Kernel, kind: Kind, body: Body, subject: str) -> Draft:
    return Draft(sender=kernel.agent, to=(), kind=kind, subject=subject, body=body)


def _steps(message: Message, ref: str, *, answered: bool) -> NextSteps:
    reply = f"reply with id {ref}" if expects_answer(message.kind) and not answered else ""
    return NextSteps(reply, f"done with id {ref}", f"inbox with id {ref}")


def _expected_fields(kind: Kind) -> list[str]:
    """The types of an answer that have fields, with those that are required."""
    lines = []
    for answer in kind.answers:
        names = [field.name for field in answer.spec.fields if field.required]
        if names and answer is not Kind.FOLLOW_UP:
            lines.append(f"reply type {answer}: fields {', '.join(names)}")
    return lines
