"""Results of the mailbox use cases."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import ParleyError, Problem
from parley.domain.mailbox.delivery import Delivery, Lease
from parley.domain.message.message import Heading, Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# The doubt that a file was not written by the user of its sender. A claim records it as a fact.
UNVERIFIED = "unverified"


# A file's name and number: another file under that name, or the same one changed, has another.
FileKey = tuple[str, int]
# A heading that was read, and the user who owns its file.
KnownHeading = tuple[Heading, int]


class ReadHeading(NamedTuple):
    """A file as a listing has read it: its heading or why it has none, its owner, and what is doubtful about it."""

    heading: Heading | ParleyError
    owner: int
    doubts: tuple[str, ...] = ()


class HeadingIndex(NamedTuple):
    """What an earlier process has read of a place, in processing order.

    In columns: the n-th value of each is of the n-th file. Ten thousand files are ten calls then, not ten thousand.
    """

    names: list[str]
    numbers: list[str]
    owners: list[int]
    # For each field of `Heading`.
    columns: "tuple[Sequence[Any], ...]"
    # These are the files of the place: no name has come or gone.
    complete: bool = False

    @property
    def entries(self) -> dict[FileKey, KnownHeading]:
        """Each file by its own."""
        keys = zip(self.names, map(int, self.numbers), strict=True)
        headings = map(Heading._make, zip(*self.columns, strict=True))
        return dict(zip(keys, zip(headings, self.owners, strict=True), strict=True))


NO_INDEX = HeadingIndex([], [], [], tuple([] for _ in Heading._fields))


class Item(NamedTuple):
    """One line of a listing. A file that is no message has a `problem` and only its name."""

    id: str
    sender: str
    to: tuple[str, ...]
    kind: str
    priority: str
    created_at: str
    subject: str
    expires_at: str
    conversation_id: str
    in_reply_to: str
    file: str
    status: str = "new"
    expired: bool = False
    problem: str = ""
    doubts: tuple[str, ...] = ()


Item.__module__ = "parley"


class RefusedFile(NamedTuple):
    """A file that is no message, or was not handed over: where it is now, and why."""

    file: str
    place: str
    code: str
    detail: str
    at: str = ""

    @property
    def problem(self) -> str:
        return f"{self.code}: {self.detail}"


RefusedFile.__module__ = "parley"


class FoundMessage(NamedTuple):
    """A message and where it was found: inbox, archive, outbox, dead_letter or ledger."""

    message: Message
    content: bytes
    digest: str
    place: str
    file: str
    doubts: tuple[Problem, ...] = ()


FoundMessage.__module__ = "parley"


class Sent(NamedTuple):
    """The result of sending a draft. `finished` is the id of the message that a reply finished, or ""."""

    message: Message
    file: str
    deliveries: tuple[Delivery, ...]
    warnings: list[Problem]
    finished: str = ""


class Claimed(NamedTuple):
    """A message handed to a reader, who owns it until the lease runs out."""

    message: Message
    file: str
    lease: Lease
    tries: int
    doubts: tuple[Problem, ...]


class InboxPass(NamedTuple):
    """What one look for the next message came to: the message, the files that were refused, what is left in the inbox.

    `unread` counts the bad files beyond those that one look puts aside.
    """

    claimed: Claimed | None
    refused: tuple[RefusedFile, ...] = ()
    expired: int = 0
    unread: int = 0


class Finished(NamedTuple):
    """The result of `done`: the message is archived, deleted, or was gone already."""

    message_id: str
    file: str
    how: str
    content_changed: bool = False
