"""The write-through cache of the team's store: records, counters of channels, heads of tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.store.writes import ForgetKeys

if TYPE_CHECKING:
    from parley.domain.audit.entry import SideHead
    from parley.domain.record import Record
    from parley.domain.store.source import BudgetKey, ChannelCounters, Head, RecordKey, SideKey
    from parley.domain.store.transaction import Transaction

# Not cached; None means that there is no such record.
UNKNOWN = object()


class StoreCache:
    """Cached content of the file, as of the last commit. Only this process writes it, so the cache is always valid."""

    def __init__(self, kinds: dict[str, type[Record]]) -> None:
        self.kinds = kinds
        self.records: dict[RecordKey, Record | None] = {}
        # By tenant and channel.
        self.channel_counters: dict[tuple[str, str], ChannelCounters] = {}
        self.heads: dict[str, Head] = {}
        self.sides: dict[SideKey, SideHead] = {}
        self.budgets: dict[BudgetKey, int] = {}
        # The highest number that a channel was given; 0: the file was not asked yet.
        self.last_channel = 0
        self.max_items = 50_000
        # Incremented when the records are cleared: a value read before may be older than the cleared one.
        self.clearings = 0
        # By tenant: see `domain.store.ground`. A tenant that is not listed is in its first.
        self.generations: dict[str, int] = {}

    def update(self, transaction: Transaction) -> None:
        """Update the cache after a transaction is durable."""
        self.records.update(transaction.records)
        for record in transaction.created:
            self.records[record.tenant_id, record.kind, record.id] = record
        # After the records: whoever reads a generation finds its records, or newer ones.
        for tenant in transaction.moved_generations:
            self.generations[tenant] = self.generations.get(tenant, 1) + 1
        self.channel_counters.update(transaction.channel_counters)
        for key in transaction.gone_channels - transaction.new_channels:
            self.channel_counters.pop(key, None)
        self.heads.update(transaction.heads)
        self.sides.update(transaction.sides)
        if any(type(act) is ForgetKeys for act in transaction.writes):
            self.budgets.clear()
        self.budgets.update(transaction.budgets)

    def trim(self) -> None:
        """Clear a table of the cache that is over its limit; it is read again when needed."""
        if len(self.records) > self.max_items:
            self.clearings += 1
            self.records.clear()
        if len(self.channel_counters) > self.max_items:
            self.channel_counters.clear()
        if len(self.sides) > self.max_items:
            self.sides.clear()
        if len(self.budgets) > self.max_items:
            self.budgets.clear()
