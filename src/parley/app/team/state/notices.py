"""Which people a server has notified. After a restart a person may be notified twice, but none is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.ports.outside import Notifier

_MOST = 10_000


class NoticeState:
    """The notifier, and its recent notifications."""

    def __init__(self, notifier: Notifier | None = None) -> None:
        # None where people have no mailboxes.
        self.notifier = notifier
        self._notified: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def was_notified(self, approval_id: str, stage: str, user: str) -> bool:
        """Whether this person was notified, even if that could not be written down."""
        return (approval_id, stage, user) in self._notified

    def mark_notified(self, approval_id: str, stage: str, user: str) -> None:
        """Remember it."""
        self._notified[approval_id, stage, user] = None
        if len(self._notified) > _MOST:
            self._notified.popitem(last=False)
