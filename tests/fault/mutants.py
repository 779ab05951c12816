"""Deliberately broken builds, each in one way, to show that the tests can fail."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from parley.adapters.files import courier, inbox, place
from parley.adapters.files.folders import Folder
from parley.app.mailbox import claims as receipts
from parley.app.mailbox import sending as post
from parley.app.mailbox.kernel import Kernel
from parley.domain.errors.errors import ParleyError
from parley.domain.mailbox.delivery import Delivery, Status
from parley.domain.mailbox.ledger import MailboxChanges, StoredMessage
from parley.durable_files import temporary_name


def _put(owner: object, name: str, part: object) -> None:
    """Replace a part that must be there: a mutant of what no longer exists would prove nothing."""
    assert hasattr(owner, name)
    setattr(owner, name, part)


def claim_after_read() -> None:
    """No lock on the file, and a claim that does not ask the ledger whether somebody was faster, and takes its time."""

    async def commit(
        kernel: Kernel,
        action: str,
        kept: StoredMessage | None,
        known: Delivery | None,
        after: Delivery,
        _governed: object,
        _more_facts: object,
    ) -> None:
        entry = receipts._entry(kernel, action, after.key, {})
        time.sleep(0.02)  # noqa: ASYNC251  # it runs in no loop
        await kernel.store.commit(MailboxChanges((kept,) if kept else (), (after,), (entry,)))

    _put(inbox, "_lock", lambda *_: None)
    _put(receipts, "_commit", commit)


def rename_instead_of_link() -> None:
    """A temporary name that is renamed: whoever had the name before is gone."""

    def by_rename(
        folder: Folder, name: str, content: bytes, mode: int = place.FILE_MODE, *, use_tmpfile: bool = True
    ) -> None:
        temporary = temporary_name(name)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder.fd)
        place._write_and_sync(fd, content, mode)
        os.close(fd)
        os.rename(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        folder.sync()

    _put(courier, "place", by_rename)


def no_folder_sync() -> None:
    """The name is given and never made durable."""
    _put(place, "_sync_name", lambda *_: None)
    _put(Folder, "sync", lambda _self: None)


def no_file_sync() -> None:
    """The name is durable, what it names is not."""

    def fill(fd: int, content: bytes, mode: int) -> None:
        os.write(fd, content)
        os.fchmod(fd, mode)

    _put(place, "_write_and_sync", fill)


def mark_before_delivery() -> None:
    """The ledger says delivered before anything is."""

    carry = post._carry

    async def marked_first(
        kernel: Kernel, kept: StoredMessage, deliveries: tuple[Delivery, ...]
    ) -> tuple[tuple[Delivery, ...], list[ParleyError]]:
        await post._mark(kernel, kept, [one._replace(status=Status.DELIVERED) for one in deliveries])
        return await carry(kernel, kept, deliveries)

    _put(post, "_carry", marked_first)


def acknowledge_before_commit() -> None:
    """The sender is told yes before the ledger has it: `send` answers, then does the work."""
    from tests.fault import acts

    send = acts.send

    def early(play: acts.Play) -> None:
        def answer_then_wait() -> None:
            play.gate()
            for tag in play.options["tags"]:
                play.say(f"ok {tag}")

        send(play._replace(gate=answer_then_wait, say=lambda _text: None))

    acts.ACTS["send"] = early


def commit_without_sync() -> None:
    """A ledger that leaves it to the operating system when its commits reach the disk."""
    from parley.adapters.sqlite.ledger import store

    _put(store, "_SETUP", store._SETUP.replace("synchronous=FULL", "synchronous=OFF"))
    commit = store.SqliteStore.commit

    async def lazily(self: store.SqliteStore, changes: MailboxChanges) -> int:
        return await commit(self, changes._replace(durable=True))

    _put(store.SqliteStore, "commit", lazily)


def record_after_commit() -> None:
    """The message is committed first, and what is on record about it afterwards."""
    from parley.adapters.sqlite.ledger import store

    commit = store.SqliteStore.commit

    async def in_two_steps(self: store.SqliteStore, changes: MailboxChanges) -> int:
        position = await commit(self, changes._replace(audits=()))
        if changes.audits:
            await commit(self, MailboxChanges(audits=changes.audits, tenant=changes.tenant))
        return position

    _put(store.SqliteStore, "commit", in_two_steps)


def notice_counts_before_it_is_out() -> None:
    """A notice counts as printed when it is offered, and the hook takes its time to print it."""
    from parley.app.mailbox.receipts import offers
    from parley.cli.attention import hook
    from parley.domain.mailbox.offers import Offer, make_offer

    def whole(*arguments: Any, named: bool) -> Offer:  # noqa: ANN401
        return make_offer(*arguments, named=named)._replace(whole=True)

    write = hook._write

    def slowly(text: str) -> None:
        time.sleep(1.0)
        write(text)

    _put(offers, "make_offer", whole)
    _put(hook, "_write", slowly)


def acknowledge_before_it_is_shown() -> None:
    """A message counts as handed over when it is claimed, and the command takes its time to show it."""
    from parley.app.mailbox.receipts import steps
    from parley.cli.mailbox import claims as commands

    look = commands._look_or_wait

    def acknowledge_at_once(*arguments: Any) -> Any:  # noqa: ANN401
        looked = look(*arguments)
        if looked.claimed is not None:
            steps.acknowledge(arguments[0], looked.claimed, "next")
            time.sleep(1.0)
        return looked

    _put(commands, "_look_or_wait", acknowledge_at_once)


MUTANTS: dict[str, Callable[[], None]] = {
    mutant.__name__: mutant
    for mutant in (
        claim_after_read,
        rename_instead_of_link,
        no_folder_sync,
        no_file_sync,
        mark_before_delivery,
        acknowledge_before_commit,
        commit_without_sync,
        record_after_commit,
        notice_counts_before_it_is_out,
        acknowledge_before_it_is_shown,
    )
}


def break_like(name: str) -> None:
    MUTANTS[name]()
