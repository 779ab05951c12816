"""`parley.Mailbox`: an agent's mailbox in Python, with the same verbs as on the command line."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from parley import wiring
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.message.bodies import default_subject
from parley.domain.message.message import KINDS, PRIORITIES, Body, Draft, Kind, Message, Priority, Value
from parley.domain.times import parse_duration, parse_moment
from parley.sdk.arguments import check_arguments
from parley.sdk.claimed import ClaimedMessage
from parley.sdk.sent import SentMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike
    from types import TracebackType

    from parley.domain.content.envelope import Wishes
    from parley.domain.exchange.approval import Approval
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.mailbox.listing import FoundMessage, Item, RefusedFile
    from parley.domain.mailbox.waiting import OwedAnswer
    from parley.domain.message.review import Review
    from parley.domain.receipts import MessageStatus, ReceiptState

_POLL_SECONDS = 0.02
# How long `ask` claims a reply that it finishes at once.
_ANSWER_LEASE = timedelta(minutes=1)


@check_arguments
class Mailbox:
    """The mailbox of one agent in one project.

    What is not given is found as the command line finds it: `home` from PARLEY_HOME, OACP_HOME, the working
    directory or `~/oacp`; project and agent from the environment and the working directory. One thread uses a
    mailbox at a time; any number of processes may open the same one.

        with parley.Mailbox("demo", agent="codex") as mailbox:
            while message := mailbox.next(lease="10m"):
                with message:  # finished at the end, released when an exception leaves it
                    message.reply("done")
    """

    __module__ = "parley"

    def __init__(self, project: str = "", *, agent: str = "", home: str | PathLike[str] = "") -> None:
        self.kernel, self._settings = wiring.open_mailbox(str(home), project, agent)
        self.agent = self.kernel.agent
        self._tokens: dict[str, tuple[str, str]] = {}

    def send(  # noqa: PLR0913  # one parameter a field
        self,
        to: str | Iterable[str],
        kind: Kind | str,
        subject: str,
        body: str | Mapping[str, Value],
        *,
        priority: Priority | str | None = None,
        reply_to: str = "",
        expires: str | timedelta | datetime | None = None,
        conversation: str = "",
        tag: str = "",
        related_pr: str | int = "",
        related_packet: str = "",
        context_keys: str | Iterable[str] = "",
        extras: Mapping[str, Value] | None = None,
        rules: Mapping[str, object] | None = None,
    ) -> SentMessage:
        """Send a message and return it as its readers will see it; on return everyone has it, durably.

        `expires` is a duration ("2h"), a time, a timedelta or a datetime. `reply_to` is the id of the message this one
        answers. `rules` puts it under the rules of an exchange: `exchange_type`, `classification`, `max_rounds` and
        `data`, as on a server. Raises `Invalid` naming everything that is wrong, `UnknownAgent` before anything is
        written, `Undelivered` when some recipients refused it while the others have it, `Denied` when the rules refuse
        it, and `MessageHeld` when it waits for a person: its `facts` name the approval.
        """
        from parley.app.mailbox import sending

        draft = self.draft(
            to=to,
            kind=kind,
            subject=subject,
            body=body,
            priority=priority,
            reply_to=reply_to,
            expires=expires,
            conversation=conversation,
            tag=tag,
            related_pr=related_pr,
            related_packet=related_packet,
            context_keys=context_keys,
            extras=extras,
        )
        draft = draft._replace(wishes=_wishes(rules))
        return SentMessage.sent_from(self, wiring.drive(sending.send(self.kernel, draft)).message)

    def status(self, ref: str | Message) -> MessageStatus:
        """How far a message has come at each recipient: queued, offered, injected, acknowledged or acted.

        A state is never ahead of the truth. An agent that writes no receipts leaves a message queued until it answers.
        """
        from parley.app.mailbox.receipts import status

        return wiring.drive(status.status(self.kernel, _ref(ref)))

    def wait_until(
        self,
        ref: str | Message,
        state: ReceiptState | str,
        *,
        wait: str | timedelta = "5m",
        pause: Callable[[float], None] = time.sleep,
    ) -> MessageStatus:
        """Wait until every recipient is as far as a state: injected, acknowledged or acted.

        Raises `MessageTimeoutError` when one is not in time, or will never be; it names the state that was reached.
        """
        from parley.app.mailbox import waiting
        from parley.app.mailbox.receipts import status
        from parley.domain.errors.team import AskTimeout
        from parley.domain.receipts import ReceiptState

        if str(state) not in set(ReceiptState):
            raise _invalid("bad_field", "state", f"{str(state)!r} is not one of {', '.join(ReceiptState)}")
        wanted = ReceiptState(state)
        deadline = waiting.Deadline(self.kernel, _seconds(wait))
        reached = wiring.drive(status.wait_until(self.kernel, _ref(ref), wanted, deadline, pause))
        if not reached.has_reached(wanted):
            raise AskTimeout(f"{reached.id} is {reached.state}, not {wanted}, after {wait}")
        return reached

    def ask(
        self,
        to: str,
        body: str | Mapping[str, Value],
        *,
        wait: str | timedelta = "5m",
        kind: Kind | str = Kind.QUESTION,
        subject: str = "",
        priority: Priority | str | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> Message:
        """Send a question to one agent, wait for the reply, finish it and return it.

        The subject is the first line of the text unless it is given. Raises `MessageTimeoutError` when there is no
        reply in time; it will be in the inbox then.
        """
        from parley.app.mailbox import claims, waiting
        from parley.domain.errors.team import AskTimeout

        text = body if isinstance(body, str) else ""
        subject = subject or default_subject(text, self.kernel.limits.subject_chars)
        seconds = _seconds(wait)
        sent = self.send(to, kind, subject, body, priority=priority)
        deadline = waiting.Deadline(self.kernel, seconds)
        answer = wiring.drive(waiting.next_answer(self.kernel, sent.id, _ANSWER_LEASE, deadline, pause))
        if answer is None:
            raise AskTimeout(f"no reply from {to} within {wait}", hint="it will be in the inbox")
        if answer.claimed is not None:
            wiring.drive(claims.done(self.kernel, answer.claimed.file, token=answer.claimed.lease.token))
        return answer.message

    def reply(  # noqa: PLR0913  # one parameter a field
        self,
        ref: str | Message,
        body: str | Mapping[str, Value],
        *,
        kind: Kind | str | None = None,
        subject: str = "",
        to: str | Iterable[str] = (),
        priority: Priority | str | None = None,
        expires: str | timedelta | datetime | None = None,
        context_keys: str | Iterable[str] = "",
        rules: Mapping[str, object] | None = None,
        keep_open: bool = False,
    ) -> Message:
        """Answer a message by id or file name: recipient, kind, subject, conversation and parent come from it.

        The same commit finishes the message, as `done` would, unless `keep_open` is set. Raises `LeaseLost` when the
        lease had run out and another reader has the message now. An answer in an exchange is under its rules, whether
        it names any or not; see `send`. An answer that is held for a person leaves the message open.
        """
        from parley.app.mailbox import sending

        draft = self.draft(
            to=to,
            kind=kind or Kind.NOTIFICATION,
            subject=subject,
            body=body,
            priority=priority,
            expires=expires,
            context_keys=context_keys,
        )
        draft = draft._replace(wishes=_wishes(rules))
        token = None if keep_open else self._token(_ref(ref))
        replying = sending.reply(
            self.kernel, _ref(ref), draft, kind_given=kind is not None, keep_open=keep_open, token=token
        )
        sent = wiring.drive(replying)
        self._tokens.pop(sent.finished, None)
        return sent.message

    def draft(  # noqa: PLR0913  # one parameter a field
        self,
        *,
        to: str | Iterable[str],
        kind: Kind | str,
        subject: str,
        body: str | Mapping[str, Value],
        priority: Priority | str | None = None,
        reply_to: str = "",
        expires: str | timedelta | datetime | None = None,
        conversation: str = "",
        tag: str = "",
        related_pr: str | int = "",
        related_packet: str = "",
        context_keys: str | Iterable[str] = "",
        extras: Mapping[str, Value] | None = None,
    ) -> Draft:
        """What `send` would send, before it has an id and a time."""
        recipients = (to,) if isinstance(to, str) else tuple(to)
        if any(not isinstance(name, str) for name in recipients):
            raise _invalid("bad_field", "to", "must be names of agents")
        if str(kind) not in KINDS:
            raise _invalid("bad_type", "type", f"{str(kind)!r} is not one of {', '.join(KINDS)}")
        if priority is not None and str(priority) not in PRIORITIES:
            raise _invalid("bad_priority", "priority", f"must be P0, P1, P2 or P3, not {str(priority)!r}")
        return Draft(
            sender=self.agent,
            to=recipients,
            kind=KINDS[str(kind)],
            subject=subject,
            body=_body(body),
            priority=PRIORITIES[str(priority)] if priority is not None else None,
            expires_at=self._moment(expires),
            tag=tag,
            related_packet=related_packet,
            related_pr=str(related_pr),
            conversation_id=conversation,
            in_reply_to=self._full_id(reply_to) if reply_to else "",
            context_keys=context_keys if isinstance(context_keys, str) else "".join(f"- {k}\n" for k in context_keys),
            extras=extras or {},
        )

    def inbox(self) -> list[Item]:
        """What waits, in processing order. Looking consumes nothing."""
        from parley.app.mailbox import read

        return wiring.drive(read.inbox(self.kernel))

    def dead_letters(self) -> list[RefusedFile]:
        """Files that were put aside because they are no messages or could not be finished, with the reasons."""
        from parley.app.mailbox import read

        return wiring.drive(read.dead_letters(self.kernel))

    def outbox(self) -> list[Item]:
        """Copies of what this agent sent, newest first."""
        from parley.app.mailbox import read

        return wiring.drive(read.outbox(self.kernel))

    def waiting(self) -> list[OwedAnswer]:
        """The answers that others owe this agent, late ones first."""
        from parley.app.mailbox import answers

        return wiring.drive(answers.waiting(self.kernel))

    def read(self, ref: str | Message) -> Message:
        """A message by id, file name or the end of its id, wherever it lies; without consuming it."""
        return self.find(ref).message

    def find(self, ref: str | Message) -> FoundMessage:
        """Like `read`, with the exact bytes, where it lies and what is odd about it."""
        from parley.app.mailbox import find

        return wiring.drive(find.find(self.kernel, _ref(ref)))

    def next(
        self,
        lease: str | timedelta | None = "30m",
        *,
        wait: str | timedelta | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> ClaimedMessage | None:
        """Claim the first message in processing order that is not claimed; None when there is none.

        Use it in a `with`: the message is finished at the end, and released when an exception leaves it. With `wait`
        ("5m"), wait that long for one. The claim ends when the lease does; then the message goes to the next reader.
        With `lease=None` it lasts as long as this process lives.
        """
        from parley.app.mailbox import waiting
        from parley.app.mailbox.receipts import steps

        seconds = _seconds(wait)
        claimed = wiring.drive(waiting.next_message(self.kernel, _length(lease), seconds, pause)).claimed
        if claimed is None:
            return None
        self._tokens[claimed.message.id] = claimed.file, claimed.lease.token
        steps.acknowledge(self.kernel, claimed, "program")
        return ClaimedMessage.claimed_from(self, claimed.message)

    def extend(self, ref: str | Message, lease: str | timedelta = "30m") -> None:
        """Hold a claimed message for longer, counted from now."""
        from parley.app.mailbox import claims

        length = _length(lease)
        if length is not None:
            wiring.drive(claims.extend(self.kernel, _ref(ref), length, self._token(_ref(ref))))

    def release(self, ref: str | Message) -> None:
        """Release a claimed message, so that the next reader gets it."""
        from parley.app.mailbox import claims

        wiring.drive(claims.release(self.kernel, _ref(ref), self._token(_ref(ref))))

    def done(self, ref: str | Message, *, delete: bool = False) -> None:
        """Finish a message: its file moves to the archive, or is deleted. Doing it twice is no error.

        Raises `LeaseLost` when the lease had run out and another reader has the message now.
        """
        from parley.app.mailbox import claims

        wiring.drive(claims.done(self.kernel, _ref(ref), delete=delete, token=self._token(_ref(ref))))

    def thread(self, ref: str | Message) -> list[Message]:
        """A whole conversation, oldest first, by its id or by any message in it."""
        from parley.app.mailbox import find

        return [match.message for match in wiring.drive(find.thread(self.kernel, _ref(ref)))]

    def search(self, text: str) -> list[Message]:
        """Messages sent or received that contain `text`, newest first."""
        from parley.app.mailbox import find

        return [match.message for match in wiring.drive(find.search(self.kernel, text))]

    def review(self, ref: str | Message) -> Review:
        """Where the review in a conversation stands."""
        from parley.app.mailbox import reviews

        return wiring.drive(reviews.get(self.kernel, _ref(ref)))

    def approvals(self, status: str = "pending") -> list[Approval]:
        """What waits for a person in this mailbox, mine and others'; with `status=""` also what was decided."""
        from parley.app.mailbox.rules import approvals
        from parley.domain.exchange.approval import ApprovalStatus

        if status and status not in set(ApprovalStatus):
            raise _invalid("bad_field", "status", f"{status!r} is not one of {', '.join(ApprovalStatus)}")
        return wiring.drive(approvals.list_all(self.kernel, ApprovalStatus(status) if status else None))

    def decide(
        self, approval: Approval, decision: str, *, key: str, note: str = "", answer: str | Mapping[str, Value] = ""
    ) -> Approval:
        """Say as a person, with its own key, what becomes of what waits: approve, reject, or answer in its place.

        What is decided is `approval` as it is given here; if it is no longer that, `ApprovalStale`.
        """
        from parley.app.mailbox.rules import approvals
        from parley.domain.exchange.approval import Decision

        body = _body(answer)
        deciding = approvals.MailboxDecision(Decision(decision), key, approval.digest, note, body)
        return wiring.drive(approvals.decide(self.kernel, approval.id, deciding))

    def exchanges(self) -> list[Exchange]:
        """The exchanges that this agent takes part in, as its own ledger knows them."""
        from parley.app.mailbox.rules import exchanges

        return wiring.drive(exchanges.list_all(self.kernel))

    def watch(
        self, watcher: str = "default", *, timeout: float | None = None, pause: Callable[[float], None] = time.sleep
    ) -> Iterator[Item]:
        """Yield what arrives, starting with what this watcher has not seen; waits until `timeout` seconds of silence.

        An item counts as seen when the loop asks for the next one, so what a crash interrupts comes again.
        """
        from parley.app.mailbox import follow

        quiet_seconds = unpolled_seconds = 0.0
        mark: tuple[int, int] | None = None
        while timeout is None or quiet_seconds <= timeout:
            now = self.kernel.inbox.pulse()
            # A change within the clock's grain leaves the time as it was: look again for a second after one. A file
            # that is written in place changes no folder: look again every second.
            if now != mark or quiet_seconds < 1.0 or unpolled_seconds >= 1.0:
                mark, unpolled_seconds = now, 0.0
                for item in wiring.drive(follow.unseen(self.kernel, watcher)):
                    yield item
                    wiring.drive(follow.shown(self.kernel, watcher, [item]))
                    quiet_seconds = 0.0
            pause(_POLL_SECONDS)
            quiet_seconds += _POLL_SECONDS
            unpolled_seconds += _POLL_SECONDS

    def close(self) -> None:
        """Close the mailbox; claims bound to this process end at once."""
        self.kernel.close()

    def __enter__(self) -> Mailbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _full_id(self, ref: str) -> str:
        from parley.app.mailbox import find

        return wiring.drive(find.full_id(self.kernel, ref))

    def _token(self, ref: str) -> str | None:
        """The token of what this mailbox claimed under that name, so that it cannot finish what another holds now."""
        for message_id, (file, token) in self._tokens.items():
            if ref in (message_id, file, file.rpartition(".")[0]) or message_id.endswith(f"-{ref}"):
                return token
        return None

    def _moment(self, expires: str | timedelta | datetime | None) -> datetime | None:
        if expires is None or expires == "":
            return None
        now = self.kernel.clock.now().at
        if isinstance(expires, str):
            return parse_moment(expires, now, ends=True)
        if not isinstance(expires, timedelta) and expires.tzinfo is None:
            raise _invalid("bad_time", "expires_at", "needs a time zone")
        try:
            return now + expires if isinstance(expires, timedelta) else expires.astimezone(UTC)
        except OverflowError:
            raise _invalid("bad_time", "expires_at", "is further away than time goes") from None


def _ref(ref: str | Message) -> str:
    """A message may be named by itself."""
    return ref.id if isinstance(ref, Message) else ref


def _invalid(code: str, field: str, detail: str) -> Invalid:
    return Invalid.because([Problem(code, field, detail)])


def _body(body: str | Mapping[str, Value]) -> Body:
    if not isinstance(body, str) and _is_deeper(body, DEFAULT_LIMITS.yaml_depth):
        raise _invalid("too_deep", "body", f"is nested more than {DEFAULT_LIMITS.yaml_depth} deep")
    return body if isinstance(body, str) else dict(body)


def _is_deeper(value: object, levels: int) -> bool:
    """Whether a value has more than `levels` levels of nesting, as one that contains itself has."""
    if not isinstance(value, Mapping | list | tuple):
        return False
    items = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


def _seconds(wait: str | timedelta | None) -> float:
    length = parse_duration(wait) if isinstance(wait, str) else wait
    return length.total_seconds() if length is not None else 0.0


def _length(lease: str | timedelta | None) -> timedelta | None:
    return parse_duration(lease) if isinstance(lease, str) else lease


def _wishes(rules: Mapping[str, object] | None) -> Wishes | None:
    """What a sender asks of the rules."""
    if rules is None:
        return None
    from parley.wire.ocip import wishes_of

    names = {"exchange_type", "classification", "max_rounds", "data", "expires_at"}
    for name in rules:
        if name not in names:
            raise _invalid("unknown_field", name, f"is no rule; known are {', '.join(sorted(names))}")
    wishes = wishes_of(rules)
    if wishes is not None and wishes.problem is not None:
        raise wishes.problem
    return wishes._replace(meant=True) if wishes is not None else None
