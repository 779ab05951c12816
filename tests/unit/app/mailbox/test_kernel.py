"""The kernel opens what it needs when it needs it, and runs use cases without an event loop."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from parley.adapters.files.inbox import FileInbox
from parley.adapters.files.workspace import Workspace
from parley.app.mailbox import read, sweep
from parley.app.mailbox.kernel import Kernel, drive
from parley.ports.mailbox import Courier, Store
from parley.wire.oacp.format import OacpFormat
from tests.rigs.memory_store import MemoryStore
from tests.unit.app.rig import PROJECT, FakeClock, Ids, Rig, claimed


def never() -> Courier:
    raise AssertionError("nobody needed this")


def test_looking_opens_neither_ledger_nor_courier(rig: Rig) -> None:
    rig.send()
    workspace = Workspace(str(rig.folder), PROJECT)

    def no_store() -> Store:
        raise AssertionError("looking needs no ledger")

    kernel = Kernel(
        "codex",
        open_store=no_store,
        has_store=lambda: False,
        open_courier=never,
        inbox=FileInbox(workspace, workspace.agent("codex")),
        format=OacpFormat(),
        clock=FakeClock(),
        ids=Ids(),
    )

    assert len(drive(read.inbox(kernel))) == 1
    assert kernel.store_if_any is None


def test_a_ledger_is_opened_once(rig: Rig) -> None:
    opened: list[MemoryStore] = []
    workspace = Workspace(str(rig.folder), PROJECT)

    def open_store() -> Store:
        opened.append(MemoryStore())
        return opened[-1]

    kernel = Kernel(
        "codex",
        open_store=open_store,
        has_store=lambda: True,
        open_courier=never,
        inbox=FileInbox(workspace, workspace.agent("codex")),
        format=OacpFormat(),
        clock=FakeClock(),
        ids=Ids(),
    )

    assert kernel.store is kernel.store is kernel.store_if_any
    assert len(opened) == 1


def test_closing_gives_back_every_lock(rig: Rig) -> None:
    rig.send()
    rig.send()
    kernel = rig.kernel("codex")
    claimed(kernel, None)
    claimed(kernel, None)

    kernel.close()

    assert kernel.held == {}
    assert {claimed(rig.kernel("codex")).tries for _ in range(2)} == {2}


def test_closing_twice_is_no_error(rig: Rig) -> None:
    kernel = rig.kernel("codex")
    drive(sweep.sweep(kernel))

    kernel.close()
    kernel.close()


class Waiting:
    def __await__(self) -> Generator[None, None, None]:
        yield


def test_a_use_case_that_would_wait_is_a_bug() -> None:
    async def waits() -> None:
        await Waiting()

    with pytest.raises(RuntimeError, match="must not wait"):
        drive(waits())


def test_an_error_in_a_use_case_comes_through() -> None:
    async def fails() -> None:
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        drive(fails())
