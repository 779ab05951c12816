"""The open questions of an agent on a server, so that their answers go to the caller that asked, and to no handler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.sdk.protocol.asking import OpenQuestion
    from parley.wire.api.records.channels import ChannelMessage

_ROLES = ("role:", "any:")
# How many answers are remembered; the stream shows each of them soon after it was taken.
_TAKEN_LIMIT = 10_000


class ServerQuestions:
    """Observes the questions of a client; see `sdk.protocol.asking.QuestionObserver`."""

    def __init__(self) -> None:
        # By the channel.
        self._open: dict[str, list[OpenQuestion]] = {}
        # Answers that a caller has, and requests whose answers all go to a caller.
        self._taken: dict[str, None] = {}
        # Those who look whether an answer is for a question; woken by each change.
        self._waiting: set[asyncio.Future[None]] = set()

    def opened(self, question: OpenQuestion) -> None:
        """Expect answers to a question that is about to be sent."""
        self._open.setdefault(question.question.channel_id, []).append(question)

    def changed(self, question: OpenQuestion) -> None:
        """Note its request and its answers."""
        for taken_id in (question.request_id, *question.answer_ids):
            if taken_id:
                self._taken[taken_id] = None
        while len(self._taken) > _TAKEN_LIMIT:
            del self._taken[next(iter(self._taken))]
        self._wake()

    def closed(self, question: OpenQuestion) -> None:
        """Expect no more answers to a question."""
        channel_id = question.question.channel_id
        self._open[channel_id].remove(question)
        if not self._open[channel_id]:
            del self._open[channel_id]
        self._wake()

    async def has_taken(self, answer: ChannelMessage) -> bool:
        """Whether an answer went to a question; known at the latest when those that it can be for have ended."""
        # A request may have been handed on: then somebody else answers than was asked.
        senders = (answer.sender, *answer.forwarded_by)
        pending = [question for question in self._questions_in(answer.channel_id) if _may_answer(senders, question)]
        while not self._is_taken(answer) and pending:
            await self._next_change()
            still_open = self._questions_in(answer.channel_id)
            pending = [question for question in pending if question in still_open]
        return self._is_taken(answer)

    def _questions_in(self, channel_id: str) -> list[OpenQuestion]:
        return self._open.get(channel_id, [])

    def _is_taken(self, answer: ChannelMessage) -> bool:
        return answer.id in self._taken or answer.correlation_id in self._taken

    async def _next_change(self) -> None:
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(change)
        try:
            await change
        finally:
            self._waiting.discard(change)

    def _wake(self) -> None:
        for change in self._waiting:
            if not change.done():
                change.set_result(None)


def _may_answer(senders: tuple[str, ...], question: OpenQuestion) -> bool:
    """Whether one of these agents may answer a question; a role may be anybody."""
    to = question.question.to
    return to.startswith(_ROLES) or to in senders
