"""What the kernel needs from outside: small protocols, the contract in their docstrings.

All verbs are coroutines. On a mailbox none of them ever suspends, so a use case is driven to its end without
an event loop; a server's adapters may suspend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from parley.domain.audit.entry import AuditEntry
    from parley.domain.content.envelope import Carried, Envelope, Ext
    from parley.domain.errors.errors import ParleyError
    from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Status
    from parley.domain.mailbox.ledger import MailboxChanges, StoredEntry, StoredMessage
    from parley.domain.mailbox.listing import FileKey, HeadingIndex, KnownHeading, RefusedFile
    from parley.domain.message.message import Heading, Message, Reading, Value
    from parley.domain.receipts import ReceiptStep
    from parley.domain.record import Record
    from parley.domain.rules.project import Governance
    from parley.domain.times import Instant

R = TypeVar("R", bound="Record")


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> Instant:
        """This moment, by the wall and by a clock that nobody can set back."""
        ...


class Ids(Protocol):
    """The only source of randomness."""

    def suffix(self, length: int) -> str:
        """`length` characters of [a-z0-9], 4 or more, random; a later one of the same minute sorts behind."""
        ...

    def token(self) -> str:
        """An unguessable token."""
        ...

    def ulid(self) -> str:
        """26 characters that sort by time and that nobody can guess."""
        ...

    def secret(self) -> str:
        """256 bits that nobody can guess, as 43 characters of base64url."""
        ...


class Store(Protocol):
    """A ledger: one write verb, and reads shaped like the domain."""

    def close(self) -> None:
        """Let go of files and connections."""
        ...

    async def commit(self, changes: MailboxChanges) -> int:
        """Write all of `changes` in one transaction, durably, and return the ledger's last position.

        Raises `Stale` when an expectation no longer holds or `new_conversation` or `new_file` is known, `Duplicate`
        when a minted message id of the same sender is kept with other content; then nothing is written. Keeping the
        same message again is no error. Entries get the next positions, dense and in commit order, each linked to
        the one before. A record in `puts` replaces the version that it carries, and counts on; one that is of another
        version, or whose name another has, is stale. Audit entries are chained likewise, in one chain of one tenant.
        """
        ...

    async def delivery(self, key: DeliveryKey) -> Delivery | None:
        """One delivery, None when the ledger has none."""
        ...

    async def deliveries(self, *statuses: Status) -> tuple[Delivery, ...]:
        """All deliveries in one of these states, oldest first."""
        ...

    async def find_deliveries(self, recipient: str, *names: str) -> tuple[Delivery, ...]:
        """The recipient's deliveries whose message id or file is one of `names`, oldest first."""
        ...

    async def find(self, message_id: str) -> tuple[StoredMessage, ...]:
        """Every kept message with this id (foreign tools may use one id twice), oldest first."""
        ...

    async def conversation(self, conversation_id: str) -> tuple[StoredMessage, ...]:
        """The kept messages of a conversation, oldest first."""
        ...

    async def count_conversations(self, prefix: str) -> int:
        """How many kept conversations have an id that begins with `prefix`."""
        ...

    async def search(self, text: str, limit: int) -> tuple[StoredMessage, ...]:
        """Messages whose subject, body or id contains `text`, in any case; newest first."""
        ...

    async def entries(self, after: int, limit: int) -> tuple[StoredEntry, ...]:
        """The next entries after a position, in order."""
        ...

    async def entries_about(self, message_id: str, action: str) -> tuple[StoredEntry, ...]:
        """The entries of one action about a message, in order."""
        ...

    async def replies(self, message_id: str) -> tuple[StoredMessage, ...]:
        """The kept messages that answer this id, oldest first."""
        ...

    async def seen_files(self, watcher: str) -> frozenset[str]:
        """The files that a watcher has shown."""
        ...

    async def record(self, kind: type[R], record_id: str) -> R | None:
        """One record as it is kept, with its version; None when there is none."""
        ...

    async def records(
        self, kind: type[R], parent: str | None = None, *, after: str = "", limit: int = 1_000
    ) -> tuple[R, ...]:
        """The records of a kind, or those of one parent, after an id, in the order of ids."""
        ...

    async def has_records(self, kind: str, parent: str) -> bool:
        """Whether there is a record of that kind and parent: for those who have not loaded what a record is."""
        ...

    async def audits(self, after: int, limit: int) -> tuple[AuditEntry, ...]:
        """The next entries of this agent's audit chain after a place, in order."""
        ...


class Format(Protocol):
    """Bytes to message and back; pure."""

    def encode(self, message: Message) -> bytes:
        """The file's bytes, read back by our own reader and compared before they are returned."""
        ...

    def settle(self, message: Message) -> Message:
        """The message as every reader sees it: what `decode` gives back after `encode`."""
        ...

    def decode(self, content: bytes) -> Message:
        """The message, or `Unreadable`/`Invalid` with every problem."""
        ...

    def heading(self, content: bytes) -> Heading:
        """Only what a listing shows; the same refusals as `decode`."""
        ...

    def inspect(self, content: bytes) -> Reading:
        """Everything about the file at once; raises `Unreadable` for what cannot be read at all."""
        ...

    def packet(self, content: bytes) -> dict[str, Value]:
        """A packet file's fields, read under the same bounds as a message."""
        ...


class MailEnvelopes(Protocol):
    """What a message file carries because of the rules; pure."""

    def read(self, content: bytes) -> Carried:
        """The envelope in a file and what stands beside it; `EnvelopeInvalid` for anything that is not exact."""
        ...

    def stamped(self, message: Message, envelope: Envelope, ext: Ext, label: str) -> Message:
        """The message with its envelope, as every reader will see it."""
        ...


class MailGovernance(Protocol):
    """The rules of a project: who is who, and which policies are in force."""

    def is_set_up(self) -> bool:
        """Whether the project has a governance file: one look at the disk."""
        ...

    def load(self) -> Governance:
        """What is in force now. Raises `PolicyInvalid` with file and line for what cannot be read."""
        ...


class MailSignatures(Protocol):
    """Ed25519 for the people of a project; all raw bytes. A seed is a private key."""

    def public_key(self, seed: bytes) -> bytes:
        """The public half of a key."""
        ...

    def sign(self, seed: bytes, content: bytes) -> bytes:
        """The signature of exactly this content."""
        ...

    def verify(self, public_key: bytes, signature: bytes, content: bytes) -> bool:
        """Whether the owner of this key signed exactly this content; False for what is no key or no signature."""
        ...


class LockedFile(Protocol):
    """A message file opened under its lock; the content was read once and is what gets processed."""

    name: str
    content: bytes
    owner: int

    def release(self) -> None:
        """Give the lock back."""
        ...


class Courier(Protocol):
    """Carries a sender's files to their places."""

    async def taken(self, agents: tuple[str, ...], name: str) -> bool:
        """Whether `name` exists in my outbox or in the inbox of one of `agents`.

        Raises `UnknownAgent` for an agent that has no inbox, before anything is written anywhere.
        """
        ...

    async def deliver(self, agent: str, name: str, content: bytes) -> None:
        """Put a complete file into the agent's inbox, durably, never over another.

        The same content under that name counts as delivered. Raises `UnknownAgent`, `InboxFull`,
        `NameExists`, `Forbidden`, or `Unavailable` when trying again may help.
        """
        ...

    async def keep_copy(self, name: str, content: bytes) -> None:
        """Put the copy into my outbox; the last step of a send, so its presence says the send is through."""
        ...

    async def has_copy(self, name: str, content: bytes) -> bool:
        """Whether my outbox holds exactly this file."""
        ...

    def sending(self) -> AbstractContextManager[None]:
        """While it lasts, nobody takes this side's pending deliveries for those of a dead process."""
        ...

    def alone(self) -> AbstractContextManager[bool]:
        """True when no live process of this side is sending, and none can start while it lasts."""
        ...


class ReceiptLog(Protocol):
    """What became of messages at their recipients. An agent writes its own receipts, and reads those of others."""

    def append(self, message_id: str, file: str, steps: Sequence[ReceiptStep]) -> None:
        """Add steps about the message in a file of my inbox. A kill leaves all of them or none; they are bounded: what
        is offered for ever is not written for ever.
        """
        ...

    def steps(self, agent: str, message_id: str, file: str) -> tuple[ReceiptStep, ...] | None:
        """What an agent wrote about the message in a file of its inbox, oldest first; None if it keeps no receipts.

        What cannot be read, or was not written by that agent's user, is left out.
        """
        ...

    def position(self, *, make: bool) -> AbstractContextManager[list[int] | None]:
        """How much of my ledger is in my receipts, as the only item of a list, -1 at first; what stands there at the
        end is kept. One process at a time has it. None where I keep no receipts yet, unless they are to be made.
        """
        ...


class Inbox(Protocol):
    """The files of one agent, seen by their owner."""

    async def names(self, place: str = "inbox", *, exact: bool = False) -> list[tuple[str, int]]:
        """Message files now in inbox, archive or outbox, unordered, each with a number. Exact numbers cost more, and
        tell apart two files that had one name one after the other.
        """
        ...

    def peek(self, names: Iterable[str], place: str = "inbox") -> Iterator[tuple[str, bytes | ParleyError, int, int]]:
        """The bytes of each file (or why it cannot be read), its owner and exact number, without lock or trace.

        A file that vanishes meanwhile is passed over.
        """
        ...

    def index(self, place: str) -> HeadingIndex:
        """The headings that an earlier process has kept of a place; empty where there are none."""
        ...

    def keep_index(self, place: str, entries: dict[FileKey, KnownHeading], files: int) -> None:
        """Keep what was read of a place of so many files for the next process, where this user may write.

        Entries are in processing order, have exact numbers, and were read after `names` or `index` was asked.
        """
        ...

    async def take(self, name: str, *, wait: bool = False, finished: bool = False) -> LockedFile | None:
        """Lock and read one file; None when it is gone.

        Raises `AlreadyClaimed` when another reader has the lock, with `wait` only after a moment of patience;
        `Unreadable` for what is no message file; with `finished`, `Unfinished` for what is open for writing.
        """
        ...

    async def archive(self, name: str, content: bytes) -> None:
        """Move the file `name`, which the caller holds and which has this content, to the archive, durably."""
        ...

    async def preserve(self, name: str, content: bytes) -> None:
        """Write `content` into the archive: for a message whose file is no longer what was processed."""
        ...

    async def archived(self, name: str, content: bytes) -> bool:
        """Whether the archive holds exactly this file."""
        ...

    async def delete(self, name: str) -> None:
        """Remove a file, durably; gone already is no error."""
        ...

    async def bury(self, refused: RefusedFile) -> None:
        """Move a file to the dead letters with the reason beside it, whatever the file is; durable after the sync."""
        ...

    async def sync_dead_letters(self) -> None:
        """Make durable what was moved to the dead letters."""
        ...

    async def dead_letters(self) -> list[RefusedFile]:
        """The files among the dead letters, by name."""
        ...

    async def unfinished(self, names: Iterable[str], now: datetime) -> frozenset[str]:
        """Which of these files of the inbox, which cannot be read, may still become messages: those that are open for
        writing, or changed less than ten seconds ago.
        """
        ...

    def owner_of(self, agent: str) -> int | None:
        """The user id that owns an agent's folder."""
        ...

    def packet(self, path: str) -> bytes | None:
        """A file of the project by its relative path, bounded; None when it is not there."""
        ...

    async def put_packet(self, path: str, content: bytes) -> None:
        """Write a file of the project by its relative path, durably; `NameExists` when there is one."""
        ...

    def pulse(self) -> tuple[int, int]:
        """Changes when the inbox may have changed: cheap enough to ask many times a second."""
        ...
