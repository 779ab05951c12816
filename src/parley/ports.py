"""What the kernel needs from outside: small protocols, the contract in their docstrings.

All verbs are coroutines. On a mailbox none of them ever suspends, so a use case is driven to its end without
an event loop; a server's adapters may suspend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from parley.domain.changes import Changes, Kept, Written
    from parley.domain.channel import Channel, Tally
    from parley.domain.delivery import Delivery, Key, Status
    from parley.domain.errors import ParleyError
    from parley.domain.event import Event
    from parley.domain.message import Heading, Message, Reading, Value
    from parley.domain.post import Post
    from parley.domain.record import Record
    from parley.domain.subscription import Answered, Push
    from parley.domain.team_changes import Committed, FeedItem, Query, Saved, Seen, TeamChanges
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

    async def commit(self, changes: Changes) -> int:
        """Write all of `changes` in one transaction, durably, and return the ledger's last position.

        Raises `Stale` when an expectation no longer holds or `new_conversation` or `new_file` is known, `Duplicate`
        when a minted message id of the same sender is kept with other content; then nothing is written. Keeping the
        same message again is no error. Entries get the next positions, dense and in commit order, each linked to
        the one before.
        """
        ...

    async def delivery(self, key: Key) -> Delivery | None:
        """One delivery, None when the ledger has none."""
        ...

    async def deliveries(self, *statuses: Status) -> tuple[Delivery, ...]:
        """All deliveries in one of these states, oldest first."""
        ...

    async def named(self, recipient: str, *names: str) -> tuple[Delivery, ...]:
        """The recipient's deliveries whose message id or file is one of `names`, oldest first."""
        ...

    async def find(self, message_id: str) -> tuple[Kept, ...]:
        """Every kept message with this id (foreign tools may use one id twice), oldest first."""
        ...

    async def conversation(self, conversation_id: str) -> tuple[Kept, ...]:
        """The kept messages of a conversation, oldest first."""
        ...

    async def count_conversations(self, prefix: str) -> int:
        """How many kept conversations have an id that begins with `prefix`."""
        ...

    async def search(self, text: str, limit: int) -> tuple[Kept, ...]:
        """Messages whose subject, body or id contains `text`, in any case; newest first."""
        ...

    async def entries(self, after: int, limit: int) -> tuple[Written, ...]:
        """The next entries after a position, in order."""
        ...

    async def seen(self, watcher: str) -> frozenset[str]:
        """The files that a watcher has shown."""
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


class Held(Protocol):
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


class Inbox(Protocol):
    """The files of one agent, seen by their owner."""

    async def names(self, place: str = "inbox", *, exact: bool = False) -> list[tuple[str, int]]:
        """Message files now in inbox, archive or outbox, unordered, each with a number. Exact numbers cost more, and
        tell apart two files that had one name one after the other.
        """
        ...

    def peek(self, names: Iterable[str], place: str = "inbox") -> Iterator[tuple[str, bytes | ParleyError]]:
        """The bytes of each file (or why it cannot be read), without lock or trace.

        A file that vanishes meanwhile is passed over.
        """
        ...

    async def take(self, name: str, *, wait: bool = False) -> Held | None:
        """Lock and read one file; None when it is gone.

        Raises `AlreadyClaimed` when another reader has the lock, with `wait` only after a moment of patience;
        `Unreadable` for what is no message file.
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

    async def bury(self, name: str, code: str, detail: str, at: str) -> None:
        """Move a file to the dead letters with the reason beside it, whatever the file is."""
        ...

    def owner_of(self, agent: str) -> int | None:
        """The user id that owns an agent's folder."""
        ...

    def packet(self, path: str) -> bytes | None:
        """A file of the project by its relative path, bounded; None when it is not there."""
        ...

    def pulse(self) -> tuple[int, int]:
        """Changes when the inbox may have changed: cheap enough to ask many times a second."""
        ...


class Signatures(Protocol):
    """Checks what somebody signed."""

    def verify(self, public_key: bytes, signature: bytes, content: bytes) -> bool:
        """Whether the owner of this raw Ed25519 key signed exactly this content."""
        ...


class Outbound(Protocol):
    """Carries webhooks out: to public addresses over https, unless it was made for a laptop."""

    async def check(self, url: str) -> None:
        """Refuse with `TargetForbidden` a URL that no webhook may have, by its spelling or by where it leads now."""
        ...

    async def push(self, push: Push) -> Answered:
        """Try once to hand something over, and say what came of it. Where the address leads is looked up and judged
        anew; no redirect is followed; it ends within 15 seconds. What the other side does wrong is an answer, no error.
        """
        ...

    def avoid(self, port: int, names: Iterable[str] = ()) -> None:
        """From now on refuse this server itself: this port of this machine, and these names."""
        ...


class TeamStore(Protocol):
    """The store of a server: every tenant's records, channels, logs and ledger. One write verb.

    What is read was committed before. Reads never block the event loop. A record carries its version.
    """

    async def commit(self, changes: TeamChanges) -> Committed:
        """Write all of `changes` in one transaction, durably, and say which places everything took.

        Raises `Stale` when a version no longer holds or an idempotency key was used meanwhile, `NameTaken` when a
        name is taken in its parent, `NotFound` for a post to no channel; then nothing is written. Posts and events
        take the next positions of the tenant, dense and in commit order; posts the next places of their channel;
        entries the next of the tenant's ledger, each linked to the one before.
        """
        ...

    def watch(self, watcher: Callable[[str, Committed], None]) -> None:
        """Have `watcher` called in the event loop with each commit and its tenant, in order, before `commit` ends."""
        ...

    async def close(self) -> None:
        """Finish what is being written and let go of the file."""
        ...

    async def get(self, kind: type[R], tenant: str, record_id: str) -> R | None:
        """A record by its id."""
        ...

    async def named(self, kind: type[R], tenant: str, parent: str, name: str) -> R | None:
        """The record of that name in its parent."""
        ...

    async def children(
        self, kind: type[R], tenant: str, parent: str, *, after: str = "", limit: int = 10_000
    ) -> tuple[R, ...]:
        """The records of a parent, by id, after one."""
        ...

    async def count(self, kind: type[Record], tenant: str, parent: str) -> int:
        """How many records of this kind a parent has."""
        ...

    async def due(self, now: str, limit: int = 500, *, kinds: tuple[str, ...] = ()) -> tuple[Record, ...]:
        """Records of any tenant for which something has to happen by now; of these kinds, if any are named."""
        ...

    async def tally(self, channel_id: str) -> Tally:
        """A channel's counters."""
        ...

    async def post(self, tenant: str, message_id: str) -> Post | None:
        """A message that is still kept."""
        ...

    async def seen(self, post: Post, viewer: str) -> Seen:
        """The message with the receipt that counts for this reader ("": one who sees all)."""
        ...

    async def page(self, tenant: str, query: Query) -> tuple[Seen, ...]:
        """Messages of a channel that a reader may see, unexpired, in order, without gaps."""
        ...

    async def answers(self, tenant: str, request_id: str) -> tuple[Post, ...]:
        """The responses to a request, in order."""
        ...

    async def pending(self, tenant: str, to: str) -> tuple[Post, ...]:
        """Messages to this address that nobody could receive yet, oldest first."""
        ...

    async def taking_part(self, tenant: str, agent: str) -> tuple[Channel, ...]:
        """The channels that list an agent as a member, in which it has said something, or in which it is asked."""
        ...

    async def overdue(self, now: str, limit: int = 500) -> tuple[tuple[str, str], ...]:
        """Tenant and id of unanswered messages of any tenant whose time has passed."""
        ...

    async def search(
        self, tenant: str, text: str, *, channel_id: str = "", before: int = 0, limit: int = 500
    ) -> tuple[Post, ...]:
        """Messages whose payload contains `text` in any case, newest first, before a position (0: all).

        The caller filters by who may see them.
        """
        ...

    async def head(self, tenant: str) -> int:
        """The tenant's last position."""
        ...

    async def feed(self, tenant: str, after: int, limit: int = 500) -> tuple[FeedItem, ...]:
        """What was said and happened in a tenant after a position, in order; the caller filters.

        At most `limit`, and fewer where that would be a lot of text: only an empty answer says that there is no more.
        """
        ...

    async def events(
        self,
        tenant: str,
        intent_id: str,
        *,
        after: int = 0,
        limit: int = 1000,
        event_type: str = "",
        since: str = "",
        newest: bool = False,
    ) -> tuple[Event, ...]:
        """An intent's log after a sequence number and from a moment on, in order; with `newest` its last ones."""
        ...

    async def logged(self, tenant: str, after: int) -> tuple[tuple[str, int], ...]:
        """The intents whose log grew after a position, each with by how many events."""
        ...

    async def traced(self, tenant: str, trace_id: str, limit: int = 1000) -> tuple[Event, ...]:
        """Events of one trace, over all intents."""
        ...

    async def event(self, tenant: str, event_id: str) -> Event | None:
        """One event."""
        ...

    async def entries(self, tenant: str, after: int, limit: int) -> tuple[Written, ...]:
        """The tenant's ledger after a position."""
        ...

    async def saved(self, scope: str) -> Saved | None:
        """What an idempotency key was used for."""
        ...

    async def checkpoint(self) -> None:
        """Housekeeping of the file, in the background."""
        ...
