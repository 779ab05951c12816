"""`parley status MESSAGE` and `parley post --until` on a server; and how receipts are printed, also of mailboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.receipts import DeliveryReceipt, MessageStatus, ReceiptState
from parley.domain.times import ago, clock_time, from_stamp

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from datetime import datetime

    from parley.cli.output import Screen
    from parley.domain.message.message import Value
    from parley.sdk.blocking.connection import Connection

ANSWER = "answer"
# What --until waits for on a server.
UNTIL = (ReceiptState.ACKNOWLEDGED.value, ReceiptState.ACTED.value, ANSWER)
_COLOURS = {
    ReceiptState.ACTED: "green",
    ReceiptState.DEAD: "red",
    ReceiptState.REFUSED: "red",
    ReceiptState.EXPIRED: "yellow",
}
# How much longer than the server we wait for an answer that it may hold back.
_GRACE_SECONDS = 15.0
_OPEN = ("open", "partially_answered", "forwarded")


def show_status(args: argparse.Namespace, connection: Connection) -> int:
    """Print how far a message of a server has come."""
    status = _fetch(connection, args.message)
    if args.json:
        screen_of(args).json(status_fields(status))
    else:
        show_receipts(screen_of(args), status, _now())
    return OK


def show_until(args: argparse.Namespace, connection: Connection, posted: Mapping[str, Any], seconds: float) -> None:
    """Wait until every recipient is as far as --until says; `AskTimeout` with the state when one is not in time."""
    from parley.cli.waiting_line import waiting_for
    from parley.domain.errors.team import AskTimeout
    from parley.sdk.protocol.receipts import LONG_POLL_SECONDS
    from parley.wiring import monotonic

    state, end = ReceiptState(args.until), monotonic() + seconds
    with waiting_for(f"{posted['to']} ({state})").running():
        while True:
            left = max(0.0, min(end - monotonic(), LONG_POLL_SECONDS))
            status = _fetch(connection, posted["id"], state, left)
            if status.has_reached(state) or status.has_ended or monotonic() >= end:
                break
    if args.json:
        screen_of(args).json({**posted, **status_fields(status)})
    else:
        show_receipts(screen_of(args), status, _now())
    missing = [receipt for receipt in status.receipts if not receipt.has_reached(state)]
    if missing:
        states = ", ".join(f"{receipt.recipient}: {receipt.state}" for receipt in missing)
        hint = f"look again with: parley status {posted['id']}"
        raise AskTimeout(f"not {state} within {args.wait} ({states})", hint=hint)


def show_reply(args: argparse.Namespace, connection: Connection, posted: Mapping[str, Any], seconds: float) -> None:
    """Wait for the answer to a request, and print it; `AskTimeout` with the state when none comes in time.

    The request does not end with the wait.
    """
    from parley.cli.channels.ask import show_answer
    from parley.cli.waiting_line import waiting_for
    from parley.domain.errors.team import AskTimeout
    from parley.sdk.protocol.failures import failure_in
    from parley.sdk.protocol.receipts import LONG_POLL_SECONDS
    from parley.wiring import monotonic

    messages = ("channels", posted["channel_id"], "messages")
    end, since = monotonic() + seconds, posted["id"]
    with waiting_for(f"{posted['to']} (answer)").running():
        while (info := connection.get(*messages, posted["id"], "request"))["state"] in _OPEN and monotonic() < end:
            left = max(0.0, min(end - monotonic(), LONG_POLL_SECONDS))
            query = {"since": since, "wait": round(left, 3)}
            page = connection.get(*messages, query=query, timeout=left + _GRACE_SECONDS)
            since = page[-1]["id"] if page else since
    if not info["answers"]:
        status = _fetch(connection, posted["id"])
        states = ", ".join(f"{receipt.recipient}: {receipt.state}" for receipt in status.receipts)
        hint = f"look again with: parley status {posted['id']}"
        raise AskTimeout(f"no answer within {args.wait} ({states})", hint=hint)
    answer = connection.get(*messages, info["answers"][0])
    if args.json:
        screen_of(args).json({**posted, "answer": answer})
    failed = failure_in(answer["sender"], answer["payload"], answer["metadata"])
    if failed:
        raise failed
    if not args.json:
        show_answer(screen_of(args), answer)


def _fetch(
    connection: Connection, message_id: str, state: ReceiptState | None = None, wait: float = 0
) -> MessageStatus:
    from parley.sdk.protocol.receipts import status_of
    from parley.sdk.records import read_answer
    from parley.wire.api.records.channels import MessageReceipts

    query = {"until": state.value, "wait": round(wait, 3)} if state is not None else None
    path = ("messages", message_id, "receipts")
    answer = connection.send("GET", *path, query=query, timeout=wait + _GRACE_SECONDS, parsed=False)
    return status_of(read_answer(answer.content, MessageReceipts))


def _now() -> datetime:
    from parley.wiring import SystemClock

    return SystemClock().now().at


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
