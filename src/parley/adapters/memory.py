"""The store in memory: the whole contract without a file, for tests and for what may be forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from parley.domain.errors.errors import Duplicate, Stale
from parley.domain.mailbox.ledger import GENESIS, Changes, StoredEntry, StoredMessage, chain
from parley.domain.message.message import search_text

if TYPE_CHECKING:
    from parley.domain.audit.entry import AuditEntry
    from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Status
    from parley.domain.record import Record

R = TypeVar("R", bound="Record")


class MemoryStore:
    """A ledger that lives as long as its process."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], StoredMessage] = {}
        self._deliveries: dict[DeliveryKey, Delivery] = {}
        self._written: list[StoredEntry] = []
        self._seen: set[tuple[str, str]] = set()
        self._records: dict[tuple[str, str], Any] = {}
        self._audits: list[AuditEntry] = []
        self._tenant = ""

    def close(self) -> None:
        """Nothing to let go of."""

    async def commit(self, changes: Changes) -> int:
        self._check(changes)
        for kept in changes.messages:
            self._kept.setdefault((kept.message.id, kept.digest), kept._replace(minted=False))
        for delivery in changes.deliveries:
            self._deliveries[delivery.key] = delivery
        if changes.puts or changes.audits:
            self._govern(changes)
        self._seen |= set(changes.watched)
        self._seen -= set(changes.unwatched)
        for entry in changes.entries:
            position = len(self._written) + 1
            link = chain(self._written[-1].link if self._written else GENESIS, position, entry)
            self._written.append(StoredEntry(position, entry, link))
        return len(self._written)

    def _govern(self, changes: Changes) -> None:
        import json
        from dataclasses import replace

        from parley.domain.audit.entry import AuditEntry, SideHead, entry_fields, entry_hash

        for one in changes.puts:
            self._records[one.kind, one.id] = replace(one, version=one.version + 1)
        for draft in changes.audits:
            self._tenant = self._tenant or changes.tenant
            head = SideHead(self._audits[-1].seq, self._audits[-1].entry_hash) if self._audits else SideHead()
            fields = entry_fields(draft, self._tenant, head)
            document = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            place = (head.seq + 1, draft.side, head.seq + 1)
            self._audits.append(
                AuditEntry(*place, draft.id, draft.at, draft.exchange_id, entry_hash(document), document)
            )

    def _check(self, changes: Changes) -> None:
        for one in (*changes.puts, *changes.expected_records):
            there = self._records.get((one.kind, one.id))
            if (there.version if there else 0) != one.version:
                raise Stale(f"{one.kind} {one.id} has changed meanwhile")
        for put in changes.puts:
            for other in self._records.values() if put.name else ():
                same = (other.kind, other.parent, other.name) == (put.kind, put.parent, put.name)
                if same and other.id != put.id:
                    raise Stale(f"there is another {put.kind} of this name")
        for expect in changes.expects:
            known = self._deliveries.get(expect.key)
            token = known.lease.token if known and known.lease else None
            if (known.status if known else None, token) != (expect.status, expect.token):
                raise Stale(f"{expect.key.message_id} has changed meanwhile")
        if changes.new_conversation and any(
            kept.message.conversation_id == changes.new_conversation for kept in self._kept.values()
        ):
            raise Stale(f"the conversation {changes.new_conversation} exists already")
        if changes.new_file and any(one.file == changes.new_file for one in self._deliveries.values()):
            raise Stale(f"the file name {changes.new_file} is used already")
        for kept in changes.messages:
            for other in (*self._kept.values(), *changes.messages):
                same_id = (other.message.id, other.message.sender) == (kept.message.id, kept.message.sender)
                if kept.minted and same_id and other.digest != kept.digest:
                    raise Duplicate(f"the id {kept.message.id} is taken by another message")

    async def delivery(self, key: DeliveryKey) -> Delivery | None:
        return self._deliveries.get(key)

    async def deliveries(self, *statuses: Status) -> tuple[Delivery, ...]:
        return tuple(one for one in self._deliveries.values() if one.status in statuses)

    async def named(self, recipient: str, *names: str) -> tuple[Delivery, ...]:
        return tuple(
            one
            for one in self._deliveries.values()
            if one.key.recipient == recipient and (one.key.message_id in names or one.file in names)
        )

    async def find(self, message_id: str) -> tuple[StoredMessage, ...]:
        return tuple(kept for kept in self._kept.values() if kept.message.id == message_id)

    async def conversation(self, conversation_id: str) -> tuple[StoredMessage, ...]:
        found = [k for k in self._kept.values() if k.message.conversation_id == conversation_id]
        return tuple(found) if conversation_id else ()

    async def count_conversations(self, prefix: str) -> int:
        ids = {kept.message.conversation_id for kept in self._kept.values()} - {""}
        return sum(1 for one in ids if one.startswith(prefix))

    async def search(self, text: str, limit: int) -> tuple[StoredMessage, ...]:
        wanted = text.casefold()
        found = [kept for kept in reversed(self._kept.values()) if wanted in search_text(kept.message)]
        return tuple(found[:limit])

    async def entries(self, after: int, limit: int) -> tuple[StoredEntry, ...]:
        return tuple(self._written[after : after + limit])

    async def record(self, kind: type[R], record_id: str) -> R | None:
        found: R | None = self._records.get((kind.kind, record_id))
        return found

    async def records(
        self, kind: type[R], parent: str | None = None, *, after: str = "", limit: int = 1_000
    ) -> tuple[R, ...]:
        found = [one for one in self._records.values() if one.kind == kind.kind and one.id > after]
        fitting = [one for one in found if parent is None or one.parent == parent]
        return tuple(sorted(fitting, key=lambda one: str(one.id))[:limit])

    async def has_records(self, kind: str, parent: str) -> bool:
        return any((one.kind, one.parent) == (kind, parent) for one in self._records.values())

    async def audits(self, after: int, limit: int) -> tuple[AuditEntry, ...]:
        return tuple(self._audits[after : after + limit])

    async def seen(self, watcher: str) -> frozenset[str]:
        return frozenset(file for who, file in self._seen if who == watcher)
