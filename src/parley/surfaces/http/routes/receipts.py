"""Receipts over HTTP: how far a message has come at each recipient, for whoever sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.queues import receipts
from parley.domain.receipts import ReceiptState
from parley.domain.store.limits import LONG_POLL_MAX_SECONDS
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json
from parley.wire.api.records.channels import MessageReceipts, RecipientReceipt, RecipientStep
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from parley.domain.receipts import MessageStatus
    from parley.surfaces.http.http1.message import Response

_STATES = (ReceiptState.ACKNOWLEDGED.value, ReceiptState.ACTED.value)


def _record(status: MessageStatus) -> MessageReceipts:
    return MessageReceipts(
        id=status.id,
        state=status.state,
        receipts=[
            RecipientReceipt(
                to=receipt.recipient,
                state=receipt.state,
                note=receipt.note,
                steps=[fill_record(RecipientStep, step) for step in receipt.steps],
            )
            for receipt in status.receipts
        ],
    )


async def get(call: Call) -> Response:
    which = (call.team, call.caller, call.params["message_id"])
    until = ReceiptState(call.choice("until", *_STATES))
    wait = call.number("wait", 0, 0, LONG_POLL_MAX_SECONDS)
    return json(200, _record(await (receipts.wait_until(*which, until, wait) if wait else receipts.get(*which))))


ROUTES = (
    Route(
        "GET",
        "/messages/{message_id}/receipts",
        get,
        "Get how far a message that you sent has come at its recipients",
        "messages",
        {200: MessageReceipts},
        query=(
            Param("until", "With wait: the state that every recipient has to reach.", choices=_STATES),
            Param("wait", "How many seconds to wait for that state.", "number", 0, LONG_POLL_MAX_SECONDS),
        ),
        scope=EVERYBODY,
    ),
)
