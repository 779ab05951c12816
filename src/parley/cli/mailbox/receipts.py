"""`parley status MESSAGE` and `parley send --until`: show how far a message has come at its recipients."""

from __future__ import annotations

import gc
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.app.mailbox import find, waiting
from parley.app.mailbox.receipts import status as receipts
from parley.cli.command import kernel_of, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.cli.waiting_line import waiting_for
from parley.domain.errors.errors import ParleyError, UnknownMessage, UnknownSender
from parley.domain.names import bare_ref
from parley.domain.receipts import DeliveryReceipt, MessageStatus, ReceiptState
from parley.domain.times import ago, clock_time, from_stamp
from parley.wiring import Kernel, agents_of, drive, find_home, find_project, open_kernel

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from parley.cli.output import Screen
    from parley.domain.message.message import Message, Value

_COLOURS = {
    ReceiptState.ACTED: "green",
    ReceiptState.DEAD: "red",
    ReceiptState.REFUSED: "red",
    ReceiptState.EXPIRED: "yellow",
}


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


def status_fields(status: MessageStatus) -> dict[str, Value]:
    """The status as JSON."""
    return {
        "id": status.id,
        "state": status.state.value,
        "receipts": [
            {
                "to": receipt.recipient,
                "state": receipt.state.value,
                "note": receipt.note,
                "steps": [{**step._asdict(), "state": step.state.value} for step in receipt.steps],
            }
            for receipt in status.receipts
        ],
    }


def show_receipts(screen: Screen, status: MessageStatus, now: datetime) -> None:
    """Print the state at each recipient, and the steps that led there."""
    for receipt in status.receipts:
        since = f" since {ago(from_stamp(step.at), now).removesuffix(' ago')}" if (step := receipt.last) else ""
        note = f" ({safe(receipt.note)})" if receipt.note else ""
        state = screen.paint(receipt.state, _COLOURS.get(receipt.state, "cyan"))
        screen.prose(f"{safe(status.id)} to {safe(receipt.recipient)}: {state}{since}{note}")
        if receipt.steps:
            show_rows(screen, _columns(receipt, now), receipt.steps)


def _columns(receipt: DeliveryReceipt, now: datetime) -> list[Column]:
    columns = [
        Column("TIME", lambda step: clock_time(from_stamp(step.at), now), ALWAYS),
        Column("STATE", lambda step: step.state.value, ALWAYS),
        Column("SESSION", lambda step: safe(step.session) or "-", 3),
        text_column("EVIDENCE", lambda step: safe(step.evidence)),
    ]
    return [column for column in columns if column.head != "SESSION" or any(step.session for step in receipt.steps)]
