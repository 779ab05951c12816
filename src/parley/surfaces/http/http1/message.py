"""A request and a response, and their bytes. Strict on what comes in, exact in what goes out.

The head of a request is cut out and measured before anything parses it; httptools then takes its fields apart. What
decides where a request ends (Content-Length, Transfer-Encoding) is read here and nowhere else, so that no second
opinion can be smuggled in.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

import httptools


class HttpLimits(NamedTuple):
    """What one connection may cost; `header_bytes` counts the fields with their line ends."""

    header_bytes: int = 16 * 1024
    url_bytes: int = 8 * 1024
    header_count: int = 100
    body_bytes: int = 256 * 1024
    header_seconds: float = 10
    body_seconds: float = 20
    idle_seconds: float = 75
    write_seconds: float = 15
    # How long a running request goes on after its client has stopped sending.
    half_closed_seconds: float = 5
    # How long a connection without any valid key so far may be idle.
    stranger_idle_seconds: float = 5
    connections: int = 4096
    connections_per_address: int = 4096
    # The address that connection limits are counted for; empty for one that many clients share.
    limit_address: Callable[[str], str] = str


class Request:
    __slots__ = (
        "body",
        "ends_with_client",
        "headers",
        "known",
        "method",
        "path",
        "peer",
        "query",
        "raw_path",
        "resolved",
    )

    def __init__(
        self,
        method: str,
        path: str,
        raw_path: bytes = b"",
        query: str = "",
        headers: dict[bytes, bytes] | None = None,
        body: bytes = b"",
        peer: str = "",
    ) -> None:
        self.method = method
        self.path = path
        self.raw_path = raw_path
        self.query = query
        self.headers = {} if headers is None else headers
        self.body = body
        self.peer = peer
        # Set by the handler: what follows from the head alone. The next request with the same head has it, too.
        self.resolved: Any = None
        # Set by the handler: it came with a valid key.
        self.known = False
        # Set by the handler: what it answers is lost without its client, so it ends as soon as that stops sending.
        self.ends_with_client = False

    def header(self, name: bytes) -> str:
        """The value of the field with this lower-case name; empty if there is none."""
        return self.headers.get(name, b"").decode("latin-1")


class Response:
    """What a handler gives back. A `stream` is sent piece by piece; `body` is then not looked at.

    A stream that `ends` by itself is sent to a client that has stopped sending; any other ends with its client.
    """

    __slots__ = ("body", "content_type", "ends", "headers", "status", "stream")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: bytes = b"application/json",
        headers: tuple[tuple[bytes, bytes], ...] = (),
        stream: AsyncIterator[bytes] | None = None,
        *,
        ends: bool = False,
    ) -> None:
        self.ends = ends
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.stream = stream


class CachedResponse(Response):
    """A file, not JSON, that never changes at its address: every cache may keep it for a year."""

    __slots__ = ()


class PendingResponse:
    """A response that is given later, by a callback in the event loop: no task is made for it.

    What is given is the response, or an awaitable of it when it turns out to need a task after all, or an error. The
    client may be gone by then; what was begun is finished, and its response dropped.
    """

    __slots__ = ("_given", "_receive")

    def __init__(self) -> None:
        self._given: Response | Awaitable[Response] | Exception | None = None
        self._receive: Callable[[Response | Awaitable[Response] | Exception], None] | None = None

    def give(self, result: Response | Awaitable[Response] | Exception) -> None:
        """Give the result, once."""
        self._given = result
        if self._receive is not None:
            self._receive(result)

    def then(self, receive: Callable[[Response | Awaitable[Response] | Exception], None]) -> None:
        """Call `receive` with the result."""
        self._receive = receive
        if self._given is not None:
            asyncio.get_running_loop().call_soon(receive, self._given)

    def __await__(self) -> Generator[Any, Any, Response]:
        given: asyncio.Future[Response | Awaitable[Response] | Exception] = asyncio.get_running_loop().create_future()
        self.then(given.set_result)
        result = yield from given.__await__()
        if isinstance(result, Exception):
            raise result
        return result if isinstance(result, Response) else (yield from result.__await__())


# A plain function that answers at once is the fast path: no task is made for it, nor for a `PendingResponse`. A
# coroutine becomes a task, which is cancelled when its client goes away; what must not be torn (a commit) belongs under
# asyncio.shield.
Handler = Callable[[Request], Response | PendingResponse | Awaitable[Response]]
Problem = Callable[[int, str, str], Response]
# Asked before the body of a request is read, unless it came with the head: None to read it, or the answer to give.
Admit = Callable[[Request], Response | Awaitable[Response | None] | None]


def admit_all(request: Request) -> None:
    """Read every body."""


class Refused(Exception):
    """This layer answers by itself, with a problem, and then closes the connection."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


def bad_request(detail: str) -> Refused:
    return Refused(400, "bad_request", detail)


def too_large(limits: HttpLimits) -> Refused:
    return Refused(413, "too_large", f"The body is over {limits.body_bytes} bytes.")


# ---------------------------------------------------------------- the head of a request

_LONGEST_METHOD = 32
_VERSION_BYTES = len(b"  HTTP/1.1")

ONCE = frozenset((b"host", b"content-length", b"authorization", b"x-api-key", b"transfer-encoding", b"idempotency-key"))
# As numbers: of a bytes object, `in` asks for a number first, and an answer by exception is slow.
_PERCENT, _HASH = b"%#"
# A request with none of these has no body, and its connection stays open: NO_BODY.
FRAMING = frozenset((b"content-length", b"transfer-encoding", b"connection", b"expect"))
_METHODS = frozenset((b"GET", b"POST", b"PATCH", b"PUT", b"DELETE", b"HEAD", b"OPTIONS"))
_METHOD = re.compile(rb"[A-Z][A-Z-]{0,31}")
_OTHER_VERSION = re.compile(rb"HTTP/\d\.\d")
_HOST = re.compile(rb"(?:[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._~%-]+)?\])(?::[0-9]{0,5})?")
_ABSOLUTE = re.compile(rb"(https?)://([^/?#@]+)(?=[/?]|\Z)", re.IGNORECASE)
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class Framing(NamedTuple):
    """Where a request ends, and what is to become of the connection after it."""

    length: int = 0
    chunked: bool = False
    keep_alive: bool = True
    old: bool = False
    expects: bool = False

    def connection(self, *, keep: bool) -> bytes:
        """The field that tells the client whether it may go on."""
        if not keep:
            return CLOSE
        return _KEEP_OLD if self.old else b""


NO_BODY: Final = Framing()


def after_empty_lines(data: bytes, start: int) -> int:
    """Some clients send an empty line before a request."""
    while data.startswith(b"\r\n", start):
        start += 2
    return start


def check_partial_head(received: bytes, checked: int, limits: HttpLimits) -> None:
    """Refuse a head as soon as it cannot become valid; the first `checked` bytes were checked before."""
    if _BARE_LINE_FEED.search(received, checked):
        raise bad_request("A line does not end in CR LF.")
    line = received.find(b"\r\n")
    # Without its LF, the CR of the line's end may be here already.
    length = line if line >= 0 else len(received) - received.endswith(b"\r")
    if length > _LONGEST_METHOD + limits.url_bytes + _VERSION_BYTES:
        raise _url_too_long(limits)
    # One more: the CR of the empty line may be here already.
    if line >= 0 and len(received) - line - 2 > limits.header_bytes + 1:
        raise headers_too_large(limits)


# Method, path, path as it came, query, headers, body and peer.
_RequestFields = tuple[str, str, bytes, str, dict[bytes, bytes], bytes, str]


class HeadReader:
    """Reads the heads of one connection."""

    __slots__ = ("_headers", "_host", "_last", "_limits", "_parser", "_peer", "_twice")

    def __init__(self, limits: HttpLimits, peer: str) -> None:
        self._limits = limits
        self._peer = peer
        self._host = b""
        # The head before and what it meant: most clients say the same again and again.
        self._last: tuple[bytes, Request, Framing, _RequestFields] | None = None
        self._headers: dict[bytes, bytes] = {}
        self._twice = b""
        # Used again only after a request without a body: what a parser thinks of bodies must never matter.
        self._parser: httptools.HttpRequestParser | None = None

    def close(self) -> None:
        """The parser knows this reader; without a farewell only the garbage collector would part them."""
        self._parser = None

    def read(self, head: bytes) -> tuple[Request, Framing]:
        """The request in `head`, which ends with its empty line. Its body is still to come."""
        last = self._last
        if last is not None and last[0] == head:
            _, previous, framing, fields = last
            repeated = Request(*fields)
            repeated.resolved = previous.resolved
            return repeated, framing
        limits = self._limits
        line = head.find(b"\r\n")
        parts = head[:line].split(b" ")
        if len(parts) != 3:
            raise bad_request("The request line is not METHOD TARGET VERSION.")
        method, target, version = parts
        if len(target) > limits.url_bytes:
            raise _url_too_long(limits)
        # The empty line is not part of the fields: "fields CR LF CR LF".
        if len(head) - line - 4 > limits.header_bytes or head.count(b"\r\n") - 2 > limits.header_count:
            raise headers_too_large(limits)
        if version != b"HTTP/1.1" and version != b"HTTP/1.0":  # noqa: PLR1714  # for every request: no set is made
            raise _wrong_version(version)
        if method not in _METHODS and not _METHOD.fullmatch(method):
            raise bad_request("The method is not a method.")
        headers = self._fields(head)
        old = version == b"HTTP/1.0"
        host = headers.get(b"host")
        if host != self._host or not host:
            self._check_host(host, old=old)
        framing = NO_BODY
        if old or not FRAMING.isdisjoint(headers):
            framing = _framing(headers, limits, old=old)
            if framing is not NO_BODY:
                self._parser = None
        if target[:1] != b"/" or _PERCENT in target or _HASH in target:
            path, raw_path, query = _target(target, method, host or b"")
        else:
            raw_path, _, search = target.partition(b"?")
            path, query = raw_path.decode("ascii"), search.decode("ascii")
        fields = (method.decode("ascii"), path, raw_path, query, headers, b"", self._peer)
        request = Request(*fields)
        self._last = (head, request, framing, fields)
        return request, framing

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser's call for each field."""
        name = name.lower()
        value = value.rstrip(b" \t")
        headers = self._headers
        if name in headers:
            if name in ONCE:
                self._twice = name
            value = headers[name] + b", " + value
        headers[name] = value

    def _fields(self, head: bytes) -> dict[bytes, bytes]:
        headers = self._headers = {}
        parser = self._parser
        if parser is None:
            parser = self._parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(head)
        except httptools.HttpParserUpgrade:
            self._parser = None  # An offer to change the protocol is declined by not taking it up.
        except httptools.HttpParserInvalidMethodError:
            raise Refused(501, "not_implemented", "The method is not known.") from None
        except httptools.HttpParserError:
            # An unknown transfer coding is an error to the parser too, after all fields: it has its own status.
            if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
                raise _unknown_coding() from None
            raise bad_request("The request cannot be read.") from None
        if self._twice:
            raise bad_request(f"{self._twice.decode('ascii')} is there twice.")
        return headers

    def _check_host(self, host: bytes | None, *, old: bool) -> None:
        if host is None:
            if not old:
                raise bad_request("Host is missing.")
        elif not _HOST.fullmatch(host):
            raise bad_request("Host is not a host.")
        else:
            self._host = host


def _framing(headers: dict[bytes, bytes], limits: HttpLimits, *, old: bool) -> Framing:
    length = headers.get(b"content-length")
    coding = headers.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise bad_request("Both Content-Length and Transfer-Encoding are there.")
        if old:
            raise bad_request("HTTP/1.0 has no Transfer-Encoding.")
        if coding.lower() != b"chunked":
            raise _unknown_coding()
    size = 0
    if length is not None:
        if not length.isdigit():
            raise bad_request("Content-Length is not a number.")
        if len(length) > 18 or int(length) > limits.body_bytes:
            raise too_large(limits)
        size = int(length)
    expects = not old and headers.get(b"expect", b"").lower() == b"100-continue"
    return Framing(size, coding is not None, _keep_alive(headers, old=old), old, expects)


def _keep_alive(headers: dict[bytes, bytes], *, old: bool) -> bool:
    options = headers.get(b"connection")
    if options is None:
        return not old
    named = {option.strip() for option in options.lower().split(b",")}
    return b"close" not in named and (not old or b"keep-alive" in named)


def _target(target: bytes, method: bytes, host: bytes) -> tuple[str, bytes, str]:
    """Path, path as it came, query."""
    if method == b"CONNECT":
        raise Refused(501, "not_implemented", "This is not a proxy.")
    if b"#" in target:
        raise bad_request("A request has no fragment.")
    if target[:1] != b"/" and target != b"*":
        scheme = _ABSOLUTE.match(target)
        if scheme is None:
            raise bad_request("The target is not a path.")
        if normal_authority(scheme[1], scheme[2]) != normal_authority(scheme[1], host):
            raise bad_request("The target names another host than Host.")
        target = target[scheme.end() :]
        if target[:1] != b"/":
            target = b"/" + target
    raw_path, _, query = target.partition(b"?")
    try:
        if b"%" not in raw_path:
            return raw_path.decode("ascii"), raw_path, query.decode("ascii")
        path = unquote_to_bytes(raw_path).decode("utf-8")
        if _BROKEN_ESCAPE.search(raw_path) or _CONTROL.search(path):
            raise bad_request("The path cannot be decoded.")
        return path, raw_path, query.decode("ascii")
    except UnicodeDecodeError:
        raise bad_request("The path cannot be decoded.") from None


def normal_authority(scheme: bytes, authority: bytes) -> bytes:
    """Host and port in the form that two of them can be compared in."""
    return authority.lower().removesuffix(b":443" if scheme.lower() == b"https" else b":80").removesuffix(b":")


def _wrong_version(version: bytes) -> Refused:
    if _OTHER_VERSION.fullmatch(version):
        return Refused(505, "version_not_supported", "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    return bad_request("The request line does not end in a version of HTTP.")


def _unknown_coding() -> Refused:
    return Refused(501, "not_implemented", "Of the transfer codings only chunked is known.")


def _url_too_long(limits: HttpLimits) -> Refused:
    return Refused(414, "uri_too_long", f"The target is over {limits.url_bytes} bytes.")


def headers_too_large(limits: HttpLimits) -> Refused:
    detail = f"The fields are over {limits.header_bytes} bytes or more than {limits.header_count}."
    return Refused(431, "headers_too_large", detail)


# ---------------------------------------------------------------- the bytes of a response

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}
_BODILESS = (204, 304)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSAFE_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# This layer's own: a handler that sets one of them would be a second opinion.
_OWN = frozenset(
    (
        *(b"connection", b"content-length", b"content-type", b"date", b"transfer-encoding"),
        *(b"cache-control", b"x-content-type-options"),
    )
)

_KEEP_OLD = b"Connection: keep-alive\r\n"
CLOSE: Final = b"Connection: close\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


_NO_STORE = b"Cache-Control: no-store\r\n"
_IMMUTABLE = b"Cache-Control: public, max-age=31536000, immutable\r\n"


def common_fields(seconds: float) -> bytes:
    """The fields of every response at this moment (seconds since 1970)."""
    at = datetime.fromtimestamp(int(seconds), UTC)
    date = f"{_DAYS[at.weekday()]}, {at.day:02} {_MONTHS[at.month - 1]} {at.year:04} {at:%H:%M:%S} GMT"
    return f"Date: {date}\r\nX-Content-Type-Options: nosniff\r\n".encode() + _NO_STORE


def has_body(response: Response) -> bool:
    return response.status not in _BODILESS


def render(response: Response, common: bytes, connection: bytes, *, headers_only: bool, chunked: bool = True) -> bytes:
    """All bytes of a response, or the head of one that has a stream; `headers_only` leaves the body out (HEAD).

    Raises ValueError for what must not be sent.
    """
    body, kind = response.body, response.content_type
    line = _STATUS_LINES.get(response.status)
    if line is None:
        raise ValueError("the status is not one of an answer")
    if kind != b"application/json":
        if _UNSAFE_VALUE.search(kind):
            raise ValueError("the content type is not one line")
        if type(response) is CachedResponse:
            common = common.replace(_NO_STORE, _IMMUTABLE)
    if response.headers:
        connection += _given_fields(response.headers)
    if response.status in _BODILESS:
        return b"%b%b%b\r\n" % (line, common, connection)
    if response.stream is not None:
        coding = b"Transfer-Encoding: chunked\r\n" if chunked else b""
        return b"%b%bContent-Type: %b\r\n%b%b\r\n" % (line, common, kind, coding, connection)
    sent = b"" if headers_only else body
    return b"%b%bContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (line, common, kind, len(body), connection, sent)


def _given_fields(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or _UNSAFE_VALUE.search(value):
            raise ValueError("a header is not one line")
        if name.lower() in _OWN:
            raise ValueError("a header belongs to the connection")
    return b"".join([b"%b: %b\r\n" % header for header in headers])
