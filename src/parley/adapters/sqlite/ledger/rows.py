"""Messages, leases and entries as JSON columns, and back."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from parley.domain.mailbox.delivery import Lease
from parley.domain.mailbox.ledger import Entry
from parley.domain.message.message import Kind, Message, Priority

if TYPE_CHECKING:
    from typing import Any

# Made once: `json.dumps` makes one a call for anything but its defaults.
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def message_to_row(message: Message) -> str:
    fields = message._asdict()
    fields["created_at"] = message.created_at.isoformat()
    fields["expires_at"] = message.expires_at.isoformat() if message.expires_at else None
    fields["extras"] = dict(message.extras)
    return _compact(fields)


def json_word(text: str) -> str:
    """`text` as it stands in a document, to look for."""
    return _compact(text)


def message_from_row(document: str) -> Message:
    fields: dict[str, Any] = json.loads(document)
    fields["to"] = tuple(fields["to"])
    fields["kind"] = Kind(fields["kind"])
    fields["priority"] = Priority(fields["priority"])
    fields["created_at"] = datetime.fromisoformat(fields["created_at"])
    fields["expires_at"] = datetime.fromisoformat(fields["expires_at"]) if fields["expires_at"] else None
    return Message(**fields)


def lease_to_row(lease: Lease | None) -> str | None:
    return json.dumps(lease) if lease else None


def lease_from_row(document: str | None) -> Lease | None:
    return Lease(*json.loads(document)) if document else None


def entry_from_row(document: str) -> Entry:
    """The entry in a document of the chain, which also says at which position it stands."""
    fields: dict[str, Any] = json.loads(document)
    del fields["position"]
    return Entry(**fields)
