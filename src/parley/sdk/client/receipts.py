"""Receipts: how far a message that was sent has come at its recipients, and waiting until it is that far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.team import AskTimeout
from parley.sdk.client.area import AsyncArea
from parley.sdk.protocol.call_arguments import id_from
from parley.sdk.protocol.receipts import LONG_POLL_SECONDS, seconds_of, state_from, status_of
from parley.wire.api.records.channels import MessageReceipts

if TYPE_CHECKING:
    from datetime import timedelta

    from parley.domain.receipts import MessageStatus, ReceiptState
    from parley.wire.api.records.channels import ChannelMessage

# How much longer than the server we wait for an answer that it may hold back.
_GRACE_SECONDS = 15.0


class AsyncReceipts(AsyncArea):
    """What a client learns about messages that it sent."""

    async def message_status(self, message_id: str | ChannelMessage) -> MessageStatus:
        """How far a message that you sent has come at each recipient: queued, acknowledged or acted.

        A state is never ahead of the truth. Raises `NotFound` for a message that somebody else sent, and for one that
        its channel no longer keeps.
        """
        path = ("messages", id_from("message_status", "message_id", message_id), "receipts")
        return status_of(await self._fetch(MessageReceipts, "GET", *path))

    async def wait_until(
        self, message_id: str | ChannelMessage, state: ReceiptState | str, *, wait: str | timedelta = "5m"
    ) -> MessageStatus:
        """Wait until every recipient is as far as a state: acknowledged or acted.

        Raises `MessageTimeoutError` when one is not in time, or will never be; it names the state that was reached.
        """
        wanted = state_from("wait_until", state)
        path = ("messages", id_from("wait_until", "message_id", message_id), "receipts")
        monotonic = self.connection.session.monotonic
        until = monotonic() + seconds_of("wait_until", wait)
        while True:
            seconds = max(0.0, min(until - monotonic(), LONG_POLL_SECONDS))
            query = {"until": wanted.value, "wait": round(seconds, 3)}
            answer = await self._fetch(MessageReceipts, "GET", *path, query=query, timeout=seconds + _GRACE_SECONDS)
            status = status_of(answer)
            if status.has_reached(wanted):
                return status
            if status.has_ended or monotonic() >= until:
                raise AskTimeout(f"{status.id} is {status.state}, not {wanted}, after {wait}")
