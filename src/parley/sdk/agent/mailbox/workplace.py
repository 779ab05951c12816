"""An agent at a file mailbox: it claims what arrives in its inbox, answers by replies, and archives what is done.

A claim lasts as long as this process: when it dies, the next process receives what was not finished.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from parley import wiring
from parley.app.mailbox import claims, sweep
from parley.domain.errors.errors import Conflict, InboxFull, Invalid, NotFound, ParleyError, Unavailable
from parley.domain.message.message import Pattern
from parley.sdk.agent.logs import log_event
from parley.sdk.agent.mailbox.channels import MailboxChannels, MailboxQuestions, replies_in_ledger
from parley.sdk.agent.mailbox.payloads import answer_kind, body_of, expects_answer, to_channel_message
from parley.sdk.agent.mailbox.thread import MailboxThread, project_at
from parley.sdk.agent.workplace import Arrival

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from parley.domain.mailbox.listing import Claimed
    from parley.domain.message.message import Message
    from parley.sdk.agent.agent import Plan
    from parley.sdk.mailbox import Mailbox
    from parley.sdk.protocol.failures import Failure
    from parley.wire.api.records.channels import ChannelMessage, ForwardedRequest

_POLL_SECONDS = 0.02
# A change within the clock's grain does not change the inbox's modification time: poll for this long after one.
_CLOCK_GRAIN_SECONDS = 1.0
# Claims of dead processes end without a change in the inbox.
_FULL_POLL_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_HEARTBEAT_SECONDS = 3_600.0
# How many other messages may be claimed while waiting for the answer to a question.
_CLAIM_AHEAD_LIMIT = 100

_log = logging.getLogger("parley.agent")


@contextmanager
def open_workplaces(address: str, plans: Sequence[Plan]) -> Iterator[list[MailboxWorkplace]]:
    """A workplace for each agent, at the mailboxes of one project."""
    project = project_at(address)
    threads = [MailboxThread(project, plan.name) for plan in plans]
    try:
        yield [MailboxWorkplace(thread) for thread in threads]
    finally:
        for thread in threads:
            thread.close()


class MailboxWorkplace:
    """The workplace of an agent at a file mailbox."""

    client = None
    # A message that is taken is claimed.
    read_ahead = 0

    def __init__(self, thread: MailboxThread) -> None:
        self.thread = thread
        self.questions = MailboxQuestions()
        self.channels = MailboxChannels(thread, self.questions)
        # Claims that are not finished, by file.
        self._claims: dict[str, Claimed] = {}
        # Messages claimed while looking for an answer, in order.
        self._claimed_ahead: deque[Claimed] = deque()
        self._wake = asyncio.Event()
        # Files whose answer was attempted; after a failure it may have been sent all the same.
        self._attempted: set[str] = set()

    async def register(self) -> None:
        """Do nothing: the mailbox was opened before, and several processes may share it."""

    async def open(self) -> None:
        """Open the mailbox, and deliver what an earlier process could not deliver."""
        await self.thread.open()

    async def arrivals(self) -> AsyncGenerator[Arrival]:
        """What is in the inbox, in processing order, and what arrives later."""
        while True:
            self._wake.clear()
            claimed = self._claimed_ahead.popleft() if self._claimed_ahead else await self._claim_next()
            if claimed is None:
                await self._wake.wait()
                continue
            message = to_channel_message(
                self.thread.agent, claimed.message, claimed.file, answers=await self._answers_own_question(claimed)
            )
            yield Arrival(claimed.file, message)

    async def _claim_next(self) -> Claimed | None:
        """Claim the next message that is not the answer to an open question; those are delivered to the asker."""
        try:
            while (claimed := await self.thread.run(self._claim)) is not None:
                if not await self.questions.deliver_answer(claimed.message):
                    return claimed
                await self._archive_claimed(claimed)
        except Unavailable as error:
            self._log_warning("agent_mailbox_unavailable", "cannot read its mailbox", error)
            await asyncio.sleep(_RETRY_SECONDS)
            self._wake.set()
        return None

    def _claim(self, mailbox: Mailbox) -> Claimed | None:
        """Claim in the thread, and record the claim even if the caller has gone."""
        claimed = wiring.drive(claims.claim_next(mailbox.kernel, None))
        if claimed is not None:
            self._claims[claimed.file] = claimed
        return claimed

    async def _answers_own_question(self, claimed: Claimed) -> bool:
        """Whether a message answers a question of this agent that has timed out."""
        message = claimed.message
        if not message.in_reply_to or expects_answer(message.kind):
            return False
        entries = await self.thread.run(lambda mailbox: wiring.drive(mailbox.kernel.store.find(message.in_reply_to)))
        return any(
            entry.message.sender == self.thread.agent and entry.message.kind.spec.pattern is Pattern.REQUEST
            for entry in entries
        )

    async def answer(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Reply to a request once: a reply in the ledger is not written again, also after a restart."""
        claimed = self._claims.get(str(message.metadata.get("file", "")))
        if claimed is None:
            raise Conflict(f"{message.id} is not claimed any more")
        await self.thread.run(lambda mailbox: self._reply(mailbox, claimed, payload))

    def _reply(self, mailbox: Mailbox, claimed: Claimed, payload: Mapping[str, Any]) -> None:
        request = claimed.message
        if claimed.tries > 1 or claimed.file in self._attempted:
            wiring.drive(sweep.sweep(mailbox.kernel))  # carries what was written and not carried
            if _has_answered(mailbox, request):
                return
        kind = answer_kind(request.kind, payload)
        body = body_of(kind, payload)
        self._attempted.add(claimed.file)
        try:
            mailbox.reply(request, body, kind=kind, keep_open=True)  # `finish` closes it
        except InboxFull as error:
            raise Conflict(f"the answer to {request.sender} was not delivered: {error}") from None

    async def report_failed_assignment(self, arrival: Arrival, failure: Failure) -> None:
        """There are no assignments at a mailbox."""

    async def send_part(self, message: ChannelMessage, payload: Mapping[str, Any], kind: str, number: int) -> str:
        """Nothing: a message in a mailbox has one answer."""
        del message, payload, kind, number
        return ""

    async def forward(self, message: ChannelMessage, forward: ForwardedRequest) -> None:
        """Refuse: in a mailbox, only the recipient of a message answers it."""
        del message, forward
        raise Invalid("a request in a mailbox cannot be handed on", hint="ask the other agent, and answer yourself")

    async def is_awaited_answer(self, response: ChannelMessage) -> bool:
        """Never: answers to open questions are delivered in `_claim_next`."""
        del response
        return False

    async def claim(self, most: int) -> list[Arrival] | None:
        """There are no queues: the processes of an agent share its inbox anyway."""
        del most
        return None

    async def retry_later(self, arrival: Arrival, problem: str, pause: float) -> None:
        """Nothing of a mailbox is a job."""

    async def release(self, arrival: Arrival) -> None:
        """Nothing of a mailbox is a job."""

    async def finish(self, arrival: Arrival, problem: str = "", attempts: int = 1) -> None:
        """Archive it; what could not be dealt with goes to the dead letters, so that it is not overlooked."""
        del attempts
        if (claimed := self._claims.get(arrival.place)) is not None:
            await self._archive_claimed(claimed, problem)

    async def _archive_claimed(self, claimed: Claimed, problem: str = "") -> None:
        while True:
            try:
                await self.thread.run(lambda mailbox: self._archive(mailbox, claimed, problem))
            except Unavailable as error:
                self._log_warning("agent_done_late", f"cannot archive {claimed.file} yet", error)
                await asyncio.sleep(_RETRY_SECONDS)
            except (Conflict, NotFound) as error:
                self._log_warning("agent_done_elsewhere", f"{claimed.file} was claimed by another process", error)
                self._forget(claimed)
                return
            else:
                return

    def _archive(self, mailbox: Mailbox, claimed: Claimed, problem: str) -> None:
        token = claimed.lease.token
        if problem:
            wiring.drive(claims.give_up(mailbox.kernel, claimed.file, problem, token))
        else:
            wiring.drive(claims.done(mailbox.kernel, claimed.file, token=token))
        self._forget(claimed)

    def _forget(self, claimed: Claimed) -> None:
        self._claims.pop(claimed.file, None)
        self._attempted.discard(claimed.file)

    async def run_upkeep(self) -> None:
        """Watch the inbox until cancelled. Finished messages are archived at once, so there is nothing to save."""
        mark: tuple[int, int] | None = None
        unchanged_seconds = unpolled_seconds = 0.0
        while True:
            try:
                now = self.thread.inbox_mark()
                if now != mark:
                    mark, unchanged_seconds = now, 0.0
                if unchanged_seconds < _CLOCK_GRAIN_SECONDS or unpolled_seconds >= _FULL_POLL_SECONDS:
                    unpolled_seconds = 0.0
                    self._wake.set()
                    await self._look_for_answers()
            except Unavailable as error:
                self._log_warning("agent_mailbox_unavailable", "cannot read its mailbox", error)
                await asyncio.sleep(_RETRY_SECONDS)
            await asyncio.sleep(_POLL_SECONDS)
            unchanged_seconds += _POLL_SECONDS
            unpolled_seconds += _POLL_SECONDS

    async def _look_for_answers(self) -> None:
        """Deliver answers also while every slot of the agent waits for one."""
        questions = self.questions.open_questions
        if not questions:
            return
        while len(self._claimed_ahead) < _CLAIM_AHEAD_LIMIT and (claimed := await self._claim_next()) is not None:
            self._claimed_ahead.append(claimed)
            self._wake.set()
        # Another process of this agent may have got an answer that is ours.
        for reply in await self.thread.run(lambda mailbox: replies_in_ledger(mailbox, questions)):
            await self.questions.deliver_answer(reply)

    async def heartbeat(self, load: int) -> float | None:
        """Do nothing: a mailbox has no registry."""
        del load
        return _HEARTBEAT_SECONDS

    async def announce_stopping(self) -> None:
        """Release what was claimed ahead."""
        while self._claimed_ahead:
            await self._release(self._claimed_ahead.popleft())

    async def close(self) -> None:
        """Release what is not finished; a delivered answer is archived."""
        for claimed in tuple(self._claims.values()):
            if self.questions.has_taken(claimed.message):
                await self._archive_claimed(claimed)
            else:
                await self._release(claimed)

    async def _release(self, claimed: Claimed) -> None:
        self._forget(claimed)
        with suppress(ParleyError):  # then it comes back when the process ends
            await self.thread.run(
                lambda mailbox: wiring.drive(claims.release(mailbox.kernel, claimed.file, claimed.lease.token))
            )

    def _log_warning(self, action: str, text: str, error: ParleyError) -> None:
        log_event(_log, self.thread.agent, action, text, str(error))


def _has_answered(mailbox: Mailbox, request: Message) -> bool:
    """Whether this agent has replied to a message, or a person was asked whether it may."""
    if any(
        message.in_reply_to == request.id and message.sender == mailbox.agent for message in mailbox.thread(request)
    ):
        return True
    drafts = [
        approval.draft
        for approval in mailbox.approvals("")
        if approval.draft is not None and approval.agent == mailbox.agent
    ]
    return any(draft.in_reply_to == request.id for draft in drafts)
