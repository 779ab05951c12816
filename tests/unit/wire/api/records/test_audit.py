"""The audit log as the API answers with it."""

from __future__ import annotations

import msgspec

from parley.wire.api.records.audit import AuditCheckpoint, AuditLine


def test_the_time_of_a_checkpoint_stays_as_it_was_signed() -> None:
    document = dict.fromkeys(("tenant", "root", "previous", "public_key", "signature"), "x")

    checkpoint = msgspec.convert({**document, "size": 1, "at": "2026-03-13T14:30:00Z"}, AuditCheckpoint)

    assert (checkpoint.at, checkpoint.key_id) == ("2026-03-13T14:30:00Z", "")


def test_a_line_may_come_without_its_document() -> None:
    line = msgspec.convert({"number": 1, "side": "", "seq": 0, "entry_hash": "h"}, AuditLine)

    assert line.document is None
    assert AuditLine.may_be_absent == ("document",)
