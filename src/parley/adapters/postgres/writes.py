"""Writing what a transaction decided: its acts in order, then everything else with one statement a table.

What a usual message needs is one statement in all: each one is a way to the database and back, while others wait for
the head row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.adapters.postgres.cache import Note, encode_note
from parley.adapters.postgres.evictor import FORGET, REMOVE
from parley.domain.audit.entry import COLUMNS
from parley.domain.channel.post import ERASED, NO_PAYLOAD
from parley.domain.directory.callers import ANSWER_ERASED
from parley.domain.store.transaction import name_key
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
    from parley.domain.store.changes import TeamChanges
    from parley.domain.store.transaction import Transaction
    from parley.domain.store.writes import Write

    Connection = asyncpg.Connection[asyncpg.Record]
    Columns = list[list[Any]]

_POST = [*["bigint"] * 3, *["text"] * 9, "boolean", "bytea", "bytea", "text"]
_COMBINED_WRITE = f"""
WITH said AS (INSERT INTO post SELECT * FROM unnest({", ".join(f"${n}::{kind}[]" for n, kind in enumerate(_POST, 1))})),
answered AS (
    UPDATE post SET answered = true FROM unnest($17::bigint[], $18::text[]) AS one (tenant, id)
    WHERE post.id = one.id AND post.number >> 40 = one.tenant AND NOT answered
),
counted AS (
    UPDATE tally SET count = one.count, seq = one.seq, last_at = one.last_at, floor = one.floor
    FROM unnest($19::bigint[], $20::bigint[], $21::bigint[], $22::text[], $23::bigint[])
        AS one (number, count, seq, last_at, floor)
    WHERE tally.number = one.number
),
kept AS (
    INSERT INTO saved
    SELECT * FROM unnest($24::text[], $25::text[], $26::text[], $27::text[], $28::text[], $29::integer[], $30::bytea[])
    ON CONFLICT (scope) DO UPDATE SET fingerprint = excluded.fingerprint, made = excluded.made, at = excluded.at,
        message_id = CASE excluded.message_id WHEN '' THEN saved.message_id ELSE excluded.message_id END,
        status = excluded.status, answer = excluded.answer
        WHERE saved.status <> {ANSWER_ERASED}
),
booked AS (INSERT INTO entry SELECT * FROM unnest($31::bigint[], $32::bigint[], $33::text[], $34::bytea[])),
moved AS (
    UPDATE tenant SET head = one.head, revision = one.revision, entry_position = one.entry_position,
        entry_link = one.entry_link, audit_number = one.audit_number
    FROM unnest($35::bigint[], $36::bigint[], $37::bigint[], $38::bigint[], $39::bytea[], $40::bigint[])
        AS one (number, head, revision, entry_position, entry_link, audit_number)
    WHERE tenant.number = one.number
)
INSERT INTO journal (tenant, revision, document) SELECT * FROM unnest($35::bigint[], $37::bigint[], $41::bytea[])
"""
_APPEND_AUDIT = (
    f"INSERT INTO audit (place, {', '.join(COLUMNS)})"
    f" VALUES ({', '.join([f'${place}' for place in range(1, len(COLUMNS) + 2)])})"
)
_PUT = (
    "INSERT INTO record SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[],"
    " $6::text[], $7::text[], $8::bytea[]) ON CONFLICT (tenant, kind, id) DO UPDATE SET version = excluded.version,"
    " parent = excluded.parent, name = excluded.name, due = excluded.due, document = excluded.document"
)
_RELEASE = (
    "UPDATE record SET name = '' FROM unnest($1::bigint[], $2::text[], $3::text[]) AS one (tenant, kind, id)"
    " WHERE record.tenant = one.tenant AND record.kind = one.kind AND record.id = one.id"
)
_DROP = (
    "DELETE FROM record USING unnest($1::bigint[], $2::text[], $3::text[]) AS one (tenant, kind, id)"
    " WHERE record.tenant = one.tenant AND record.kind = one.kind AND record.id = one.id"
)
_SPEND = (
    "INSERT INTO budget SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])"
    " ON CONFLICT (tenant, key, span) DO UPDATE SET spent = excluded.spent"
)
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


class TransactionWriter:
    """Writes one transaction over its connection."""

    def __init__(self, connection: Connection, transaction: Transaction, caches: dict[str, TenantCache]) -> None:
        self._db = connection
        self._transaction = transaction
        self._caches = caches

    async def write(self, batch: Sequence[TeamChanges]) -> dict[str, Note]:
        """Write all of it; what the journal says of it, by tenant."""
        await self._write_channels()
        await self._write_records()
        await self._write_logs()
        acts = self._transaction.writes
        last = acts[-1] if acts else None
        # What was said goes with the rest, unless something has to come after it.
        insert_posts = last if isinstance(last, InsertPosts) else InsertPosts([], [])
        for act in acts[:-1] if last is insert_posts else acts:
            await self._apply(act)
        notes = self._notes(batch)
        await self._db.execute(_COMBINED_WRITE, *self._combined_values(insert_posts, notes))
        return notes

    # ------------------------------------------------------------------ the usual

    def _combined_values(self, insert_posts: InsertPosts, notes: dict[str, Note]) -> list[list[Any]]:
        transaction = self._transaction
        columns = _columns(16, _post_rows(insert_posts))
        columns += _columns(2, _earlier_requests(insert_posts))
        changed = [
            (counters.number, counters.tally.total, counters.seq, counters.tally.last_at, counters.tally.floor)
            for key, counters in transaction.channel_counters.items()
            if key not in transaction.new_channels and key not in transaction.gone_channels
        ]
        columns += _columns(5, changed)
        columns += _columns(7, list(transaction.saved.values()))
        columns += _columns(
            4, [(tenant, at, document.decode(), link) for tenant, at, document, link in transaction.entries]
        )
        heads = []
        for tenant, note in notes.items():
            cache = self._caches[tenant]
            position, entry_position, entry_link, audit_number = note.head
            heads.append(
                (
                    cache.number,
                    position,
                    cache.revision + 1,
                    entry_position,
                    entry_link,
                    audit_number,
                    encode_note(note),
                )
            )
        return columns + _columns(7, heads)

    def _notes(self, batch: Sequence[TeamChanges]) -> dict[str, Note]:
        transaction = self._transaction
        notes = {tenant: Note(transaction.head(tenant)[1:]) for tenant in self._caches}
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

    # ------------------------------------------------------------------ records, logs, chains

    async def _write_channels(self) -> None:
        """Those that go first: one of the same name may come."""
        transaction = self._transaction
        if transaction.gone_channels:
            ids = [(self._caches[tenant].number, channel_id) for tenant, channel_id in transaction.gone_channels]
            await self._db.executemany("DELETE FROM tally WHERE tenant = $1 AND id = $2", ids)
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
            await self._db.executemany(
                "INSERT INTO tally (number, tenant, id, intent, seq, count, last_at, floor)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                [(*channel[:5], *channel[5]) for channel in new],
            )

    async def _write_records(self) -> None:
        """Write records. Names are released first: another record may take them in the same transaction."""
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
        if dropped:
            await self._db.execute(_DROP, *_columns(3, dropped))
        if released:
            await self._db.execute(_RELEASE, *_columns(3, released))
        if put:
            await self._db.execute(_PUT, *_columns(8, put))

    async def _write_logs(self) -> None:
        transaction = self._transaction
        if transaction.events:
            await self._db.executemany(
                "INSERT INTO event VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                [rows.event_to_row(event, tenant) for tenant, event in transaction.events],
            )
        if transaction.audits:
            await self._db.executemany(
                _APPEND_AUDIT,
                [(tenant << rows.SHIFT | entry.number, *entry[1:]) for tenant, entry in transaction.audits],
            )
        if transaction.budgets:
            spent = [(self._caches[key[0]].number, key[1], key[2], spent) for key, spent in transaction.budgets.items()]
            await self._db.execute(_SPEND, *_columns(4, spent))

    # ------------------------------------------------------------------ acts

    async def _apply(self, act: Write) -> None:
        db = self._db
        match act:
            case InsertPosts():
                marks = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(_POST, 1))
                await db.execute(f"INSERT INTO post SELECT * FROM unnest({marks})", *_columns(16, _post_rows(act)))
                await db.executemany(
                    "UPDATE post SET answered = true WHERE number >> 40 = $1 AND id = $2 AND NOT answered",
                    _earlier_requests(act),
                )
            case MovePost(tenant, post):
                await db.execute(
                    "UPDATE post SET number = $3, seq = $4, state = $5, recipients = $6"
                    " WHERE id = $2 AND number >> 40 = $1",
                    tenant,
                    post.id,
                    tenant << rows.SHIFT | post.position,
                    post.seq,
                    post.state.value,
                    rows.joined(post.recipients),
                )
            case InsertReceipts(tenant, receipts):
                await db.executemany(
                    "INSERT INTO receipt VALUES ($1, $2, $3, $4) ON CONFLICT (post_id, agent) DO NOTHING",
                    [(tenant, *receipt) for receipt in receipts],
                )
            case _:
                for statement, *values in _statements(act):
                    await db.execute(statement, *values)


def _statements(act: Write) -> Iterable[tuple[Any, ...]]:
    match act:
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


def _post_rows(insert_posts: InsertPosts) -> list[tuple[Any, ...]]:
    """Messages as rows. Whether one is answered within the transaction is said here: no statement sees its own rows."""
    answered = {message_id for _, message_id in insert_posts.answered}
    return [
        rows.post_to_row(post._replace(answered=post.answered or post.id in answered), tenant, channel)
        for tenant, channel, post in insert_posts.posts
    ]


def _earlier_requests(insert_posts: InsertPosts) -> list[tuple[int, str]]:
    """The requests that are answered and not said here."""
    own = {post.id for _, _, post in insert_posts.posts}
    return [(tenant, message_id) for tenant, message_id in insert_posts.answered if message_id not in own]
