"""The state that a transaction reads, loaded for all its commits at once under the lock of the head rows.

What is known of a tenant is true, because the journal was read after the lock was taken; only the rest is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.adapters.postgres.cache import UNKNOWN
from parley.domain.audit.entry import SideHead
from parley.domain.channel.channel import Channel, Tally
from parley.domain.channel.post import ERASED, PostState
from parley.domain.directory.callers import NO_TENANT
from parley.domain.store.source import FREE, ChannelCounters, name_key
from parley.wire import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parley.adapters.postgres.cache import TenantCache
    from parley.adapters.postgres.journal import Fetch
    from parley.domain.channel.post import Post
    from parley.domain.record import Record
    from parley.domain.store.changes import ErasableMessage, TeamChanges
    from parley.domain.store.source import BudgetKey, Head, LogEnd, NameKey, RecordKey, SideKey

COUNTERS = "tally.number, tally.intent, tally.seq, tally.count, tally.last_at, tally.floor"
_OPEN_REQUESTS = (
    "SELECT id FROM post WHERE id = ANY($1) AND pattern = 'request' AND NOT answered AND state <> 'expired'"
    " AND number BETWEEN $2 AND $3"
)
_IN_CONVERSATION = "SELECT 1 FROM record WHERE tenant = $1 AND kind = 'exchange' AND parent = $2 LIMIT 1"
_BY_TWO = "unnest($1::bigint[], $2::text[]) AS wanted (tenant, {})"
# Held until they are blanked: evicted messages are removed beside the commits. In order, as there.
UNERASED = "SELECT 1 FROM post WHERE id = ANY($1) AND number >> 40 = $2 AND metadata <> $3 ORDER BY number FOR UPDATE"


class KnownKeys(NamedTuple):
    """What the node knows of the keys when it decides: the row number of their tenant, its revision and generation.

    The commit compares the revision. Without a row number they are not known: whoever was admitted by them is again.
    """

    number: int = 0
    revision: int = 0
    generation: int = 0


UNKNOWN_KEYS = KnownKeys()


class PostgresSource:
    """See `domain.store.source.TransactionSource`: what was asked for, and what is known.

    What is known is noted when it is looked for: it may be forgotten while the rest is asked for.
    """

    def __init__(
        self, caches: dict[str, TenantCache], kinds: dict[str, type[Record]], keys: KnownKeys = UNKNOWN_KEYS
    ) -> None:
        self._caches = caches
        self._kinds = kinds
        self._keys = keys
        self._records: dict[RecordKey, Record | None] = {}
        self._channel_counters: dict[tuple[str, str], ChannelCounters] = {}
        self._sides: dict[SideKey, SideHead] = {}
        self._logs: dict[tuple[str, str], LogEnd] = {}
        self._budgets: dict[BudgetKey, int] = {}
        self._names: dict[NameKey, str] = {}
        self._conversations: set[tuple[str, str]] = set()
        self._saved: set[str] = set()
        self._pending: dict[tuple[str, str], Post] = {}
        self._open: set[tuple[str, str]] = set()
        self._unerased = 0
        self._numbers: list[int] = []

    # ------------------------------------------------------------------ asking

    async def load(self, batch: Sequence[TeamChanges], fetch: Fetch, *, keys_are_checked: bool = False) -> None:
        """Load everything that these commits need and that is not cached. Who lets the commit itself check that
        idempotency keys are unused need not ask for them.
        """
        await self._load_records(batch, fetch)
        await self._load_names(batch, fetch)
        await self._load_places(batch, fetch)
        await self._load_chains(batch, fetch)
        scopes = reserved_keys(batch)
        if scopes and not keys_are_checked:
            result = await fetch("SELECT scope FROM saved WHERE scope = ANY($1)", scopes)
            self._saved = {row[0] for row in result}
        new = sum(
            1 for changes in batch for record in changes.puts if isinstance(record, Channel) and not record.version
        )
        if new:
            query = "SELECT nextval(pg_get_serial_sequence('tally', 'number')) FROM generate_series(1, $1)"
            self._numbers = [row[0] for row in await fetch(query, new)]
        for changes in batch:
            if changes.moved:
                await self._load_pending(changes, fetch)
            if changes.open_requests:
                low = self._caches[changes.tenant].number << rows.SHIFT
                found = await fetch(_OPEN_REQUESTS, list(changes.open_requests), low, low | rows.MASK)
                self._open |= {(changes.tenant, row[0]) for row in found}
            for conversation_id in changes.new_conversations:
                if await fetch(_IN_CONVERSATION, self._caches[changes.tenant].number, conversation_id):
                    self._conversations.add((changes.tenant, conversation_id))
            if changes.erase:
                ids = [message.message_id for message in changes.erase]
                result = await fetch(UNERASED, ids, self._caches[changes.tenant].number, ERASED)
                self._unerased = len(result)

    async def _load_records(self, batch: Sequence[TeamChanges], fetch: Fetch) -> None:
        keys: dict[RecordKey, None] = {}
        # Where no record changes in this transaction, a ground of the same generation holds without a look at it.
        changes_records = any(changes.puts or changes.drops for changes in batch)
        for changes in batch:
            tenant = changes.tenant
            ground = changes.ground
            if ground is not None and (changes_records or ground.generation != self.generation(tenant)):
                for expect in ground.expects:
                    keys[tenant, expect.kind, expect.id] = None
            for expect in changes.expects:
                keys[tenant, expect.kind, expect.id] = None
            for record in (*changes.puts, *changes.drops):
                keys[record.tenant_id, record.kind, record.id] = None
            for post in changes.posts:
                keys[tenant, Channel.kind, post.channel_id] = None
            for channel_id in (*changes.ended, *changes.purges):
                keys[tenant, Channel.kind, channel_id] = None
        unknown = []
        for key in keys:
            cached = self._caches[key[0]].records.get(key, UNKNOWN)
            if cached is UNKNOWN:
                unknown.append(key)
            else:
                self._records[key] = cached  # type: ignore[assignment]  # the key says its type
        if not unknown:
            return
        query = (
            "SELECT wanted.place, version, document FROM record"
            " JOIN unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted (tenant, kind, id, place)"
            " ON record.tenant = wanted.tenant AND record.kind = wanted.kind AND record.id = wanted.id"
        )
        columns = [[self._caches[key[0]].number for key in unknown], [key[1] for key in unknown]]
        record_rows = {row[0]: row for row in await fetch(query, *columns, [key[2] for key in unknown])}
        for place, key in enumerate(unknown, 1):
            row = record_rows.get(place)
            current = rows.record_from_row(self._kinds[key[1]], row[1], row[2]) if row is not None else None
            self._records[key] = current
            self._caches[key[0]].put(key, current)

    async def _load_names(self, batch: Sequence[TeamChanges], fetch: Fetch) -> None:
        keys: dict[NameKey, None] = {}
        for changes in batch:
            for record in changes.puts:
                before = self.record((record.tenant_id, record.kind, record.id))
                name = name_key(record)
                if name[3] and (before is None or name_key(before) != name):
                    keys[name] = None
        if not keys:
            return
        query = (
            "SELECT wanted.place, record.id FROM record"
            " JOIN unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY"
            " AS wanted (tenant, kind, parent, name, place) ON record.tenant = wanted.tenant"
            " AND record.kind = wanted.kind AND record.parent = wanted.parent AND record.name = wanted.name"
            " WHERE record.name <> ''"
        )
        names = list(keys)
        columns = [[name[at] for name in names] for at in (1, 2, 3)]
        holder_rows = await fetch(query, [self._caches[name[0]].number for name in names], *columns)
        self._names = {names[row[0] - 1]: row[1] for row in holder_rows}

    async def _load_places(self, batch: Sequence[TeamChanges], fetch: Fetch) -> None:
        keys: dict[tuple[str, str], None] = {}
        for changes in batch:
            channels = [post.channel_id for post in changes.posts]
            channels += [record.id for record in changes.puts if isinstance(record, Channel) and record.version]
            for channel_id in (*channels, *changes.ended, *changes.purges):
                keys[changes.tenant, channel_id] = None
        unknown = []
        for key in keys:
            counters = self._caches[key[0]].channel_counters.get(key[1])
            if counters is None:
                unknown.append(key)
            else:
                self._channel_counters[key] = counters
        if not unknown:
            return
        query = (
            f"SELECT tally.id, {COUNTERS}, tally.tenant FROM tally JOIN {_BY_TWO.format('id')}"
            " ON tally.tenant = wanted.tenant AND tally.id = wanted.id"
        )
        numbers = [self._caches[key[0]].number for key in unknown]
        by_number = {cache.number: cache for cache in self._caches.values()}
        for row in await fetch(query, numbers, [key[1] for key in unknown]):
            cache = by_number[row[7]]
            cache.channel_counters[row[0]] = self._channel_counters[cache.id, row[0]] = counters_from_row(row[1:7])

    async def _load_chains(self, batch: Sequence[TeamChanges], fetch: Fetch) -> None:
        sides = {(changes.tenant, draft.side) for changes in batch for draft in changes.audits}
        self._sides = {key: side_head for key in sides if (side_head := self._caches[key[0]].sides.get(key[1]))}
        unknown = [key for key in sides if key not in self._sides]
        if unknown:
            query = (
                f"SELECT wanted.tenant, wanted.side, last.seq, last.hash FROM {_BY_TWO.format('side')}"
                " CROSS JOIN LATERAL (SELECT seq, hash FROM audit WHERE place >> 40 = wanted.tenant"
                " AND side = wanted.side ORDER BY seq DESC LIMIT 1) AS last"
            )
            heads = {(row[0], row[1]): SideHead(row[2], row[3]) for row in await fetch(query, *self._columns(unknown))}
            for tenant, side in unknown:
                cache = self._caches[tenant]
                cache.sides[side] = self._sides[tenant, side] = heads.get((cache.number, side), SideHead())
        logs = {(changes.tenant, draft.intent_id) for changes in batch for draft in changes.events}
        self._logs = {key: end for key in logs if (end := self._caches[key[0]].logs.get(key[1]))}
        unknown = [key for key in logs if key not in self._logs]
        if unknown:
            query = (
                f"SELECT wanted.tenant, wanted.intent, last.sequence, last.hash FROM {_BY_TWO.format('intent')}"
                " CROSS JOIN LATERAL (SELECT sequence, hash FROM event WHERE intent_id = wanted.intent"
                " AND number >> 40 = wanted.tenant ORDER BY sequence DESC LIMIT 1) AS last"
            )
            ends = {(row[0], row[1]): (row[2], row[3]) for row in await fetch(query, *self._columns(unknown))}
            for tenant, intent in unknown:
                cache = self._caches[tenant]
                cache.logs[intent] = self._logs[tenant, intent] = ends.get((cache.number, intent), (0, ""))
        await self._load_budgets(batch, fetch)

    def _columns(self, keys: Iterable[tuple[str, str]]) -> tuple[list[int], list[str]]:
        return [self._caches[tenant].number for tenant, _ in keys], [name for _, name in keys]

    async def _load_budgets(self, batch: Sequence[TeamChanges], fetch: Fetch) -> None:
        budgets = {(changes.tenant, spend.key, spend.window) for changes in batch for spend in changes.spends}
        cached = {key: self._caches[key[0]].budgets.get(key) for key in budgets}
        self._budgets = {key: spent for key, spent in cached.items() if spent is not None}
        unknown = [key for key in budgets if key not in self._budgets]
        if not unknown:
            return
        query = (
            "SELECT wanted.place, spent FROM budget"
            " JOIN unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted (tenant, key, span, place)"
            " ON budget.tenant = wanted.tenant AND budget.key = wanted.key AND budget.span = wanted.span"
        )
        numbers = [self._caches[key[0]].number for key in unknown]
        spent_by_place = {
            row[0]: row[1] for row in await fetch(query, numbers, [key[1] for key in unknown], [k[2] for k in unknown])
        }
        for place, key in enumerate(unknown, 1):
            self._caches[key[0]].budgets[key] = self._budgets[key] = spent_by_place.get(place, 0)

    async def _load_pending(self, changes: TeamChanges, fetch: Fetch) -> None:
        ids = [move.message_id for move in changes.moved if move.state is not PostState.EXPIRED]
        if not ids:
            return
        cache = self._caches[changes.tenant]
        low = cache.number << rows.SHIFT
        query = (
            f"SELECT {rows.POST}, {COUNTERS} FROM post JOIN tally ON tally.number = post.channel"
            " WHERE post.id = ANY($1)"
            " AND state = 'pending' AND post.seq > tally.floor AND post.number BETWEEN $2 AND $3"
        )
        for row in await fetch(query, ids, low, low | rows.MASK):
            post = rows.post_from_row(row)
            self._pending[changes.tenant, post.id] = post
            self._channel_counters.setdefault((changes.tenant, post.channel_id), counters_from_row(row[17:23]))

    # ------------------------------------------------------------------ answering

    def kept_messages(self, tenant: str, channel_id: str) -> int:
        """How many messages a channel keeps; 0 when nothing was said in it, so that nobody asked."""
        channel = self._records.get((tenant, Channel.kind, channel_id))
        return channel.options.max_messages if isinstance(channel, Channel) else 0

    def head(self, tenant: str) -> Head:
        return self._caches[tenant].head

    def record(self, key: RecordKey) -> Record | None:
        return self._records[key]

    def generation(self, tenant: str) -> int:
        cache = self._caches.get(tenant)
        if cache is None:
            return self._keys.generation if tenant == NO_TENANT else 0
        return cache.generation

    def holder(self, name: NameKey) -> str:
        return self._names.get(name, FREE)

    def has_exchange(self, tenant: str, conversation_id: str) -> bool:
        return (tenant, conversation_id) in self._conversations

    def counters(self, tenant: str, channel_id: str) -> ChannelCounters | None:
        return self._channel_counters.get((tenant, channel_id))

    def new_channel(self) -> int:
        return self._numbers.pop()

    def side(self, key: SideKey) -> SideHead:
        return self._sides[key]

    def spent(self, key: BudgetKey) -> int:
        return self._budgets[key]

    def is_saved(self, tenant: str, scope: str) -> bool:
        del tenant  # a scope is a hash over it, too
        return scope in self._saved

    def log_end(self, tenant: str, intent_id: str) -> LogEnd:
        return self._logs[tenant, intent_id]

    def pending(self, tenant: str, message_id: str) -> Post | None:
        return self._pending.get((tenant, message_id))

    def is_open(self, tenant: str, request_id: str) -> bool:
        return (tenant, request_id) in self._open

    def unerased(self, tenant: str, messages: tuple[ErasableMessage, ...]) -> int:
        del tenant, messages  # only one commit of a transaction asks for it
        return self._unerased


def reserved_keys(batch: Sequence[TeamChanges]) -> list[str]:
    """The idempotency keys that these commits use, and that nobody may have used before."""
    return [changes.saved.scope for changes in batch if changes.saved is not None and not changes.saved.answer]


def counters_from_row(row: Iterable[Any]) -> ChannelCounters:
    number, intent, seq, count, last_at, floor = row
    return ChannelCounters(number, intent, seq, Tally(count, last_at, floor))
