"""The store of a server, and the servers that share it: small protocols, the contract in their docstrings.

Unlike those of a mailbox, their adapters may suspend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from parley.domain.audit.entry import AuditEntry
    from parley.domain.channel.channel import Channel, Tally
    from parley.domain.channel.event import Event
    from parley.domain.channel.feed import FeedItem
    from parley.domain.channel.post import Post, Receipt
    from parley.domain.directory.callers import Saved
    from parley.domain.errors.errors import Unavailable
    from parley.domain.mailbox.ledger import StoredEntry
    from parley.domain.record import Record
    from parley.domain.store.changes import (
        AuditCount,
        AuditQuery,
        ChannelQuery,
        Committed,
        ConversationMark,
        ConversationQuery,
        ErasableMessage,
        ErasureQuery,
        FeedScope,
        Query,
        ReaderPost,
        RecordQuery,
        TeamChanges,
        TrafficCount,
        TrafficQuery,
        UnansweredQuery,
    )
    from parley.domain.store.node import Node, StoreReport
    from parley.domain.store.tables import Key, Row, Servers, StoreMark, Table

R = TypeVar("R", bound="Record")


class TeamStore(Protocol):
    """The store of a server: every tenant's records, channels, logs and ledger. One write verb.

    What is read was committed before. Reads never block the event loop. A record carries its version.
    """

    async def commit(self, changes: TeamChanges, /) -> Committed:
        """Write all of `changes` in one transaction, durably, and say which places everything took.

        Raises `Stale` when a version no longer holds or an idempotency key was used meanwhile, `NameTaken` when a
        name is taken in its parent, `NotFound` for a post to no channel; then nothing is written. Posts and events
        take the next positions of the tenant, dense and in commit order; posts the next places of their channel;
        entries the next of the tenant's ledger, each linked to the one before.
        """
        ...

    def submit(self, changes: TeamChanges, done: Callable[[Committed | Exception], None], /) -> None:
        """`commit` for a caller that does not wait: `done` is called in the event loop when it is durable or refused.

        The watchers come first, as with `commit`. `done` raises nothing.
        """
        ...

    def watch(
        self,
        watcher: Callable[[str, Committed], None],
        *,
        needs: Callable[[str], bool] | None = None,
        on_lost: Callable[[Unavailable], None] | None = None,
    ) -> Callable[[], None]:
        """Call `watcher` in the event loop with each commit and its tenant, in order, before `commit` returns.

        Commits that became durable together and only post messages may be passed as one, with all their messages.
        Commits of other nodes come a little later, with their messages and events only if `needs(tenant)`. `on_lost` is
        called when the store cannot be reached, so no commit will come. Call what is returned to stop watching.
        """
        ...

    @property
    def is_current(self) -> bool:
        """Whether reads show everything that was committed, without `catch_up`: nobody else writes."""
        ...

    async def catch_up(self, *tenants: str) -> None:
        """See to it that every read from now on shows what anybody had committed in these tenants before this call."""
        ...

    async def close(self) -> None:
        """Finish what is being written and let go of the file."""
        ...

    def generation(self, tenant: str) -> int:
        """The generation of a tenant's records (see `domain.store.ground`), read before these; 0 if it is not known."""
        ...

    async def get(self, kind: type[R], tenant: str, record_id: str) -> R | None:
        """A record by its id."""
        ...

    def cached(self, kind: type[R], tenant: str, record_id: str) -> R | None:
        """A record by its id, as it is in memory; None when it is not, or there is none: `get` knows."""
        ...

    async def find_by_name(self, kind: type[R], tenant: str, parent: str, name: str) -> R | None:
        """The record of that name in its parent."""
        ...

    async def children(
        self, kind: type[R], tenant: str, parent: str, *, after: str = "", limit: int = 10_000
    ) -> tuple[R, ...]:
        """The records of a parent, by id, after one."""
        ...

    async def every(self, kind: type[R], tenant: str, *, after: str = "", limit: int = 1000) -> tuple[R, ...]:
        """The records of a kind, whatever they belong to, by id, after one."""
        ...

    async def find(self, kind: type[R], tenant: str, query: RecordQuery) -> tuple[R, ...]:
        """The records of a kind that match, in the order of the query."""
        ...

    async def count_matching(self, kind: type[Record], tenant: str, query: RecordQuery) -> int:
        """How many records match, up to the limit of the query."""
        ...

    async def count(self, kind: type[Record], tenant: str, parent: str) -> int:
        """How many records of this kind a parent has."""
        ...

    async def due(self, now: str, limit: int = 500, *, kinds: tuple[str, ...] = ()) -> tuple[Record, ...]:
        """Records of any tenant for which something has to happen by now; of these kinds, if any are named."""
        ...

    async def tally(self, tenant: str, channel_id: str) -> Tally:
        """A channel's counters."""
        ...

    def cached_tally(self, tenant: str, channel_id: str) -> Tally | None:
        """A channel's counters, as they are in memory; None when they are not: `tally` knows."""
        ...

    async def post(self, tenant: str, message_id: str, *, evicted: bool = False) -> Post | None:
        """A message that is still kept. With `evicted` also one that its channel no longer shows, but a job needs: what
        has a job is not removed.
        """
        ...

    async def with_receipt(self, tenant: str, post: Post, viewer: str) -> ReaderPost:
        """The message with the receipt that counts for this reader ("": one who sees all)."""
        ...

    async def receipts(self, tenant: str, message_id: str) -> tuple[Receipt, ...]:
        """All receipts of a message, by the names of their agents."""
        ...

    async def page(self, tenant: str, query: Query) -> tuple[ReaderPost, ...]:
        """Messages of a channel that a reader may see, unexpired, in order, without gaps."""
        ...

    async def list_channels(self, tenant: str, query: ChannelQuery) -> tuple[tuple[Channel, Tally], ...]:
        """Channels with their counters, last active first; one in which nobody spoke by when it was created."""
        ...

    async def conversation_posts(self, tenant: str, query: ConversationQuery) -> tuple[Post, ...]:
        """Messages of a conversation that are still kept, in all channels; answers to messages that name it, too."""
        ...

    async def conversation_marks(self, tenant: str, after: int, before: int) -> tuple[ConversationMark, ...]:
        """Which messages between two positions are part of a conversation, newest first."""
        ...

    async def count_traffic(self, tenant: str, query: TrafficQuery) -> TrafficCount:
        """Messages by channel, sender and recipients, those that were removed by the hour. Those of the server, and
        those that nobody could receive yet, do not count. Beside them, the messages of trimmed audit entries.
        """
        ...

    async def answers(self, tenant: str, request_id: str) -> tuple[Post, ...]:
        """The responses to a request, in order."""
        ...

    async def pending(self, tenant: str, to: str) -> tuple[Post, ...]:
        """Messages to this address that nobody could receive yet, oldest first."""
        ...

    async def waiting(self, after: str, limit: int) -> tuple[tuple[str, str], ...]:
        """Tenant and address of messages of any tenant that nobody could receive yet, by address, each once.

        Addresses after one; of all such messages so many are looked at.
        """
        ...

    async def oldest_request(self, tenant: str, agent: str, now: str) -> int | None:
        """The position of the oldest request to exactly this agent that is unanswered, unexpired and still kept."""
        ...

    async def unanswered(self, tenant: str, query: UnansweredQuery) -> tuple[Post, ...]:
        """Requests that nobody has answered, in the order of the query."""
        ...

    async def count_unanswered(self, tenant: str, query: UnansweredQuery) -> tuple[tuple[tuple[str, ...], int], ...]:
        """How many requests match, by their recipients; the order and the page of the query do not count."""
        ...

    async def taking_part(self, tenant: str, agent: str) -> tuple[Channel, ...]:
        """The channels that list an agent as a member, in which it has said something, or in which it is asked."""
        ...

    async def overdue(self, now: str, limit: int = 500) -> tuple[tuple[str, str], ...]:
        """Tenant and id of unanswered messages of any tenant whose time has passed."""
        ...

    async def search(self, tenant: str, text: str, scope: FeedScope, now: str, limit: int) -> tuple[int, ...]:
        """Positions of unexpired messages in a scope whose payload contains `text` in any case, newest first.

        Only what is in the scope is looked at: what is not takes no time.
        """
        ...

    async def words(self, tenant: str, words: ErasureQuery, after: int) -> tuple[tuple[ErasableMessage, ...], int]:
        """Messages after a position that still say what is looked for, in order, and up to where was looked.

        Only so many are looked through at once: it is 0 when there are no more.
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

    async def find_positions(
        self, tenant: str, scope: FeedScope, after: int, through: int, limit: int
    ) -> tuple[tuple[int, ...], int]:
        """Positions between two of what is in a scope, in order, and up to where was looked: the last of them when
        there may be more, else `through`. Copies of messages in the log of an intent are left out.
        """
        ...

    async def read_positions(self, tenant: str, positions: Sequence[int]) -> tuple[tuple[FeedItem, ...], int]:
        """What is still there at some positions, in order, and up to which: not all of them where it is much text."""
        ...

    async def find_evicted(self, tenant: str, scope: FeedScope, after: int) -> tuple[tuple[str, int], ...]:
        """Channels of a scope of which everything that is kept is after a position, and up to which place they are
        evicted: messages after the position may be among those.
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
        """An intent's log after a sequence number and from a moment on, in order; with `newest` its last ones.

        At most `limit`, and fewer where that would be a lot of text: only an empty answer says that there is no more.
        """
        ...

    async def logged(self, tenant: str, after: int) -> tuple[tuple[str, int], ...]:
        """The intents whose log grew after a position, each with by how many events."""
        ...

    async def events_of_trace(self, tenant: str, trace_id: str, limit: int = 1000) -> tuple[Event, ...]:
        """Events of one trace, over all intents: the first ones, not more than a lot of text."""
        ...

    async def event(self, tenant: str, event_id: str) -> Event | None:
        """One event."""
        ...

    async def entries(self, tenant: str, after: int, limit: int) -> tuple[StoredEntry, ...]:
        """The tenant's ledger after a position."""
        ...

    async def audits(self, tenant: str, query: AuditQuery) -> tuple[AuditEntry, ...]:
        """Entries of the tenant's audit log, in order."""
        ...

    async def audit_counts(self, tenant: str, query: AuditQuery, digits: int) -> tuple[AuditCount, ...]:
        """How many entries match, by the first `digits` characters of their times, outcome and role, in this order."""
        ...

    async def audit_size(self, tenant: str) -> int:
        """How many entries the tenant's audit log has."""
        ...

    async def audit_hashes(self, tenant: str, after: int, through: int) -> tuple[str, ...]:
        """The hashes of the entries after one and up to another, in order: nothing else of them is read."""
        ...

    async def saved(self, scope: str) -> Saved | None:
        """What an idempotency key was used for."""
        ...

    async def newest(self) -> str:
        """The stamp of the newest message, event, ledger entry or idempotency key of all tenants; empty without any."""
        ...

    async def checkpoint(self) -> None:
        """Housekeeping of the store, in the background."""
        ...


class Condition(Protocol):
    """How a store is, and what this server has waiting there."""

    def measured(self, node: Node) -> Node:
        """This node with what only the store knows: its queue, its lag, its connections."""
        ...

    async def report(self) -> StoreReport:
        """How the store is, and the nodes that share it, for people."""
        ...


class Nodes(Condition, Protocol):
    """The servers that share a store: who does what only one of them does, and how they are."""

    async def leads(self, job: str) -> bool:
        """Whether this node is the one that does a job, for the next seconds; ask before each piece of it.

        One that falls silent loses it after `LEASE_SECONDS`. A node may sleep through its own time, so a work must bear
        being done twice: its commits are refused as stale, then.
        """
        ...

    async def heartbeat(self, node: Node) -> float:
        """Say how this node is; one that has not said so for `SILENT_SECONDS` is shown as silent. What time it is for
        the store, in seconds since 1970.
        """
        ...

    async def list_nodes(self) -> tuple[Node, ...]:
        """The nodes as they last said that they are; those that fell silent, too."""
        ...

    async def leave(self, name: str) -> None:
        """This node stops: another has what it led at once, and nobody misses it."""
        ...


class StoreTables(Protocol):
    """A store as plain tables, as of one moment: whoever uses it meanwhile changes nothing of what is read here."""

    async def count(self, table: Table) -> int:
        """How many rows a table has."""
        ...

    async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        """The rows of a table behind a key, in the order of their keys; only an empty answer says that there are none.

        Texts are ordered by their bytes. A page ends with the row that brings it to some megabytes, however many more
        were asked for.
        """
        ...

    async def origin(self) -> str:
        """By what this installation is told from any other, and never changes; empty when nothing was ever done."""
        ...

    async def mark(self, *, now: bool = False) -> StoreMark:
        """Where the store stood at that moment, or stands now."""
        ...


class StoreUse(Protocol):
    """Which servers use a store that is copied, and whether any may start on it."""

    async def servers(self) -> Servers:
        """Which servers use it at this moment."""
        ...

    def hold(self) -> AbstractAsyncContextManager[None]:
        """Let no server start on it for as long as this is held."""
        ...

    async def moved_to(self) -> str:
        """The place that it was moved to: no server starts on it then. Empty when it was not."""
        ...

    async def mark_moved(self, place: str) -> None:
        """Note, durably, that it was moved to a place; with an empty one, that servers may start on it again."""
        ...


class StoreTarget(StoreTables, Protocol):
    """A store that is filled from another one. No server starts on it before it is finished."""

    async def begin(self, origin: str) -> None:
        """Begin, or go on, to fill it from that installation. `Conflict` when it holds anything else, or when a server
        runs on it, or has been there since the copy was finished, or when it was moved elsewhere itself.
        """
        ...

    async def put(self, table: Table, rows: Sequence[Row], gone: Sequence[Key]) -> None:
        """Take away what has these keys, then have these rows; all or nothing.

        A row that has what only one may have gives way: its own turn comes. To a log, rows are only added; an entry of
        the audit log that is there, and comes without its document, loses it.
        """
        ...

    async def finish(self) -> None:
        """All is here, and durable: a server may start on it."""
        ...
