"""Putting files aside: to the dead letters with a reason, or left in the inbox while they may still be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Forbidden, ParleyError, Unfinished
from parley.domain.mailbox.delivery import Delivery, Status
from parley.domain.mailbox.ledger import Entry, MailboxChanges
from parley.domain.mailbox.listing import RefusedFile
from parley.domain.names import printable
from parley.domain.times import format_time

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel

# Moving a file to the dead letters takes a sync of its reason: this many take a few tenths of a second.
_BURIED_PER_PASS = 100
_EXAMINED_PER_PASS = 1_000


class Refusals:
    """The files that one pass over an inbox refuses. They are moved one by one, and made durable together."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._entries: list[Entry] = []
        self.files: list[RefusedFile] = []

    @property
    def are_enough(self) -> bool:
        """Whether the rest is left to the next pass."""
        return len(self._entries) >= _BURIED_PER_PASS or len(self.files) >= _EXAMINED_PER_PASS

    def leave(self, file: str, error: ParleyError) -> None:
        """Name a file that stays in the inbox."""
        self.files.append(RefusedFile(printable(file), "inbox", error.code, error.message))

    async def add_unreadable(self, file: str, error: ParleyError) -> None:
        """Refuse a file that is no message, unless it may still become one: then it stays."""
        kernel = self._kernel
        if await kernel.inbox.unfinished((file,), kernel.clock.now().at):
            self.leave(file, Unfinished(f"may still be written ({error.message})"))
        else:
            await self.add(file, error)

    async def add(self, file: str, error: ParleyError, delivery: Delivery | None = None) -> None:
        """Move a file to the dead letters. What cannot be moved stays: it must not stop the others."""
        try:
            if delivery is None:
                refused, entry = await _move(self._kernel, file, error)
                self._entries.append(entry)
            else:
                refused = await bury(self._kernel, file, error, delivery)
        except Forbidden:
            self.leave(file, error)
        else:
            self.files.append(refused)

    async def commit(self) -> None:
        """Make the moves durable, and put them on record."""
        if self._entries:
            await self._kernel.inbox.sync_dead_letters()
            await self._kernel.store.commit(MailboxChanges(entries=tuple(self._entries)))


async def bury(kernel: Kernel, file: str, error: ParleyError, delivery: Delivery | None = None) -> RefusedFile:
    """Move one file to the dead letters, with the reason beside it and in the ledger, durably.

    Raises `Forbidden` when it cannot be moved out of a folder of another user.
    """
    refused, entry = await _move(kernel, file, error)
    await kernel.inbox.sync_dead_letters()
    if delivery is None:
        await kernel.store.commit(MailboxChanges(entries=(entry,)))
    else:
        dead = delivery._replace(status=Status.DEAD, lease=None, tries=0, reason=error.code)
        entry = entry._replace(message_id=delivery.key.message_id, digest=delivery.key.digest)
        await kernel.store.commit(MailboxChanges(deliveries=(dead,), entries=(entry,)))
    return refused


async def _move(kernel: Kernel, file: str, error: ParleyError) -> tuple[RefusedFile, Entry]:
    at = format_time(kernel.clock.now().at)
    refused = RefusedFile(file, "dead_letter", error.code, error.message, at)
    await kernel.inbox.bury(refused)
    facts = {"file": printable(file), "reason": error.code}
    return refused._replace(file=printable(file)), Entry("dead", at, kernel.agent, "", "", facts)
