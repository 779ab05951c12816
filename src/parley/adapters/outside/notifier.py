"""Notifies people in their own mailboxes: files are written in a separate thread, with a timeout."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Unavailable
from parley.domain.names import is_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from parley.domain.exchange.notice import Letter

_TIMEOUT_SECONDS = 10.0


class MailboxNotifier:
    """See `ports.outside.Notifier`. `deliver` writes a letter, and says whether there is a mailbox; it may block."""

    def __init__(self, deliver: Callable[[str, Letter], bool], seconds: float = _TIMEOUT_SECONDS) -> None:
        self._deliver = deliver
        self._seconds = seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="notifier")
        self._last: Future[bool] | None = None

    async def notify(self, user: str, letter: Letter) -> bool:
        if not is_name(user):
            return False
        if self._last is not None and not self._last.done():
            raise Unavailable("the mailboxes do not answer: an earlier notification is still being written")
        self._last = self._thread.submit(self._deliver, user, letter)
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(self._last)
        except TimeoutError:
            raise Unavailable(f"the mailbox of {user} did not take the letter in time") from None

    def close(self) -> None:
        """Accept nothing more. A write in progress may finish, but is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
