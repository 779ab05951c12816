"""Watching an inbox: what a watcher has not shown yet, and the mark that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import read
from parley.domain.errors.errors import Forbidden
from parley.domain.mailbox.ledger import MailboxChanges, WatchedFile
from parley.domain.names import printable

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.listing import Item


async def unseen(kernel: Kernel, watcher: str) -> list[Item]:
    """What lies in the inbox and this watcher has not shown, in processing order, bad files included.

    A file that may still be written is shown when it is a message, or has become a bad file.
    """
    seen_files = await _seen_files(kernel, watcher)
    marks = await _marks(kernel)
    return [
        item
        for item in await read.inbox(kernel)
        if item.status != "unfinished" and marks.get(item.file, item.file) not in seen_files
    ]


async def shown(kernel: Kernel, watcher: str, items: list[Item]) -> None:
    """Move the watcher's cursor past `items`: to be called when their output has succeeded, not before.

    Where the mailbox cannot be written, the cursor lasts as long as this process.
    """
    seen_files = await _seen_files(kernel, watcher)
    marks = await _marks(kernel)
    now_seen = tuple(WatchedFile(watcher, marks.get(item.file, printable(item.file))) for item in items)
    vanished = tuple(WatchedFile(watcher, mark) for mark in seen_files - set(marks.values()))
    try:
        await kernel.store.commit(MailboxChanges(watched=now_seen, unwatched=vanished))
    except Forbidden:
        kernel.unsaved_marks.update(now_seen)


async def _seen_files(kernel: Kernel, watcher: str) -> frozenset[str]:
    store = kernel.store_if_any
    saved = await store.seen_files(watcher) if store is not None else frozenset()
    return saved | {mark.file for mark in kernel.unsaved_marks if mark.watcher == watcher}


async def _marks(kernel: Kernel) -> dict[str, str]:
    """Name and number: a second file under an old name is news."""
    return {name: f"{printable(name)}:{number}" for name, number in await kernel.inbox.names(exact=True)}
