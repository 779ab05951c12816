"""A body in chunks."""

import re

from parley.surfaces.http.http1.message import FRAMING, ONCE, HttpLimits, bad_request, headers_too_large, too_large

_LONGEST_SIZE_LINE = 256
_TRAILER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
# What frames, routes or authorises a request belongs into its head (RFC 9110 6.5.1).
_NO_TRAILER = ONCE | FRAMING | {b"te", b"trailer", b"content-type", b"content-encoding", b"x-agent-id", b"origin"}
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")


class ChunkReader:
    """Puts a body in chunks together, never more than the limit. Extensions are read over; trailers are checked."""

    __slots__ = ("_body", "_left", "_limits", "_received", "_trailer")

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._body = bytearray()
        self._received = bytearray()
        # Bytes of the current chunk still to come, its line end included.
        self._left = 0
        # Bytes of trailers; negative until the last chunk has come.
        self._trailer = -1

    def rest(self) -> bytes:
        """What came after the body."""
        return bytes(self._received)

    def take(self, data: bytes) -> bytes | None:
        """The body when it is whole."""
        received = self._received
        received += data
        start = 0
        while self._trailer < 0:
            if self._left:
                ready = min(self._left, len(received) - start)
                self._append(received[start : start + ready])
                start += ready
                if self._left:
                    break
            end = received.find(b"\r\n", start, start + _LONGEST_SIZE_LINE)
            if end < 0:
                if len(received) - start >= _LONGEST_SIZE_LINE or b"\n" in received[start:]:
                    raise bad_request("A chunk has no size.")
                break
            self._begin(bytes(received[start:end]))
            start = end + 2
        del received[:start]
        return None if self._trailer < 0 else self._finish(received)

    def _begin(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise bad_request("A chunk has no size.")
        size = int(match[1], 16)
        if size == 0:
            self._trailer = 0
        elif len(self._body) + size > self._limits.body_bytes:
            raise too_large(self._limits)
        else:
            self._left = size + 2

    def _append(self, data: bytearray) -> None:
        """The last two of the `_left` bytes are the line end."""
        size = min(len(data), max(self._left - 2, 0))
        self._body += data[:size]
        self._left -= size
        for byte in data[size:]:
            if byte != b"\r\n"[2 - self._left]:
                raise bad_request("A chunk does not end where it said.")
            self._left -= 1

    def _finish(self, received: bytearray) -> bytes | None:
        while True:
            end = received.find(b"\r\n")
            if b"\n" in received[: end if end >= 0 else len(received)]:
                raise bad_request("A line does not end in CR LF.")
            if self._trailer + (len(received) if end < 0 else end) > self._limits.header_bytes:
                raise headers_too_large(self._limits)
            if end < 0:
                return None
            if end:
                _check_trailer(bytes(received[:end]))
            self._trailer += end + 2
            del received[: end + 2]
            if end == 0:
                return bytes(self._body)


def _check_trailer(line: bytes) -> None:
    """Refuse what is no field, and a field that comes too late to mean anything."""
    match = _TRAILER.fullmatch(line)
    if match is None:
        raise bad_request("A trailer is not a field.")
    if match[1].lower() in _NO_TRAILER:
        raise bad_request(f"{match[1].decode('ascii').lower()} is not allowed in a trailer.")
