"""`parley status MESSAGE` and `parley send --until`: show how far a message has come at its recipients."""

from __future__ import annotations

import gc
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.app.mailbox import find, waiting
from parley.app.mailbox.receipts import status as receipts
from parley.cli.channels.receipts import show_receipts, status_fields
from parley.cli.command import kernel_of, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.waiting_line import waiting_for
from parley.domain.errors.errors import ParleyError, UnknownMessage, UnknownSender
from parley.domain.names import bare_ref
from parley.domain.receipts import ReceiptState
from parley.wiring import Kernel, agents_of, drive, find_home, find_project, open_kernel

if TYPE_CHECKING:
    import argparse

    from parley.domain.message.message import Message, Value


def show_status(args: argparse.Namespace) -> int:
    """Print how far a message has come."""
    kernel = _kernel_of(args)
    status = drive(receipts.status(kernel, args.message))
    screen = screen_of(args)
    if args.json:
        screen.json(status_fields(status))
    else:
        show_receipts(screen, status, kernel.clock.now().at)
    return OK


def _kernel_of(args: argparse.Namespace) -> Kernel:
    """The mailbox that the options name; where nothing names an agent, that of the sender, else of a recipient."""
    try:
        return kernel_of(args)
    except UnknownSender:
        settings = settings_of(args)
        home = find_home(settings).value
        project = find_project(settings, home).value
        agents = agents_of(home, project)
        if not agents:
            raise
    holders = []
    for agent in agents:
        with suppress(ParleyError):  # a mailbox of another user
            kernel = open_kernel(home, project, agent, settings)
            for located in drive(find.by_id(kernel, bare_ref(args.message)))[:1]:
                if located.message.sender == agent:
                    return kernel
                holders.append(kernel)
    if not holders:
        raise UnknownMessage(
            f"no agent of project {project} has a message with the id {args.message!r}",
            hint="look with: parley outbox --agent NAME; for the end of an id, add --agent NAME",
        )
    return holders[0]


def show_until(
    args: argparse.Namespace, kernel: Kernel, sent: Message, seconds: float, sent_fields: dict[str, Value]
) -> None:
    """Wait until every recipient has come as far as --until says; `AskTimeout` with the state when none did in time."""
    gc.enable()
    sys.stdout.flush()
    state = ReceiptState(args.until)
    deadline = waiting.Deadline(kernel, seconds)
    with waiting_for(f"{', '.join(sent.to)} ({state})").running():
        reached = drive(receipts.wait_until(kernel, sent.id, state, deadline, time.sleep))
    screen = screen_of(args)
    if args.json:
        screen.json({**sent_fields, **status_fields(reached)})
    else:
        show_receipts(screen, reached, kernel.clock.now().at)
    missing = [receipt for receipt in reached.receipts if not receipt.has_reached(state)]
    if missing:
        from parley.domain.errors.team import AskTimeout

        states = ", ".join(f"{receipt.recipient}: {receipt.state}" for receipt in missing)
        hint = f"look again with: parley status {sent.id}"
        raise AskTimeout(f"not {state} within {args.wait} ({states})", hint=hint)
