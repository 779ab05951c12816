"""An agent at a file mailbox: it claims what arrives in its inbox, answers by replies, and archives what is done.

A claim lasts as long as this process: when it dies, what was not done comes again at once, to whoever is there next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from parley import wiring
from parley.domain.errors.errors import Conflict, InboxFull, NotFound, ParleyError, Unavailable
from parley.domain.message.bodies import KIND_SPECS
from parley.domain.message.message import Pattern
from parley.sdk.agent.logs import told
from parley.sdk.agent.mailbox.channels import MailboxChannels, Questions, replies_in_ledger
from parley.sdk.agent.mailbox.payloads import answering, asks, body_of, seen_by
from parley.sdk.agent.mailbox.thread import Desk, project_at
from parley.sdk.agent.workplace import Arrival

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from parley.domain.mailbox.listing import Claimed
    from parley.domain.message.message import Message
    from parley.sdk.agent.plan import Plan
    from parley.sdk.mailbox import Mailbox
    from parley.wire.api.records.channels import ChannelMessage

_POLL_SECONDS = 0.02
# A change within the clock's grain leaves the time of the inbox as it was: look again for so long after one.
_GRAIN_SECONDS = 1.0
# Claims of the dead come back without a change that one could see.
_LOOK_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_BEAT_SECONDS = 3_600.0
# While a question is open, so many other messages may be claimed in search of its answer.
_MOST_AHEAD = 100

_log = logging.getLogger("parley.agent")


@contextmanager
def open_stations(address: str, plans: Sequence[Plan]) -> Iterator[list[MailboxStation]]:
    """A station for each agent, at the mailboxes of one project."""
    project = project_at(address)
    desks = [Desk(project, plan.name) for plan in plans]
    try:
        yield [MailboxStation(desk) for desk in desks]
    finally:
        for desk in desks:
            desk.close()


class MailboxStation:
    """Where an agent stands when it works at a mailbox."""

    client = None

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.questions = Questions()
        self.channels = MailboxChannels(desk, self.questions)
        # What is claimed and not done, by its file.
        self._claims: dict[str, Claimed] = {}
        # What was claimed in search of an answer, and waits for its turn.
        self._ahead: deque[Claimed] = deque()
        self._bell = asyncio.Event()
        # Answers that were tried; nobody knows what became of them when that failed.
        self._tried: set[str] = set()

    async def open(self) -> None:
        """Open the mailbox, and carry what an earlier process could not carry any more."""
        await self.desk.open()

    async def arrivals(self) -> AsyncGenerator[Arrival]:
        """What lies in the inbox, in processing order, and what comes into it."""
        while True:
            self._bell.clear()
            claimed = self._ahead.popleft() if self._ahead else await self._next()
            if claimed is None:
                await self._bell.wait()
                continue
            message = seen_by(self.desk.agent, claimed.message, claimed.file, answers=await self._answers_mine(claimed))
            yield Arrival(claimed.file, message)

    async def _next(self) -> Claimed | None:
        """Claim the next message that is not the answer to an open question; those go to whoever asked."""
        try:
            while (claimed := await self.desk.do(self._claim)) is not None:
                if not await self.questions.take(claimed.message):
                    return claimed
                await self._finish(claimed)
        except Unavailable as error:
            self._complain("agent_mailbox_unavailable", "cannot read its mailbox", error)
            await asyncio.sleep(_RETRY_SECONDS)
            self._bell.set()
        return None

    def _claim(self, mailbox: Mailbox) -> Claimed | None:
        """In the thread: what is claimed is known to us, whoever waits for this or does not any more."""
        claimed = wiring.drive(mailbox.kernel.claim_next(None))
        if claimed is not None:
            self._claims[claimed.file] = claimed
        return claimed

    async def _answers_mine(self, claimed: Claimed) -> bool:
        """Whether a message answers a question of this agent that nobody waits for any more."""
        message = claimed.message
        if not message.in_reply_to or asks(message.kind):
            return False
        kept = await self.desk.do(lambda mailbox: wiring.drive(mailbox.kernel.store.find(message.in_reply_to)))
        return any(
            one.message.sender == self.desk.agent and KIND_SPECS[one.message.kind].pattern is Pattern.REQUEST
            for one in kept
        )

    async def answer(
        self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Reply to a request, once: a reply that stands in the ledger is not written again, also after a restart."""
        claimed = self._claims.get(str(message.metadata.get("file", "")))
        if claimed is None:
            raise Conflict(f"{message.id} is not claimed any more")
        await self.desk.do(lambda mailbox: self._reply(mailbox, claimed, payload))

    def _reply(self, mailbox: Mailbox, claimed: Claimed, payload: Mapping[str, Any]) -> None:
        asked = claimed.message
        if claimed.tries > 1 or claimed.file in self._tried:
            wiring.drive(mailbox.kernel.sweep())  # carries what was written and not carried
            if _has_answered(mailbox, asked):
                return
        kind = answering(asked.kind, payload)
        body = body_of(kind, payload)
        self._tried.add(claimed.file)
        try:
            mailbox.reply(asked, body, kind=kind)
        except InboxFull as error:
            raise Conflict(f"{asked.sender} cannot be told: {error}") from None

    async def answers_a_question(self, response: ChannelMessage) -> bool:
        """Answers to open questions never come this far: see `_next`."""
        del response
        return False

    async def done(self, arrival: Arrival) -> None:
        """Archive it."""
        if (claimed := self._claims.get(arrival.place)) is not None:
            await self._finish(claimed)

    async def _finish(self, claimed: Claimed) -> None:
        while True:
            try:
                await self.desk.do(lambda mailbox: self._archive(mailbox, claimed))
            except Unavailable as error:
                self._complain("agent_done_late", f"cannot archive {claimed.file} yet", error)
                await asyncio.sleep(_RETRY_SECONDS)
            except (Conflict, NotFound) as error:
                self._complain("agent_done_elsewhere", f"{claimed.file} is somebody else's by now", error)
                self._forget(claimed)
                return
            else:
                return

    def _archive(self, mailbox: Mailbox, claimed: Claimed) -> None:
        wiring.drive(mailbox.kernel.done(claimed.file, token=claimed.lease.token))
        self._forget(claimed)

    def _forget(self, claimed: Claimed) -> None:
        self._claims.pop(claimed.file, None)
        self._tried.discard(claimed.file)

    async def keep(self) -> None:
        """Watch the inbox, for ever. What is done is on record at once; there is nothing to keep."""
        pulse: tuple[int, int] | None = None
        quiet = looked = 0.0
        while True:
            try:
                now = self.desk.pulse()
                if now != pulse:
                    pulse, quiet = now, 0.0
                if quiet < _GRAIN_SECONDS or looked >= _LOOK_SECONDS:
                    looked = 0.0
                    self._bell.set()
                    await self._look_for_answers()
            except Unavailable as error:
                self._complain("agent_mailbox_unavailable", "cannot read its mailbox", error)
                await asyncio.sleep(_RETRY_SECONDS)
            await asyncio.sleep(_POLL_SECONDS)
            quiet += _POLL_SECONDS
            looked += _POLL_SECONDS

    async def _look_for_answers(self) -> None:
        """Get answers to their questions also while every slot of the agent waits for one."""
        questions = self.questions.asked
        if not questions:
            return
        while len(self._ahead) < _MOST_AHEAD and (claimed := await self._next()) is not None:
            self._ahead.append(claimed)
            self._bell.set()
        # Another process of this agent may have got an answer that is ours.
        for reply in await self.desk.do(lambda mailbox: replies_in_ledger(mailbox, questions)):
            await self.questions.take(reply)

    async def beat(self, load: int) -> float | None:
        """Nobody listens at a mailbox."""
        del load
        return _BEAT_SECONDS

    async def drain(self) -> None:
        """What was claimed ahead goes back at once."""
        while self._ahead:
            await self._release(self._ahead.popleft())

    async def close(self) -> None:
        """Give back what is not done; an answer that somebody has got is."""
        for claimed in tuple(self._claims.values()):
            if self.questions.took(claimed.message):
                await self._finish(claimed)
            else:
                await self._release(claimed)

    async def _release(self, claimed: Claimed) -> None:
        self._forget(claimed)
        with suppress(ParleyError):  # then it comes back when the process ends
            await self.desk.do(lambda mailbox: wiring.drive(mailbox.kernel.release(claimed.file, claimed.lease.token)))

    def _complain(self, action: str, said: str, error: ParleyError) -> None:
        told(_log, self.desk.agent, action, said, str(error))


def _has_answered(mailbox: Mailbox, asked: Message) -> bool:
    """Whether this agent has replied to a message, or a person was asked whether it may."""
    if any(one.in_reply_to == asked.id and one.sender == mailbox.agent for one in mailbox.thread(asked)):
        return True
    drafts = [one.draft for one in mailbox.approvals("") if one.draft is not None and one.agent == mailbox.agent]
    return any(draft.in_reply_to == asked.id for draft in drafts)
