"""What a server remembers of whom it has told; after a restart somebody may be told twice, but nobody is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.ports.team import Mailman

_MOST = 10_000


class NoticeState:
    """Who carries letters, and which ones were carried lately."""

    def __init__(self, mailman: Mailman | None = None) -> None:
        # None where people have no mailboxes.
        self.mailman = mailman
        self._carried: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def has_carried(self, approval_id: str, stage: str, user: str) -> bool:
        """Whether this person has this letter: what could not be written down afterwards is not carried again."""
        return (approval_id, stage, user) in self._carried

    def carried(self, approval_id: str, stage: str, user: str) -> None:
        """Remember it."""
        self._carried[approval_id, stage, user] = None
        if len(self._carried) > _MOST:
            self._carried.popitem(last=False)
