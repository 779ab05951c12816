# Written by tools/gen_client.py from sdk/client/received.py. Change that, then run: make docs
"""A message that was received in a channel, and can be answered: `message.reply(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from parley.domain.errors.errors import Invalid
from parley.sdk.protocol.call_arguments import NOT_GIVEN, payload_from
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from parley.domain.receipts import MessageStatus, ReceiptState

_RESPONDER = "responder"
_READER = "receipt_reader"


class Responder(Protocol):
    """Who sends the answer to a message: the channel in which it was received, or the agent that handles it."""

    def respond(self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> None:
        """Answer a request."""


class ReceiptReader(Protocol):
    """Who knows how far a message has come that was sent: the channel in which that was."""

    def message_status(self, message: ChannelMessage) -> MessageStatus:
        """How far a message has come at its recipients."""
        ...

    def wait_until(self, message: ChannelMessage, state: ReceiptState | str, wait: str | timedelta) -> MessageStatus:
        """The same once it is that far."""
        ...


class ReceivedMessage(ChannelMessage, frozen=True, kw_only=True, dict=True):
    """A message that was received in a channel. `message["name"]` is an item of its payload, `.text` its text."""

    __module__ = "parley"

    def reply(
        self,
        payload: object = NOT_GIVEN,
        *,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> None:
        """Answer a request: a text, a mapping, or keywords. Only whom it was for may answer.

        Raises `Invalid` for a message that is no request, and `MessageHeld` when the answer waits for a person.
        """
        given = payload_from("reply", payload, fields)
        if self.message_type != "request":
            hint = f"use notify({self.sender!r}, ...) of the channel"
            raise Invalid(f"reply: only a request can be answered; this is a {self.message_type}", hint=hint)
        responder: Responder | None = self.__dict__.get(_RESPONDER)
        if responder is None:
            raise Invalid("reply: this is a copy of a message, without its channel", hint="use client.reply_to(...)")
        responder.respond(self, given, metadata)

    @property
    def receipt(self) -> MessageStatus:
        """How far a message that you sent has come at each recipient, now. See `Client.message_status`."""
        return self._reader("receipt", "client.message_status(...)").message_status(self)

    def wait_until(self, state: ReceiptState | str, *, wait: str | timedelta = "5m") -> MessageStatus:
        """Wait until every recipient of a message that you sent is as far as a state: acknowledged or acted.

        Raises `MessageTimeoutError` when one is not in time, or will never be; it names the state that was reached.
        """
        return self._reader("wait_until", "client.wait_until(...)").wait_until(self, state, wait)

    def _reader(self, call: str, instead: str) -> ReceiptReader:
        reader: ReceiptReader | None = self.__dict__.get(_READER)
        if reader is None:
            raise Invalid(f"{call}: this is no message of an open channel", hint=f"use {instead}")
        return reader


def received(message: ChannelMessage, responder: Responder, reader: ReceiptReader | None = None) -> ReceivedMessage:
    """A message, with whoever sends its answer, and who knows how far it has come."""
    fields = {name: getattr(message, name) for name in ChannelMessage.__struct_fields__}
    bound = ReceivedMessage(**fields)
    bound.__dict__[_RESPONDER] = responder
    bound.__dict__[_READER] = reader
    return bound
