"""The state that a transaction reads: from the cache where possible, new records in one query.

Each statement lets go of the interpreter and has to wait for it again, so few of them are made. All questions come
before anything is written: so whatever the answer is, it is known from then on, whatever becomes of the transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.adapters.sqlite.team import audit as team_audit
from parley.adapters.sqlite.team import erase as team_erase
from parley.adapters.sqlite.team import records as team_records
from parley.adapters.sqlite.team.cache import UNKNOWN
from parley.domain.channel.channel import Tally
from parley.domain.mailbox.ledger import GENESIS
from parley.domain.store.source import FREE, ChannelCounters, Head, name_key
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3

    from parley.adapters.sqlite.team.cache import StoreCache
    from parley.domain.audit.entry import SideHead
    from parley.domain.channel.post import Post
    from parley.domain.record import Record
    from parley.domain.store.changes import ErasableMessage, TeamChanges
    from parley.domain.store.source import BudgetKey, LogEnd, NameKey, RecordKey, SideKey

# A channel's number is on its messages, so one that any message has is not given again.
_LAST_CHANNEL = "SELECT MAX(IFNULL((SELECT MAX(number) FROM tally), 0), IFNULL((SELECT MAX(channel) FROM post), 0))"

_KEYS_LIMIT = 64


class SqliteSource:
    """See `TransactionSource`. One for each transaction, in the thread of the writer."""

    def __init__(self, db: sqlite3.Connection, cache: StoreCache) -> None:
        self._db = db
        self._cache = cache
        self._names: dict[NameKey, str] = {}
        # Whether a tenant's conversation has an exchange.
        self._conversations: dict[tuple[str, str], bool] = {}
        # Whether a key was used before.
        self._keys: dict[str, bool] = {}
        # Tenants that begin with this transaction: nothing is known of them until it is durable.
        self.new_heads: dict[str, Head] = {}

    def preload(self, batch: list[TeamChanges]) -> None:
        """Find out about everything new of a transaction at once: keys that were used, records and names."""
        self._find_keys([changes.saved.scope for changes in batch if changes.saved is not None])
        if named := [(changes.tenant, name) for changes in batch for name in changes.new_conversations]:
            self._find_conversations(named)
        new = [record for changes in batch if changes.puts for record in changes.puts if not record.version]
        if len(new) < 2:  # then it is as cheap to ask when it is needed
            return
        records = self._cache.records
        keys = [key for record in new if (key := (record.tenant_id, record.kind, record.id)) not in records]
        for absent in set(keys) - team_records.present(self._db, keys):
            records[absent] = None
        names = [name for record in new if (name := name_key(record))[3]]
        self._names.update(dict.fromkeys(names, FREE))
        self._names.update(team_records.holders(self._db, names))

    def _find_keys(self, scopes: list[str]) -> None:
        for start in range(0, len(scopes), _KEYS_LIMIT):
            chunk = scopes[start : start + _KEYS_LIMIT]
            self._keys.update(dict.fromkeys(chunk, False))
            used = self._db.execute(f"SELECT scope FROM saved WHERE scope IN ({', '.join('?' * len(chunk))})", chunk)
            self._keys.update({scope: True for (scope,) in used})

    def _find_conversations(self, conversations: list[tuple[str, str]]) -> None:
        self._conversations.update(dict.fromkeys(conversations, False))
        self._conversations.update(dict.fromkeys(team_records.with_exchanges(self._db, conversations), True))

    def head(self, tenant: str) -> Head:
        """Where the tenant stands; a new one begins."""
        head = self._cache.heads.get(tenant) or self.new_heads.get(tenant)
        if head is None:
            query = "SELECT number, head, entry_position, entry_link, audit_number FROM tenant WHERE id = ?"
            row = self._db.execute(query, (tenant,)).fetchone()
            if row is not None:
                head = self._cache.heads[tenant] = Head(*row)
                return head
            insert = "INSERT INTO tenant (id, head, entry_position, entry_link) VALUES (?, 0, 0, ?)"
            number = self._db.execute(insert, (tenant, GENESIS)).lastrowid
            head = self.new_heads[tenant] = Head(number or 0, 0, 0, GENESIS)
        return head

    def record(self, key: RecordKey) -> Record | None:
        """A record."""
        record = self._cache.records.get(key, UNKNOWN)  # in one step, because the event loop adds to it meanwhile
        if record is UNKNOWN:
            query = "SELECT version, document FROM record WHERE tenant = ? AND kind = ? AND id = ?"
            row = self._db.execute(query, key).fetchone()
            record = self._cache.records[key] = rows.record_from_row(self._cache.kinds[key[1]], *row) if row else None
        return record  # type: ignore[return-value]  # what is known is a record

    def generation(self, tenant: str) -> int:
        """The generation of the tenant's records."""
        return self._cache.generations.get(tenant, 1)

    def holder(self, name: NameKey) -> str:
        """The id of the record that has a name, or `FREE`."""
        record_id = self._names.get(name)
        if record_id is None:
            query = "SELECT id FROM record WHERE tenant = ? AND kind = ? AND parent = ? AND name = ? AND name <> ''"
            row = self._db.execute(query, name).fetchone()
            record_id = self._names[name] = row[0] if row else FREE
        return record_id

    def has_exchange(self, tenant: str, conversation_id: str) -> bool:
        """Whether a conversation has an exchange."""
        key = (tenant, conversation_id)
        if key not in self._conversations:
            self._find_conversations([key])
        return self._conversations[key]

    def counters(self, tenant: str, channel_id: str) -> ChannelCounters | None:
        """A channel's counters."""
        key = (tenant, channel_id)
        counters = self._cache.channel_counters.get(key)
        if counters is None:
            query = "SELECT number, intent, seq, count, last_at, floor FROM tally WHERE tenant = ? AND id = ?"
            row = self._db.execute(query, key).fetchone()
            if row is None:
                return None
            counters = self._cache.channel_counters[key] = ChannelCounters(row[0], row[1], row[2], Tally(*row[3:]))
        return counters

    def new_channel(self) -> int:
        """The number of a channel that begins now."""
        if not self._cache.last_channel:
            self._cache.last_channel = int(self._db.execute(_LAST_CHANNEL).fetchone()[0])
        self._cache.last_channel += 1
        return self._cache.last_channel

    def side(self, key: SideKey) -> SideHead:
        """Where a side's audit chain ends."""
        side = self._cache.sides.get(key)
        if side is None:
            tenant, name = key
            side = self._cache.sides[key] = team_audit.side_head(self._db, self.head(tenant).tenant_row, name)
        return side

    def spent(self, key: BudgetKey) -> int:
        """How much of a budget is spent."""
        spent = self._cache.budgets.get(key)
        if spent is None:
            spent = self._cache.budgets[key] = team_audit.spent(self._db, key)
        return spent

    def is_saved(self, tenant: str, scope: str) -> bool:
        """Whether an idempotency key was used. The scope names the tenant."""
        del tenant
        if scope not in self._keys:
            self._find_keys([scope])
        return self._keys[scope]

    def log_end(self, tenant: str, intent_id: str) -> LogEnd:
        """Where an intent's log ends. No two tenants have an intent of one id."""
        del tenant
        query = "SELECT sequence, hash FROM event WHERE intent_id = ? ORDER BY sequence DESC LIMIT 1"
        return self._db.execute(query, (intent_id,)).fetchone() or (0, "")

    def pending(self, tenant: str, message_id: str) -> Post | None:
        """A message that had no receiver yet, and that is still kept."""
        query = (
            f"SELECT {rows.POST} FROM post JOIN tally ON tally.number = post.channel"
            " WHERE post.id = ? AND state = 'pending' AND post.seq > tally.floor"
        )
        row = self._db.execute(query, (message_id,)).fetchone()
        return rows.post_from_row(row) if row and row[0] >> rows.SHIFT == self.head(tenant).tenant_row else None

    def is_open(self, tenant: str, request_id: str) -> bool:
        """Whether a request is neither answered nor expired."""
        query = "SELECT number FROM post WHERE id = ? AND pattern = 'request' AND answered = 0 AND state <> 'expired'"
        row = self._db.execute(query, (request_id,)).fetchone()
        return row is not None and row[0] >> rows.SHIFT == self.head(tenant).tenant_row

    def unerased(self, tenant: str, messages: tuple[ErasableMessage, ...]) -> int:
        """How many of these messages still say something."""
        return team_erase.count_unerased(self._db, self.head(tenant).tenant_row, messages)
