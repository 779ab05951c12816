"""HTTP/1.1 as a client speaks it, without any I/O: a request to bytes, and an answer from bytes as they come."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from parley import __version__
from parley.domain.errors.errors import Invalid
from parley.sdk.transport.port import Broken

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.sdk.transport.port import Place, Request

# What may come before, between and after the pieces of a body: the head, sizes of chunks, trailers.
HEAD_BYTES = 64 * 1024
# A body that is read whole. The server's own answers are far smaller.
BODY_BYTES = 64 * 1024 * 1024

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_WITHOUT_BODY = (204, 304)
_CUT = "it ended in the middle of the answer"


def encoder(place: Place) -> Callable[[Request], bytes]:
    """What turns a request to this place into bytes. The connection is kept, as HTTP/1.1 does unless told otherwise."""
    common = f" HTTP/1.1\r\nhost: {_authority(place)}\r\nuser-agent: parley/{__version__}\r\n"

    def encode(request: Request) -> bytes:
        method, target, headers, body, _, _ = request
        fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        # What is more than a line would be another header, or another request.
        if len(fields.splitlines()) != len(headers):
            raise Invalid("a header holds characters that it cannot have")
        if body or method in _WITH_BODY:
            fields += f"content-length: {len(body)}\r\n"
        if not target.isprintable() or " " in target:
            raise Invalid(f"{target!r} is no path of a request")
        try:
            return f"{method} {target}{common}{fields}\r\n".encode("ascii") + body
        except UnicodeEncodeError:
            raise Invalid("only ASCII can stand in the head of a request") from None

    return encode


def _authority(place: Place) -> str:
    """The host as it stands in its header."""
    host = place.host.partition("%")[0]  # the interface of an IPv6 address is nobody else's business
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise Invalid(f"{host!r} is no name of a host") from None
    if ":" in host:
        host = f"[{host}]"
    return host if place.port == (443 if place.secure else 80) else f"{host}:{place.port}"


def broken_by(error: Exception, *, arrived: bool) -> Broken:
    """What an error of the network means for a request, in the same words for every transport."""
    untrusted = getattr(error, "verify_message", "")
    if untrusted:
        reason = f"its certificate is not trusted: {untrusted}"
    elif isinstance(error, ConnectionError) and error.errno:
        reason = os.strerror(error.errno)
    else:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    # Who presents a certificate that nobody trusts presents it at the next try, too.
    return Broken(reason, arrived=arrived, timed_out=isinstance(error, TimeoutError), malformed=bool(untrusted))


class ResponseReader:
    """Reads the answers of one connection, one after the other.

    `begin` before each; then `feed` what comes and `end` when the connection ends, until `head` (for a body that is
    read as it comes) or `complete`. Both raise `Broken` for what is no answer, or only half of one.
    """

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self.begin()

    def begin(self, *, bodiless: bool = False, streams: bool = False) -> None:
        """Forget the last answer. `bodiless`: there will be no body, whatever the head says, as after HEAD."""
        self.status = 0
        self.headers: dict[str, str] = {}
        # All of the head is there; and all of the answer.
        self.head = False
        self.complete = False
        # Whether the connection can be used for another request afterwards.
        self.reusable = False
        # How much of the body has come and was not taken.
        self.held = 0
        self._pieces: list[bytes] = []
        self._bodiless = bodiless
        self._streams = streams
        self._said = ""
        self._since_body = 0

    @property
    def streaming(self) -> bool:
        """Whether the body is read as it comes."""
        return self._streams and self.status == 200

    def feed(self, data: bytes) -> None:
        """What the connection has received."""
        self._since_body += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self.complete:
                self.reusable = False  # more than the answer: nothing that anybody asked for
                return
            raise self._malformed(self._said or str(error)) from None
        if self._since_body > HEAD_BYTES and not self.complete:
            raise self._malformed("the head has no end")

    def end(self, *, announced: bool = True) -> None:
        """Nothing more will come. That ends the answer where nothing else does, and breaks any other.

        An encrypted connection announces its end; one that does not may have been cut by somebody in between.
        """
        self.reusable = False
        if self.complete:
            return
        if not self.head:
            raise Broken(_CUT if self._since_body else "it closed the connection", arrived=True)
        if not announced or "content-length" in self.headers or self._chunked:
            raise Broken(_CUT, arrived=True)
        self.complete = True

    def take(self) -> bytes:
        """What has come of the body since this was last asked."""
        pieces = self._pieces
        if len(pieces) == 1:
            content = pieces[0]
            pieces.clear()
        else:
            content = b"".join(pieces)
            self._pieces = []
        self.held = 0
        return content

    @property
    def _chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower().endswith("chunked")

    def _malformed(self, reason: str) -> Broken:
        return Broken(reason, arrived=True, malformed=True)

    # ------------------------------------------------------------ the parser calls, under its own names

    def on_message_begin(self) -> None:  # noqa: D102
        if self.complete:
            raise ValueError  # an answer that nobody asked for

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: D102
        if self.head:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:  # noqa: D102
        status = self.status = self._parser.get_status_code()
        if status < 200:
            return
        self.head = True
        if self._bodiless or status in _WITHOUT_BODY:
            # The parser may still expect what the head announces: it is of no further use then.
            announced = self._chunked or self.headers.get("content-length", "0") != "0"
            self.reusable = not announced and status in _WITHOUT_BODY and self._parser.should_keep_alive()
            self.complete = True
        elif not self.streaming and int(self.headers.get("content-length", "0")) > BODY_BYTES:
            self._said = "the answer is too large"
            raise ValueError

    def on_body(self, body: bytes) -> None:  # noqa: D102
        if self.complete:
            self.reusable = False
            return
        self._since_body = 0
        self._pieces.append(body)
        self.held += len(body)
        if self.held > BODY_BYTES and not self.streaming:
            self._said = "the answer is too large"
            raise ValueError

    def on_message_complete(self) -> None:  # noqa: D102
        if self.status < 200:
            # An answer before the answer, as 100 Continue.
            self.status = 0
            self.headers = {}
        elif not self.complete:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()
