"""Pages and files: compressed for clients that can read that, and kept by caches where their address names the content.

No page holds a secret beside what a caller wrote, so compressing them gives nothing away.
"""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from parley.surfaces.http.http1.message import CachedResponse, Response

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Request

    Headers = tuple[tuple[bytes, bytes], ...]

HTML = b"text/html; charset=utf-8"
# A shorter body fits one packet anyway.
_SHORTEST = 1_000
# Pictures and fonts are compressed already.
_COMPRESSIBLE = re.compile(rb"(?:text/|application/(?:javascript|json)|image/svg\+xml)")
_NO_QUALITY = re.compile(rb"q=0(?:\.0{0,3})?")
_VARY = (b"Vary", b"Accept-Encoding")


def page_response(
    request: Request, html: bytes, headers: Headers = (), status: int = 200, *, is_static: bool = False
) -> Response:
    """A page, which no cache keeps. One that is static is compressed once."""
    body, more = _encoded(request, html, HTML, is_static=is_static)
    return Response(status, body, HTML, (*headers, *more))


def file_response(request: Request, body: bytes, content_type: bytes) -> Response:
    """A file at an address that names its content, for example by a hash: every cache keeps it."""
    body, more = _encoded(request, body, content_type, is_static=True)
    return CachedResponse(200, body, content_type, more)


def _encoded(request: Request, body: bytes, content_type: bytes, *, is_static: bool) -> tuple[bytes, Headers]:
    """The body as it is sent, and the headers that say so."""
    if len(body) < _SHORTEST or not _COMPRESSIBLE.match(content_type):
        return body, ()
    if not accepts_gzip(request.headers.get(b"accept-encoding", b"")):
        return body, (_VARY,)
    return (_compressed_once if is_static else _compressed)(body), ((b"Content-Encoding", b"gzip"), _VARY)


def accepts_gzip(accepted: bytes) -> bool:
    """Whether a client that sends this Accept-Encoding reads gzip."""
    qualities = {}
    for part in accepted.lower().split(b","):
        coding, _, quality = part.partition(b";")
        qualities[coding.strip()] = not _NO_QUALITY.fullmatch(quality.strip())
    return qualities.get(b"gzip", qualities.get(b"x-gzip", qualities.get(b"*", False)))


def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)


_compressed_once = lru_cache(64)(_compressed)
