"""That a message under the rules was met in the inbox, and what became of it there.

       ┌──> admitted    counted as a round; it may be handed over, as often as it takes
met ───┼──> held ──┬──> admitted    my person approved it
       │           ├──> answered    my person answered it itself
       │           └──> refused     my person rejected it, or nobody decided in time
       └──> refused     it goes to the dead letters
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from parley.domain.record import Record


class InboxVerdict(StrEnum):
    ADMITTED = "admitted"
    HELD = "held"
    ANSWERED = "answered"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxReceipt(Record):
    """One file of the inbox, by the digest of its content: it is judged once."""

    kind: ClassVar[str] = "receipt"

    message_id: str
    file: str
    status: InboxVerdict
    at: str
    exchange_id: str = ""
    approval_id: str = ""
    # Why it was refused: a stable code, and a sentence.
    code: str = ""
    reason: str = ""
    # My message that took the same round, and gave way to it.
    crossed: str = ""

    @property
    def parent(self) -> str:
        return self.status.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent(Record):
    """How many messages two agents have exchanged in an hour, as far as one of them knows."""

    kind: ClassVar[str] = "spent"

    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched(Record):
    """An approval that another's person signed, and the file that it was for: there is no second one."""

    kind: ClassVar[str] = "vouched"

    digest: str


def vouched_id(sender: str, approval_id: str) -> str:
    return f"{sender}/{approval_id}"
