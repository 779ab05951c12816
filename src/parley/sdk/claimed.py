"""A message that was claimed from a mailbox: it is finished, or released, at the end of a `with`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import ParleyError
from parley.domain.message.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

    from parley.domain.message.message import Value


class ClaimedMessage(Message):
    """A message that this reader has claimed, with what it can do about it.

    while message := mailbox.next(wait="5m"):
        with message:  # finished at the end, released when an exception leaves it
            message.reply("Signed JWTs.")
    """

    __module__ = "parley"

    # The `parley.Mailbox` that claimed it.
    _mailbox: Any

    @classmethod
    def claimed_from(cls, mailbox: object, message: Message) -> Self:
        """The message, as the mailbox that claimed it gives it."""
        claimed = cls(*message)
        claimed._mailbox = mailbox
        return claimed

    def reply(self, body: str | Mapping[str, Value], **options: Any) -> Message:  # noqa: ANN401  # those of the mailbox
        """Answer it: recipient, kind, subject and conversation come from it. See `Mailbox.reply` for the options."""
        answer: Message = self._mailbox.reply(self, body, **options)
        return answer

    def done(self, *, delete: bool = False) -> None:
        """Finish it: its file moves to the archive, or is deleted. Doing it twice is no error."""
        self._mailbox.done(self, delete=delete)

    def release(self) -> None:
        """Release it, so that the next reader gets it."""
        self._mailbox.release(self)

    def extend(self, lease: str | timedelta = "30m") -> None:
        """Hold it for longer, counted from now."""
        self._mailbox.extend(self, lease)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.done()
            return
        with suppress(ParleyError):  # it was finished inside, or another reader has it: the exception says more
            self.release()
