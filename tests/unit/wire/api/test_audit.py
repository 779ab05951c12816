from __future__ import annotations

import msgspec

from parley.wire.api import audit as audit_api
from parley.wire.api.records.audit import AuditEntry
from tests.samples.audit import a_log


def test_an_entry_is_shown_with_the_exact_bytes_that_are_hashed() -> None:
    (entry,) = a_log(1)

    encoded = msgspec.json.encode(audit_api.entry_of(entry))

    assert entry.document in encoded
    assert msgspec.json.decode(encoded, type=AuditEntry).number == 1


def test_an_entry_is_shown_with_every_field_that_it_has() -> None:
    assert AuditEntry.__struct_fields__ == a_log(1)[0]._fields


def test_an_entry_that_was_let_go_of_has_no_document() -> None:
    shown = audit_api.entry_of(a_log(1)[0]._replace(document=b"", exchange_id=""))

    assert (shown["document"], shown["exchange_id"]) == (None, None)
