"""Everything that one commit of a mailbox writes, and the hash chain that makes its ledger tamper-evident."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.hashes import chained
from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Status
from parley.domain.message.message import Message

if TYPE_CHECKING:
    from typing import Any

NO_FACTS: Mapping[str, str] = {}
# The action of a claim.
CLAIMED = "claimed"
GENESIS = b"\x00" * 32


class StoredMessage(NamedTuple):
    """A message with the exact bytes that carried it."""

    message: Message
    content: bytes
    digest: str
    # Whether this side chose the id, which must then be unique here; a foreign id may be anything.
    minted: bool = False


class Entry(NamedTuple):
    """One fact in the ledger: what happened to which message. It never has a body."""

    action: str
    at: str
    agent: str
    message_id: str
    digest: str
    facts: Mapping[str, str] = NO_FACTS


class StoredEntry(NamedTuple):
    """An entry at its place in the ledger."""

    position: int
    entry: Entry
    link: bytes


class ExpectDelivery(NamedTuple):
    """The state of a delivery that a decision depended on: the commit is refused as stale when it has changed.

    `status` and `token` are those of the delivery that was loaded; None means that there was none.
    """

    key: DeliveryKey
    status: Status | None
    token: str | None = None


def expect(delivery: Delivery) -> ExpectDelivery:
    """That a delivery is still as it was loaded."""
    return ExpectDelivery(delivery.key, delivery.status, delivery.lease.token if delivery.lease else None)


class WatchedFile(NamedTuple):
    """A file that a watcher has shown."""

    watcher: str
    file: str


class MailboxChanges(NamedTuple):
    """One commit of a mailbox's ledger, written as a whole or not at all.

    `new_conversation` and `new_file` must be unknown to the ledger. `durable=False` may be lost in a power cut (never
    torn): only for what recovery finds out again by itself. What the rules of an exchange add comes last: records
    (`domain.record`), which carry the version that they replace, and entries for the agent's audit chain
    (`domain.audit`) in its tenant. They have no types here, because most commands do without loading them.
    """

    messages: tuple[StoredMessage, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    entries: tuple[Entry, ...] = ()
    expects: tuple[ExpectDelivery, ...] = ()
    new_conversation: str = ""
    new_file: str = ""
    watched: tuple[WatchedFile, ...] = ()
    unwatched: tuple[WatchedFile, ...] = ()
    durable: bool = True
    puts: "tuple[Any, ...]" = ()
    audits: "tuple[Any, ...]" = ()
    tenant: str = ""


def canonical(position: int, entry: Entry) -> bytes:
    """The one spelling of an entry that is hashed."""
    document = {**entry._asdict(), "facts": dict(entry.facts), "position": position}
    return _spelling()(document).encode()


@cache
def _spelling() -> Callable[[object], str]:
    import json

    # Made once: `json.dumps` makes an encoder a call for anything but its defaults.
    return json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def chain(previous: bytes, position: int, entry: Entry) -> bytes:
    """The link of an entry: H(0x00 || previous link || entry)."""
    return chained(previous, canonical(position, entry))
