"""What a transaction of the server's store asks for: the store's content while no other transaction can write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from parley.domain.audit.entry import SideHead
    from parley.domain.channel.channel import Tally
    from parley.domain.channel.post import Post
    from parley.domain.record import Record
    from parley.domain.store.changes import ErasableMessage

RecordKey = tuple[str, str, str]  # tenant, kind, id
NameKey = tuple[str, str, str, str]  # tenant, kind, parent, name
SideKey = tuple[str, str]  # tenant, side
BudgetKey = tuple[str, str, str]  # tenant, key, window
LogEnd = tuple[int, str]  # the sequence and the hash of an intent's last event

FREE = ""


class Head(NamedTuple):
    """A tenant's internal row number, its last position, and the ends of its ledger and its audit log."""

    tenant_row: int
    position: int
    entry_position: int
    entry_link: bytes
    audit_number: int = 0


class ChannelCounters(NamedTuple):
    """A channel's internal row number, its intent and its counters; `seq` is the last seq used."""

    number: int
    intent_id: str
    seq: int
    tally: Tally


class TransactionSource(Protocol):
    """The contents of the store while no other transaction can write."""

    def head(self, tenant: str) -> Head:
        """The tenant's last position, and the ends of its logs."""
        ...

    def record(self, key: RecordKey) -> Record | None:
        """A record."""
        ...

    def generation(self, tenant: str) -> int:
        """The generation of the tenant's records; 0 when it is not known."""
        ...

    def holder(self, name: NameKey) -> str:
        """The id of the record that has a name, or `FREE`."""
        ...

    def has_exchange(self, tenant: str, conversation_id: str) -> bool:
        """Whether a conversation has an exchange."""
        ...

    def counters(self, tenant: str, channel_id: str) -> ChannelCounters | None:
        """A channel's counters."""
        ...

    def new_channel(self) -> int:
        """The internal row number for a new channel."""
        ...

    def side(self, key: SideKey) -> SideHead:
        """Where a side's audit chain ends."""
        ...

    def spent(self, key: BudgetKey) -> int:
        """How much of a budget is spent."""
        ...

    def is_saved(self, tenant: str, scope: str) -> bool:
        """Whether the idempotency key `scope` was used."""
        ...

    def log_end(self, tenant: str, intent_id: str) -> LogEnd:
        """Where an intent's log ends."""
        ...

    def pending(self, tenant: str, message_id: str) -> Post | None:
        """A pending message that is still stored."""
        ...

    def is_open(self, tenant: str, request_id: str) -> bool:
        """Whether a message is a request that is neither answered nor expired."""
        ...

    def unerased(self, tenant: str, messages: tuple[ErasableMessage, ...]) -> int:
        """How many of these messages still have content."""
        ...


def name_key(record: Record) -> NameKey:
    """The scope in which a record's name is unique, and the name."""
    return record.tenant_id, record.kind, record.parent, record.name
