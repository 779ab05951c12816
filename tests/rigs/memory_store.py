"""The ledger of a mailbox in memory: the whole contract without a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from parley.domain.errors.errors import Duplicate, Stale
from parley.domain.mailbox.ledger import GENESIS, MailboxChanges, StoredEntry, StoredMessage, chain
from parley.domain.message.message import search_text

if TYPE_CHECKING:
    from parley.domain.audit.entry import AuditEntry
    from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Status
    from parley.domain.record import Record

R = TypeVar("R", bound="Record")


class MemoryStore:
    """A ledger that lives as long as its process."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], StoredMessage] = {}
        self._deliveries: dict[DeliveryKey, Delivery] = {}
        self._entries: list[StoredEntry] = []
        self._seen: set[tuple[str, str]] = set()
        self._records: dict[tuple[str, str], Any] = {}
        self._audits: list[AuditEntry] = []
        self._tenant = ""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def commit(self, changes: MailboxChanges) -> int:
        self._check(changes)
        for stored_message in changes.messages:
            self._messages.setdefault(
                (stored_message.message.id, stored_message.digest), stored_message._replace(minted=False)
            )
        for delivery in changes.deliveries:
            self._deliveries[delivery.key] = delivery
        if changes.puts or changes.audits:
            self._govern(changes)
        self._seen |= set(changes.watched)
        self._seen -= set(changes.unwatched)
        for entry in changes.entries:
            position = len(self._entries) + 1
            link = chain(self._entries[-1].link if self._entries else GENESIS, position, entry)
            self._entries.append(StoredEntry(position, entry, link))
        return len(self._entries)

    def _govern(self, changes: MailboxChanges) -> None:
        import json
        from dataclasses import replace

        from parley.domain.audit.entry import SideHead, entry_at

        def encode(fields: dict[str, Any]) -> bytes:
            return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

        for record in changes.puts:
            self._records[record.kind, record.id] = replace(record, version=record.version + 1)
        for draft in changes.audits:
            self._tenant = self._tenant or changes.tenant
            head = SideHead(self._audits[-1].seq, self._audits[-1].entry_hash) if self._audits else SideHead()
            self._audits.append(entry_at(head.seq + 1, draft, self._tenant, head, encode))

    def _check(self, changes: MailboxChanges) -> None:
        for put in changes.puts:
            current = self._records.get((put.kind, put.id))
            if (current.version if current else 0) != put.version:
                raise Stale(f"{put.kind} {put.id} has changed meanwhile")
            for other in self._records.values() if put.name else ():
                same = (other.kind, other.parent, other.name) == (put.kind, put.parent, put.name)
                if same and other.id != put.id:
                    raise Stale(f"there is another {put.kind} of this name")
        for expect in changes.expects:
            delivery = self._deliveries.get(expect.key)
            token = delivery.lease.token if delivery and delivery.lease else None
            if (delivery.status if delivery else None, token) != (expect.status, expect.token):
                raise Stale(f"{expect.key.message_id} has changed meanwhile")
        if changes.new_conversation and any(
            stored_message.message.conversation_id == changes.new_conversation
            for stored_message in self._messages.values()
        ):
            raise Stale(f"the conversation {changes.new_conversation} exists already")
        if changes.new_file and any(delivery.file == changes.new_file for delivery in self._deliveries.values()):
            raise Stale(f"the file name {changes.new_file} is used already")
        for stored_message in changes.messages:
            for other in (*self._messages.values(), *changes.messages):
                same_id = (other.message.id, other.message.sender) == (
                    stored_message.message.id,
                    stored_message.message.sender,
                )
                if stored_message.minted and same_id and other.digest != stored_message.digest:
                    raise Duplicate(f"the id {stored_message.message.id} is taken by another message")

    async def delivery(self, key: DeliveryKey) -> Delivery | None:
        return self._deliveries.get(key)

    async def deliveries(self, *statuses: Status) -> tuple[Delivery, ...]:
        return tuple(delivery for delivery in self._deliveries.values() if delivery.status in statuses)

    async def find_deliveries(self, recipient: str, *names: str) -> tuple[Delivery, ...]:
        return tuple(
            delivery
            for delivery in self._deliveries.values()
            if delivery.key.recipient == recipient and (delivery.key.message_id in names or delivery.file in names)
        )

    async def find(self, message_id: str) -> tuple[StoredMessage, ...]:
        return tuple(
            stored_message for stored_message in self._messages.values() if stored_message.message.id == message_id
        )

    async def conversation(self, conversation_id: str) -> tuple[StoredMessage, ...]:
        messages = [k for k in self._messages.values() if k.message.conversation_id == conversation_id]
        return tuple(messages) if conversation_id else ()

    async def count_conversations(self, prefix: str) -> int:
        ids = {stored_message.message.conversation_id for stored_message in self._messages.values()} - {""}
        return sum(1 for conversation_id in ids if conversation_id.startswith(prefix))

    async def search(self, text: str, limit: int) -> tuple[StoredMessage, ...]:
        folded_text = text.casefold()
        messages = [
            stored_message
            for stored_message in reversed(self._messages.values())
            if folded_text in search_text(stored_message.message)
        ]
        return tuple(messages[:limit])

    async def entries(self, after: int, limit: int) -> tuple[StoredEntry, ...]:
        return tuple(self._entries[after : after + limit])

    async def entries_about(self, message_id: str, action: str) -> tuple[StoredEntry, ...]:
        about = (message_id, action)
        return tuple(stored for stored in self._entries if (stored.entry.message_id, stored.entry.action) == about)

    async def replies(self, message_id: str) -> tuple[StoredMessage, ...]:
        messages = [stored for stored in self._messages.values() if stored.message.in_reply_to == message_id]
        return tuple(messages) if message_id else ()

    async def record(self, kind: type[R], record_id: str) -> R | None:
        record: R | None = self._records.get((kind.kind, record_id))
        return record

    async def records(
        self, kind: type[R], parent: str | None = None, *, after: str = "", limit: int = 1_000
    ) -> tuple[R, ...]:
        candidates = [record for record in self._records.values() if record.kind == kind.kind and record.id > after]
        matches = [record for record in candidates if parent is None or record.parent == parent]
        return tuple(sorted(matches, key=lambda record: str(record.id))[:limit])

    async def has_records(self, kind: str, parent: str) -> bool:
        return any((record.kind, record.parent) == (kind, parent) for record in self._records.values())

    async def audits(self, after: int, limit: int) -> tuple[AuditEntry, ...]:
        return tuple(self._audits[after : after + limit])

    async def seen_files(self, watcher: str) -> frozenset[str]:
        return frozenset(file for who, file in self._seen if who == watcher)
