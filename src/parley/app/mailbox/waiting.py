"""Waiting for messages: until an inbox changes, for the next message, for the answers to one.

An inbox is looked at when its folder has changed, and once a second: a file that is written in place changes no
folder, and a claim that ends changes no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox import claims
from parley.domain.mailbox.delivery import DeliveryKey, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.listing import Claimed, InboxPass
    from parley.domain.message.message import Message

    Sleep = Callable[[float], None]

POLL_SECONDS = 0.05
_LOOK_SECONDS = 1.0


class InboxWait:
    """Sleeps until an inbox may have changed since the wait began or last ended."""

    def __init__(self, kernels: Sequence[Kernel], sleep: Sleep) -> None:
        self._kernels = kernels
        self._sleep = sleep
        self._pulses = self._read_pulses()

    def _read_pulses(self) -> list[tuple[int, int]]:
        return [kernel.inbox.pulse() for kernel in self._kernels]

    def until_changed(self, longest: float = _LOOK_SECONDS) -> float:
        """Sleep until an inbox has changed, at most a second; return the seconds slept."""
        slept = 0.0
        while slept < min(longest, _LOOK_SECONDS):
            self._sleep(POLL_SECONDS)
            slept += POLL_SECONDS
            pulses = self._read_pulses()
            if pulses != self._pulses:
                # Taken before the caller looks, so that what arrives while it looks ends the next wait.
                self._pulses = pulses
                break
        return slept


class Deadline:
    """The end of a wait, by a clock that cannot be set back."""

    def __init__(self, kernel: Kernel, seconds: float) -> None:
        self._kernel = kernel
        self._ends = kernel.clock.now().uptime + seconds

    @property
    def seconds_left(self) -> float:
        """How long there is left to wait; 0 or less when it is over."""
        return self._ends - self._kernel.clock.now().uptime


async def next_message(kernel: Kernel, length: timedelta | None, seconds: float, sleep: Sleep) -> InboxPass:
    """Claim the next message, waiting for one at most `seconds`."""
    inbox_wait, deadline = InboxWait([kernel], sleep), Deadline(kernel, seconds)
    looked = await claims.look_for_next(kernel, length)
    refused = dict.fromkeys(looked.refused)
    while looked.claimed is None and (left := deadline.seconds_left) > 0:
        inbox_wait.until_changed(left)
        looked = await claims.look_for_next(kernel, length)
        refused |= dict.fromkeys(looked.refused)
    return looked._replace(refused=tuple(refused))


class Answer(NamedTuple):
    """An answer to a message. Without a claim, another reader of the same inbox has taken it."""

    message: Message
    claimed: Claimed | None


async def next_answer(
    kernel: Kernel, message_id: str, length: timedelta, deadline: Deadline, sleep: Sleep, answer_ids: Iterable[str] = ()
) -> Answer | None:
    """Claim an answer to a message, waiting for it until the deadline; None when there is none by then.

    `answer_ids` are the ids of the answers that the caller has.
    """
    inbox_wait = InboxWait([kernel], sleep)
    while True:
        claimed = (await claims.look_for_next(kernel, length, answering=message_id)).claimed
        if claimed is not None:
            return Answer(claimed.message, claimed)
        taken = await _taken_answer(kernel, message_id, answer_ids)
        if taken is not None:
            return Answer(taken, None)
        left = deadline.seconds_left
        if left <= 0:
            return None
        inbox_wait.until_changed(left)


async def _taken_answer(kernel: Kernel, message_id: str, answer_ids: Iterable[str]) -> Message | None:
    """An answer that was handed over to another reader of this inbox. What waits for a person was not."""
    for stored in await kernel.store.replies(message_id):
        if stored.message.id not in answer_ids and stored.message.sender != kernel.agent:
            delivery = await kernel.store.delivery(DeliveryKey(stored.message.id, stored.digest, kernel.agent))
            if delivery is not None and delivery.status in (Status.CLAIMED, Status.DONE):
                return stored.message
    return None
