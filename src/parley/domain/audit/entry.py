"""The audit log: each side of an exchange has its own chain, and all entries of a tenant are the leaves of one tree.

    side alice:  seq 1 <── seq 2 <── seq 3           an entry names the hash of the one before it on its side
    side bob:         seq 1 <────── seq 2            entry_hash = SHA-256(0x00 || canonical JSON): an RFC 6962 leaf
    tenant:      1     2     3       4      ...      `number` is its place among the leaves, in the order of commits

What was said stays out: an entry has its digest. So content can be erased, and every proof stays valid.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.audit.repeated import FactsTemplate, RepeatedFacts, is_written_as_it_is

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley.domain.audit.repeated import AroundChain

AGENT_EXCHANGE = "agent_exchange"
# The tenant's own side: suspensions, policies, erasures.
TENANT_SIDE = "@tenant"
NO_HASH = "0" * 64


class AuditDraft(NamedTuple):
    """A fact for one side's chain. `facts` is JSON with only texts, whole numbers, booleans, lists and objects."""

    id: str
    side: str
    at: str
    action: str
    actor: str
    facts: Mapping[str, Any]
    # For queries; also part of the facts.
    exchange_id: str = ""
    # Its document before, between and behind the hash of the entry before and its place, where all else is known.
    texts: tuple[str, str, str] | None = None


class EntryTemplate:
    """An entry like others before it, without its id, its time and the facts that differ: all of them made by us."""

    __slots__ = ("_around", "_facts", "_fields", "_varying")

    def __init__(
        self, tenant: str, side: str, action: str, actor: str, facts: Mapping[str, Any], varying: tuple[str, ...]
    ) -> None:
        self._fields = {"tenant": tenant, "side": side, "action": action, "actor": actor}
        # The names of the facts that differ.
        self._varying = tuple([name for name in varying if name in facts])
        self._facts = FactsTemplate(facts, self._varying)
        # None until the first entry was written.
        self._around: AroundChain | None = None

    @property
    def is_written_as_it_is(self) -> bool:
        """Whether nothing of it has to be escaped."""
        return is_written_as_it_is("".join(self._fields.values()))

    def draft(self, entry_id: str, at: str, values: Mapping[str, str], exchange_id: str) -> AuditDraft:
        """The entry with these values, of which it may not have all."""
        _, side, action, actor = self._fields.values()
        facts = self._facts
        own = values if len(self._varying) == len(values) else {name: values[name] for name in self._varying}
        around = self._around
        if around is None:
            around = self._around = facts.around_chain(self._fields)
        texts = around.filled_in({**own, "id": entry_id, "at": at}) if around is not None else None
        return AuditDraft(entry_id, side, at, action, actor, RepeatedFacts(facts, own), exchange_id, texts)


class AuditEntry(NamedTuple):
    """An entry at its place. `document` is the canonical JSON that is hashed; empty when it was trimmed.

    Stores have a column for each field (`COLUMNS`), of which `entry_at` sets the value. A field that nobody looks
    entries up by needs none: it is one of the facts.
    """

    number: int
    side: str
    seq: int
    id: str
    at: str
    exchange_id: str
    entry_hash: str
    document: bytes


_COLUMN_NAMES = {"exchange_id": "exchange", "entry_hash": "hash"}
# The columns of every store, in the order of the fields. The number is part of the row's key.
COLUMNS = tuple([_COLUMN_NAMES.get(field, field) for field in AuditEntry._fields[1:]])


class SideHead(NamedTuple):
    """Where a side's chain ends."""

    seq: int = 0
    entry_hash: str = NO_HASH


def entry_fields(draft: AuditDraft, tenant: str, head: SideHead) -> dict[str, Any]:
    """The document of the next entry of a side; its canonical JSON is what is hashed."""
    return {**draft.facts, **_placing_fields(draft, tenant, head)}


def _placing_fields(draft: AuditDraft, tenant: str, head: SideHead) -> dict[str, str | int]:
    return {
        "id": draft.id,
        "tenant": tenant,
        "side": draft.side,
        "seq": head.seq + 1,
        "prev_hash": head.entry_hash,
        "at": draft.at,
        "action": draft.action,
        "actor": draft.actor,
    }


def entry_at(
    number: int, draft: AuditDraft, tenant: str, head: SideHead, encode: Callable[[dict[str, Any]], bytes]
) -> AuditEntry:
    """The next entry of a side, which is the tenant's entry of this number."""
    entry_id, side, at, _, _, facts, exchange_id, texts = draft
    seq, previous = head
    if texts is not None:
        before, between, behind = texts
        document = f"{before}{previous}{between}{seq + 1}{behind}".encode()
    elif isinstance(facts, RepeatedFacts):
        placing = _placing_fields(draft, tenant, head)
        document = facts.template.document({**facts.values_by_name, **placing}, encode)
    else:
        document = encode(entry_fields(draft, tenant, head))
    return AuditEntry(number, side, seq + 1, entry_id, at, exchange_id, entry_hash(document), document)


def content_digest(content: bytes) -> str:
    """`hashes.digest` for those who have loaded OpenSSL anyway: twice as fast."""
    return sha256(content).hexdigest()


def entry_hash(document: bytes) -> str:
    return sha256(b"\x00" + document).hexdigest()
