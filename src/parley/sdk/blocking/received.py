# Written by tools/gen_client.py from sdk/client/received.py. Change that, then run: make docs
"""A message that was received in a channel, and can be answered: `message.reply(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from parley.domain.errors.errors import Invalid
from parley.sdk.protocol.call_arguments import NOT_GIVEN, payload_from
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

_RESPONDER = "responder"


class Responder(Protocol):
    """Who sends the answer to a message: the channel in which it was received, or the agent that handles it."""

    def respond(self, message: ChannelMessage, payload: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> None:
        """Answer a request."""


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


def received(message: ChannelMessage, responder: Responder) -> ReceivedMessage:
    """A message, with whoever sends its answer."""
    fields = {name: getattr(message, name) for name in ChannelMessage.__struct_fields__}
    bound = ReceivedMessage(**fields)
    bound.__dict__[_RESPONDER] = responder
    return bound
