"""The clients read the same answer whether bytes come at once or in pieces, and raise nothing but `Broken`."""

from __future__ import annotations

from parley.sdk.transport.http_codec import ResponseReader
from parley.sdk.transport.port import Broken


def check(data: bytes) -> None:
    if not data:
        return
    size, sent = data[0] % 16 + 1, data[1:]
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]

    assert _read(pieces) == _read([sent]), "pieces are read otherwise than the whole"


def _read(pieces: list[bytes]) -> object:
    reader = ResponseReader()
    body = b""
    try:
        for piece in pieces:
            reader.feed(piece)
            body += reader.take()
            if reader.complete:
                return reader.status, reader.headers, body
        reader.end()
    except Broken as broken:
        # Where it broke off may differ with the pieces: a whole that ends in rubbish may have been an answer before.
        return "broken", broken.malformed
    return reader.status, reader.headers, body
