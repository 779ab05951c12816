"""`parley send --wait`: print the replies to a message as they arrive."""

from __future__ import annotations

import gc
import sys
import time
from typing import TYPE_CHECKING

from parley.app.mailbox import claims, waiting
from parley.cli.command import screen_of, settings_of
from parley.cli.output import message_fields, show_message
from parley.cli.waiting_line import waiting_for
from parley.domain.times import parse_duration
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.message.message import Message, Value


def show_answers(
    args: argparse.Namespace, kernel: Kernel, sent: Message, seconds: float, sent_fields: dict[str, Value]
) -> None:
    """Print a reply of each recipient and finish it; `AskTimeout` for those who have not replied in time.

    A reply is finished after it was printed, so that one whose output fails stays in the inbox.
    """
    gc.enable()
    sys.stdout.flush()
    replies = _Replies(args, kernel, sent)
    try:
        replies.wait(seconds)
    finally:
        if args.json:
            shown: list[Value] = [message_fields(reply) for reply in replies.messages]
            screen_of(args).json({**sent_fields, "replies": shown})
            replies.finish()
    if replies.missing:
        from parley.domain.errors.team import AskTimeout

        names = ", ".join(sorted(replies.missing))
        raise AskTimeout(f"no reply from {names} within {args.wait}", hint="it will be in the inbox: parley next")


class _Replies:
    """The replies to one message, claimed until they are printed."""

    def __init__(self, args: argparse.Namespace, kernel: Kernel, sent: Message) -> None:
        self._args = args
        self._kernel = kernel
        self._sent = sent
        self._claimed: list[waiting.Answer] = []
        self.missing = set(sent.to)
        self.messages: list[Message] = []

    def wait(self, seconds: float) -> None:
        """Wait until every recipient has replied, or the time is over; print each reply as text."""
        length = parse_duration(settings_of(self._args).lease)
        deadline = waiting.Deadline(self._kernel, seconds)
        while self.missing:
            reply_ids = [reply.id for reply in self.messages]
            with waiting_for(", ".join(sorted(self.missing))).running():
                answer = drive(
                    waiting.next_answer(self._kernel, self._sent.id, length, deadline, time.sleep, reply_ids)
                )
            if answer is None:
                return
            self.messages.append(answer.message)
            self._claimed.append(answer)
            # Somebody else may answer for the one who was asked.
            self.missing -= {answer.message.sender} if len(self._sent.to) > 1 else self.missing
            if not self._args.json:
                self._show(answer)
                self.finish()

    def _show(self, answer: waiting.Answer) -> None:
        notes = [] if answer.claimed else ["another reader of this inbox has claimed it"]
        doubts = [str(doubt) for doubt in answer.claimed.doubts] if answer.claimed else []
        fields = message_fields(answer.message)
        show_message(screen_of(self._args), fields, [*notes, *doubts], self._kernel.clock.now().at)

    def finish(self) -> None:
        """Finish the replies that were printed."""
        sys.stdout.flush()
        for answer in self._claimed:
            if answer.claimed is not None:
                drive(claims.done(self._kernel, answer.claimed.file, token=answer.claimed.lease.token))
        self._claimed.clear()
