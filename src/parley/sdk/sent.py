"""A message that a mailbox has sent, with what its sender can learn about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.message.message import Message

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from parley.domain.receipts import MessageStatus, ReceiptState


class SentMessage(Message):
    """A message that was sent: `receipt` says how far it has come at its recipients.

    sent = mailbox.send("codex", "question", "Auth", "mTLS or JWT?")
    sent.wait_until("injected", wait="1m")  # its model has seen the notice
    """

    __module__ = "parley"

    # The `parley.Mailbox` that sent it.
    _mailbox: Any

    @classmethod
    def sent_from(cls, mailbox: object, message: Message) -> Self:
        """The message, as the mailbox that sent it gives it."""
        sent = cls(*message)
        sent._mailbox = mailbox
        return sent

    def __eq__(self, other: object) -> bool:
        """Whether it is the same message: as it was sent, claimed or read."""
        return tuple.__eq__(self, other) is True

    __hash__ = tuple.__hash__

    @property
    def receipt(self) -> MessageStatus:
        """How far it has come at each recipient, now."""
        status: MessageStatus = self._mailbox.status(self)
        return status

    def wait_until(self, state: ReceiptState | str, *, wait: str | timedelta = "5m") -> MessageStatus:
        """Wait until every recipient is as far as a state. See `Mailbox.wait_until`."""
        status: MessageStatus = self._mailbox.wait_until(self, state, wait=wait)
        return status
