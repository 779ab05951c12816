"""What a sender asks for in its metadata is read or refused by its class; an envelope is written as it was read."""

from __future__ import annotations

from parley.domain.errors.errors import ParleyError
from parley.wire.json_strict import parse
from parley.wire.ocip import envelope_document, read_envelope, wishes_of


def check(data: bytes) -> None:
    try:
        metadata = parse(data)
    except ParleyError:
        return
    if not isinstance(metadata, dict):
        return
    wishes = wishes_of(metadata)
    try:
        envelope = read_envelope(metadata.get("ocip"))
    except ParleyError:
        assert "ocip" not in metadata or (wishes is not None and wishes.problem is not None), "a bad envelope passed"
        return
    assert read_envelope(envelope_document(envelope)) == envelope
