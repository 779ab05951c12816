"""A stream of events is read the same whether bytes come at once or in pieces."""

from __future__ import annotations

from parley.domain.errors.errors import Unavailable
from parley.sdk.protocol.event_stream import EventParser, StreamEvent


def check(data: bytes) -> None:
    if not data:
        return
    size, sent = data[0] % 16 + 1, data[1:]
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    events = _read(pieces)

    assert events == _read([sent]), "pieces are read otherwise than the whole"
    assert events is None or all("\n" not in event.id and "\n" not in event.name for event in events)


def _read(pieces: list[bytes]) -> list[StreamEvent] | None:
    parser = EventParser()
    try:
        return [event for piece in pieces for event in parser.feed(piece)]
    except Unavailable:
        return None
