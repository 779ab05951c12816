"""Writing what a transaction decided: one statement for all that is inserted or replaced, then its acts in order.

What most commits need is only that statement (`parley_commit`). Without a transaction around it, it locks the heads,
compares their revisions, writes and commits in one round trip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.adapters.postgres.cache import Note, encode_note
from parley.adapters.postgres.evictor import FORGET, REMOVE
from parley.adapters.postgres.source import UNKNOWN_KEYS
from parley.domain.channel.post import ERASED, NO_PAYLOAD
from parley.domain.directory.callers import ANSWER_ERASED
from parley.domain.store.source import name_key
from parley.domain.store.writes import (
    EraseContent,
    EvictPosts,
    ExpireChannel,
    ExpirePost,
    ExpireRequests,
    ForgetKeys,
    InsertPosts,
    InsertReceipts,
    MovePost,
    TrimAudit,
)
from parley.wire import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import asyncpg

    from parley.adapters.postgres.cache import TenantCache
    from parley.adapters.postgres.source import KnownKeys, PostgresSource
    from parley.domain.channel.post import Post
    from parley.domain.store.changes import TeamChanges
    from parley.domain.store.transaction import Transaction
    from parley.domain.store.writes import Write

    Connection = asyncpg.Connection[asyncpg.Record]
    Columns = list[list[Any]]
    PlacedPost = tuple[int, int, Post]

# The parameters of `parley_commit`: those that messages need; the others have defaults.
_MESSAGE_PARAMETERS, _ALL_PARAMETERS = 47, 91
_COMMIT_MESSAGES, _COMMIT_ALL = (
    f"SELECT * FROM parley_commit({', '.join([f'${number}' for number in range(1, count + 1)])})"
    for count in (_MESSAGE_PARAMETERS, _ALL_PARAMETERS)
)
_IN_ONE_STATEMENT = (InsertPosts, InsertReceipts)
MOVE = "UPDATE post SET number = $3, seq = $4, state = $5, recipients = $6 WHERE id = $2 AND number >> 40 = $1"
_EXPIRE = (
    "UPDATE post SET state = 'expired' WHERE id = $2 AND number >> 40 = $1 AND state <> 'expired' AND NOT answered"
)
_END = (
    "UPDATE post SET state = 'expired' WHERE channel = $1 AND state <> 'expired'"
    " AND (state = 'pending' OR (pattern = 'request' AND NOT answered))"
)
DEPART = (
    "UPDATE post SET state = 'expired' WHERE pattern = 'request' AND NOT answered AND addressee = $2"
    " AND number >> 40 = $1 AND state <> 'expired' AND id <> ALL($3::text[])"
)
# A stored answer repeats what was said; one that is still to be stored stays away, too.
EMPTY_ANSWERS = f"UPDATE saved SET answer = '', status = {ANSWER_ERASED} WHERE scope = ANY($1)"
BLANK = "UPDATE post SET payload = $3, metadata = $4 WHERE id = ANY($1) AND number >> 40 = $2 AND metadata <> $4"
_SEE_ALL_TENANTS = "SELECT set_config('parley.tenants', '*', true)"


class GroupCommit(NamedTuple):
    """The statement that writes a group, its values, its mark, and what the journal says of it, by tenant."""

    statement: str
    values: list[Any]
    mark: str
    notes: dict[str, Note]

    def again(self, wait: int) -> list[Any]:
        """The values for a second call, when nobody knows what became of the first."""
        return [wait, *self.values[1:]]


class TransactionWriter:
    """Writes one transaction: by one statement, or within a transaction that holds the heads already."""

    def __init__(self, transaction: Transaction, source: PostgresSource, caches: dict[str, TenantCache]) -> None:
        self._transaction = transaction
        self._source = source
        self._caches = caches

    @property
    def is_one_statement(self) -> bool:
        """Whether nothing has to be written before or after the one statement."""
        transaction = self._transaction
        channels_change = transaction.new_channels or transaction.gone_channels
        return not channels_change and all(isinstance(act, _IN_ONE_STATEMENT) for act in transaction.writes)

    async def write(self, db: Connection, batch: Sequence[TeamChanges]) -> dict[str, Note]:
        """Write all of it, with the heads locked; what the journal says of it, by tenant."""
        await self._write_channels(db)
        group = self.group(batch)
        if not all(row["written"] for row in await db.fetch(group.statement, *group.values)):
            raise RuntimeError("a head row is not what it was when it was locked")
        for act in self._transaction.writes:
            if not isinstance(act, _IN_ONE_STATEMENT):
                for statement, *values in _statements(act):
                    await db.execute(statement, *values)
        return group.notes

    def group(
        self,
        batch: Sequence[TeamChanges],
        *,
        wait: int = 0,
        mark: str = "",
        keys: KnownKeys = UNKNOWN_KEYS,
        unused: Sequence[str] = (),
    ) -> GroupCommit:
        """The one statement. It waits so many milliseconds for the heads; it writes nothing when other `keys` are known
        by now, or when an idempotency key was used.
        """
        transaction = self._transaction
        notes = self.notes(batch, mark)
        posts, answered = InsertPosts([], [])
        for act in transaction.writes:
            if isinstance(act, InsertPosts):
                posts += act.posts
                answered += act.answered
        saved = [(self._caches[tenant].number, *use) for (tenant, _), use in transaction.saved.items()]
        columns = _columns(16, _post_rows(posts, answered))
        columns += _columns(2, _earlier_requests(posts, answered))
        columns += _columns(8, saved)
        others, unmovable = self._other_columns()
        values = [
            wait,
            mark,
            keys.number,
            keys.revision,
            *self._head_columns(notes, unmovable),
            list(unused),
            *self._tally_columns(),
            *columns,
        ]
        if not any(others):
            return GroupCommit(_COMMIT_MESSAGES, values, mark, notes)
        return GroupCommit(_COMMIT_ALL, values + others, mark, notes)

    # ------------------------------------------------------------------ the values of the statement

    def _head_columns(self, notes: dict[str, Note], unmovable: set[int]) -> Columns:
        """The tenants in the order of their numbers: as they are known, and as they are afterwards."""
        heads = []
        for tenant, note in sorted(notes.items(), key=lambda item: self._caches[item[0]].number):
            cache = self._caches[tenant]
            before = cache.head.position
            position, *ends = note.head
            as_known = (cache.number, cache.revision, before, cache.number not in unmovable)
            heads.append((*as_known, position - before, *ends, encode_note(note)))
        return _columns(9, heads)

    def _tally_columns(self) -> Columns:
        transaction = self._transaction
        tallies = []
        for key, counters in transaction.channel_counters.items():
            if key in transaction.new_channels or key in transaction.gone_channels:
                continue
            before = self._source.counters(*key)
            known_seq = before.seq if before is not None else counters.seq
            kept = self._source.kept_messages(*key) or counters.seq
            tallies.append((counters.number, known_seq, counters.seq, *counters.tally, kept))
        return _columns(7, tallies)

    def _other_columns(self) -> tuple[Columns, set[int]]:
        """What is written beside messages, and the tenants that are decided again when others were there before: their
        rows depend on their positions or on each other.
        """
        transaction = self._transaction
        receipts = [
            (act.tenant, *receipt)
            for act in transaction.writes
            if isinstance(act, InsertReceipts)
            for receipt in dict.fromkeys(act.receipts)
        ]
        entries = [(tenant, at, document.decode(), link) for tenant, at, document, link in transaction.entries]
        released, dropped, put = self._records()
        events = [rows.event_to_row(event, tenant) for tenant, event in transaction.events]
        audits = [(tenant << rows.SHIFT | entry.number, *entry[1:]) for tenant, entry in transaction.audits]
        budgets = [(self._caches[key[0]].number, key[1], key[2], spent) for key, spent in transaction.budgets.items()]
        unmovable = {row[0] for table in (entries, dropped, released, put, budgets) for row in table}
        unmovable |= {row[0] >> rows.SHIFT for table in (events, audits) for row in table}
        columns = _columns(4, receipts) + _columns(4, entries) + _columns(3, dropped) + _columns(3, released)
        columns += _columns(8, put) + _columns(10, events) + _columns(8, audits) + _columns(4, budgets)
        return columns, unmovable

    def _records(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Records that lose their name, that go, and that are put."""
        transaction = self._transaction
        released, dropped, put = [], [], []
        for key, record in transaction.records.items():
            before = transaction.before[key]
            number = self._caches[key[0]].number
            if record is None:
                if before is not None:
                    dropped.append((number, *key[1:]))
                continue
            if before is not None and before.name and name_key(before) != name_key(record):
                released.append((number, *key[1:]))
            put.append((number, *rows.record_to_row(record, record.version)[1:]))
        return released, dropped, put

    def notes(self, batch: Sequence[TeamChanges], mark: str = "") -> dict[str, Note]:
        """What the journal says of it, by tenant."""
        transaction = self._transaction
        moved = transaction.moved_generations
        notes = {
            tenant: Note(transaction.head(tenant)[1:], moves_generation=tenant in moved, mark=mark)
            for tenant in self._caches
        }
        for tenant, kind, record_id in transaction.records:
            notes[tenant].records.append((kind, record_id))
        for tenant, channel_id in dict.fromkeys((*transaction.channel_counters, *transaction.gone_channels)):
            notes[tenant].channels.append(channel_id)
            counters = transaction.channel_counters.get((tenant, channel_id))
            if (
                counters is not None
                and (tenant, channel_id) not in transaction.gone_channels - transaction.new_channels
            ):
                count, last_at, floor = counters.tally
                at = (counters.number, counters.intent_id, counters.seq, count, last_at, floor)
                notes[tenant].channel_counters[channel_id] = at
        for changes in batch:
            note = notes[changes.tenant]
            note.ended += changes.ended + changes.purges
            note.departed += changes.departed
            note.others = note.others or bool(
                changes.audits or changes.events or changes.spends or changes.forget_before or changes.purges
            )
        return notes

    async def _write_channels(self, db: Connection) -> None:
        """Those that go first: one of the same name may come."""
        transaction = self._transaction
        if transaction.gone_channels:
            ids = [(self._caches[tenant].number, channel_id) for tenant, channel_id in transaction.gone_channels]
            await db.executemany("DELETE FROM tally WHERE tenant = $1 AND id = $2", ids)
        new = [
            (
                transaction.channel_counters[key].number,
                self._caches[key[0]].number,
                key[1],
                *transaction.channel_counters[key][1:],
            )
            for key in transaction.new_channels
        ]
        if new:
            await db.executemany(
                "INSERT INTO tally (number, tenant, id, intent, seq, count, last_at, floor)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                [(*channel[:5], *channel[5]) for channel in new],
            )


def _statements(act: Write) -> Iterable[tuple[Any, ...]]:
    match act:
        case MovePost(tenant, post):
            place = (tenant << rows.SHIFT | post.position, post.seq)
            yield MOVE, tenant, post.id, *place, post.state.value, rows.joined(post.recipients)
        case ExpirePost(tenant, message_id):
            yield _EXPIRE, tenant, message_id
        case ExpireChannel(channel):
            yield _END, channel
        case ExpireRequests(tenant, agent, handed_on):
            yield DEPART, tenant, agent, list(handed_on)
        case EvictPosts(tenant, channel, floor, purge):
            yield REMOVE, channel, floor, purge, tenant
        case EraseContent(tenant, messages):
            yield EMPTY_ANSWERS, [scope for message in messages for scope in message.scopes]
            yield BLANK, [message.message_id for message in messages], tenant, NO_PAYLOAD, ERASED
        case TrimAudit(tenant, through):
            low = tenant << rows.SHIFT
            yield "UPDATE audit SET document = '' WHERE place BETWEEN $1 AND $2 AND document <> ''", low, low | through
        case ForgetKeys(before):
            yield (_SEE_ALL_TENANTS,)  # budgets are every tenant's; it stands alone in its transaction
            yield FORGET, before  # a piece of it; the rest goes beside the commits
            yield "DELETE FROM budget WHERE span <> '' AND span < $1", before


def _columns(width: int, table_rows: Sequence[Sequence[Any]]) -> Columns:
    """Rows as columns: an array for each parameter."""
    return [list(column) for column in zip(*table_rows, strict=True)] if table_rows else [[] for _ in range(width)]


def _post_rows(posts: list[PlacedPost], answered: list[tuple[int, str]]) -> list[tuple[Any, ...]]:
    """Messages as rows. Whether one is answered within the transaction is said here: no statement sees its own rows."""
    if not answered:
        return [rows.post_to_row(post, tenant, channel) for tenant, channel, post in posts]
    ids = {message_id for _, message_id in answered}
    return [
        rows.post_to_row(post._replace(answered=post.answered or post.id in ids), tenant, channel)
        for tenant, channel, post in posts
    ]


def _earlier_requests(posts: list[PlacedPost], answered: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The requests that are answered and not said here."""
    own = {post.id for _, _, post in posts} if answered else ()
    return [(tenant, message_id) for tenant, message_id in answered if message_id not in own]
