"""A connection to a server: JSON over HTTP, refusals as Parley's errors, streams that survive a break."""

from __future__ import annotations

import http.client
import json
import select
import time
from contextlib import closing
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from parley.domain.errors import Forbidden, Invalid, ParleyError, Unavailable
from parley.domain.team_errors import AskTimeout, RateLimited
from parley.sdk.event_stream import EventParser, StreamEvent
from parley.sdk.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from http.client import HTTPConnection, HTTPResponse
    from types import TracebackType

_API = "/api/v1"
# How long to wait before each try after the first: where nobody was, and where somebody was who may be restarting.
_PAUSES: tuple[float, ...] = (0.1, 0.4)
_PATIENT_PAUSES = (*_PAUSES, 1.0, 2.0, 4.0)
# An idle stream says every 15 seconds that it is there.
_STREAM_SECONDS = 45.0
_LONGEST_PAUSE = 5.0
# How much longer than the server we wait for an answer, and how long it may hold a page back.
_GRACE_SECONDS = 15.0
_POLL_SECONDS = 15.0
_CHUNK = 65_536


class Answer(NamedTuple):
    """What the server said: the status, headers by lower-case name, and the document."""

    status: int
    headers: Mapping[str, str]
    document: Any


class Connection:
    """Talks to one server as one caller. One thread uses it at a time; it may be left open for as long as one likes.

    A request whose connection broke is sent again where that is safe: a GET always; a POST because it carries an
    Idempotency-Key, so that the server carries it out once; anything else only when it cannot have arrived.
    `hints` says what to do about a refusal, by the error's code.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 30.0,
        hints: Mapping[str, str] | None = None,
        new_key: Callable[[], str] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self.agent = agent
        self._secure, self._host, self._port, self._prefix = _target(self.url)
        self._headers = {"Accept": "application/json"}
        for name, value in (("X-API-Key", key), ("X-Agent-ID", agent)):
            if value:
                self._headers[name] = _header(name, value)
        self._timeout = timeout
        self._hints = hints or {}
        self._new_key = new_key or _new_key
        self._pause = pause
        self._open: HTTPConnection | None = None

    def get(self, *path: str, query: Mapping[str, object] | None = None, timeout: float = 0.0) -> Any:  # noqa: ANN401
        """The document at a path, whose parts are given one by one."""
        return self.send("GET", *path, query=query, timeout=timeout).document

    def post(
        self,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        timeout: float = 0.0,
    ) -> Any:  # noqa: ANN401
        """Post a document, once even if it has to be sent twice; the answer."""
        return self.send("POST", *path, body=body, query=query, timeout=timeout).document

    def send(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 0.0,
    ) -> Answer:
        """Send a request and read its answer; a refusal is raised as the error it is."""
        fields = {**self._headers, **(headers or {})}
        if method == "POST":
            fields.setdefault("Idempotency-Key", self._new_key())
        content = None
        if body is not None:
            content = _encoded(body)
            fields["Content-Type"] = "application/json"
        again = method in ("GET", "HEAD") or "Idempotency-Key" in fields
        try:
            response, read = self._tried(method, self._path(path, query), content, fields, timeout, again=again)
            return self._answer(response, read)
        except ParleyError as error:
            raise self._with_hint(error) from None

    def ask(
        self,
        channel_id: str,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Ask in a channel and wait for the first answer, which comes back. `AskTimeout` when there is none in time.

        A question that waits for a person comes back as it is held: `status` is "held", `approval` its id.
        A server that restarts meanwhile has the question already; then the answer is looked for in the channel.
        """
        from parley.wiring import monotonic

        until = monotonic() + timeout
        body: dict[str, Any] = {"to": to, "payload": payload, "timeout": timeout}
        if metadata:
            body["metadata"] = metadata
        said = self.post("channels", channel_id, "ask", body=body, timeout=timeout + _GRACE_SECONDS)
        if said.get("status") == "held":
            return said
        question = cursor = said["id"]
        while said.get("correlation_id") is None:
            left = until - monotonic()
            if left <= 0:
                raise self._with_hint(AskTimeout(f"{to} did not answer within {timeout:g} seconds"))
            query = {"since": cursor, "wait": f"{min(left, _POLL_SECONDS):.3f}"}
            page = self.get("channels", channel_id, "messages", query=query)
            cursor = page[-1]["id"] if page else cursor
            said = next((one for one in page if one["correlation_id"] == question), said)
        return said

    def follow(
        self,
        *path: str,
        after: str = "",
        broken: Callable[[str], None] | None = None,
    ) -> Iterator[StreamEvent]:
        """The events of a stream, for ever. After a break it goes on behind the last event that was dealt with.

        `broken` is told each time why it had to begin again. Raises what the server refuses, and `Unavailable` when
        there is no server to begin with.
        """
        begun, pause = False, 1.0
        while True:
            try:
                with closing(self._events(path, after)) as events:
                    for event in events:
                        begun, pause = True, 1.0
                        if event.name == "revoked":
                            raise Forbidden("you may no longer follow this")
                        if event.name:
                            yield event
                        after = event.id or after
                said = "the server ended the stream"
            except (Unavailable, RateLimited) as error:
                if not begun:
                    raise self._with_hint(error) from None
                said = error.message
            except ParleyError as error:
                raise self._with_hint(error) from None
            if broken is not None:
                broken(said)
            self._pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def lines(self, *path: str, query: Mapping[str, object] | None = None) -> Iterator[bytes]:
        """An answer line by line, byte for byte as the server sends it, however long it is."""
        connection: HTTPConnection | None = None
        try:
            connection = self._made(_STREAM_SECONDS)
            connection.request("GET", self._path(path, query), headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                self._answer(response, response.read())
            rest = b""
            # Not `readline`: it takes a connection that broke for the end.
            while content := response.read1(_CHUNK):
                *lines, rest = (rest + content).split(b"\n")
                yield from (line + b"\n" for line in lines)
            if rest:
                yield rest
        except (OSError, HTTPException) as broken:
            raise self._with_hint(self._lost(broken, arrived=connection is not None)) from None
        except ParleyError as error:
            raise self._with_hint(error) from None
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Let go of the connection; the next request opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tried(
        self,
        method: str,
        target: str,
        content: bytes | None,
        fields: dict[str, str],
        timeout: float,
        *,
        again: bool,
    ) -> tuple[HTTPResponse, bytes]:
        """The answer of the first try that gets one."""
        pauses, arrived, tried = _PAUSES, False, 0
        while True:
            try:
                connection = self._connected(timeout or self._timeout)
                pauses, arrived = _PATIENT_PAUSES, True
                connection.request(method, target, content, fields)
                response = connection.getresponse()
                read = response.read()
            except (OSError, HTTPException) as broken:
                self.close()
                if tried == len(pauses) or isinstance(broken, TimeoutError) or (arrived and not again):
                    raise self._lost(broken, arrived=arrived) from None
                self._pause(pauses[tried])
                tried += 1
                continue
            if response.will_close:
                self.close()
            return response, read

    def _connected(self, timeout: float) -> HTTPConnection:
        if self._open is not None and _has_ended(self._open):
            self.close()
        if self._open is None:
            self._open = self._made(timeout)
        if self._open.sock is not None:
            self._open.sock.settimeout(timeout)
        return self._open

    def _made(self, timeout: float) -> HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        made = kind(self._host, self._port, timeout=timeout)
        made.connect()
        return made

    def _answer(self, response: HTTPResponse, content: bytes) -> Answer:
        status = response.status
        try:
            document = json.loads(content) if content else None
            understood = status < 300 or isinstance(document, dict)
        except ValueError:
            document, understood = None, False
        if not understood and (status < 500 or content):
            raise Unavailable(f"{self.url} does not answer like a Parley server (status {status})")
        if status >= 300:
            raise refusal(status, document, response.headers.get("Retry-After", ""))
        return Answer(status, {name.lower(): value for name, value in response.getheaders()}, document)

    def _events(self, path: tuple[str, ...], after: str) -> Generator[StreamEvent, None, None]:
        fields = {**self._headers, "Accept": "text/event-stream"}
        if after:
            fields["Last-Event-ID"] = _header("Last-Event-ID", after)
        connection: HTTPConnection | None = None
        try:
            connection = self._made(_STREAM_SECONDS)
            connection.request("GET", self._path(path, None), headers=fields)
            response = connection.getresponse()
            if response.status != 200:
                self._answer(response, response.read())
            parser = EventParser()
            # The opening is worth knowing, too: from here on a break is only a break.
            yield StreamEvent("", "", "")
            while content := response.read1(_CHUNK):
                yield from parser.feed(content)
        except (OSError, HTTPException) as broken:
            raise self._lost(broken, arrived=connection is not None) from None
        finally:
            if connection is not None:
                connection.close()

    def _path(self, path: tuple[str, ...], query: Mapping[str, object] | None) -> str:
        target = f"{self._prefix}{_API}/{'/'.join(quote(part, safe='') for part in path)}"
        given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        return f"{target}?{urlencode(given)}" if given else target

    def _lost(self, broken: OSError | HTTPException, *, arrived: bool) -> Unavailable:
        if isinstance(broken, TimeoutError):
            return Unavailable(f"{self.url} did not answer in time", facts={"arrived": arrived})
        said = getattr(broken, "strerror", None) or str(broken) or type(broken).__name__
        if arrived:
            return Unavailable(f"the connection to {self.url} broke: {said}", facts={"arrived": True})
        hint = self._hints.get("unreachable", "")
        return Unavailable(f"no server answers at {self.url}: {said}", hint=hint, facts={"arrived": False})

    def _with_hint(self, error: ParleyError) -> ParleyError:
        if error.message.endswith(")"):
            return error  # the server has said what to do
        keys = [*(f"{problem.code} {problem.field}" for problem in error.problems), error.code]
        error.hint = error.hint or next((self._hints[key] for key in keys if key in self._hints), "")
        return error


def _target(url: str) -> tuple[bool, str, int | None, str]:
    """Whether to encrypt, host, port and the path that goes before ours."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise Invalid(f"{url!r} is no address of a server", hint="write http://HOST:PORT")
    return parts.scheme == "https", host, port, parts.path.rstrip("/")


def _header(name: str, value: str) -> str:
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise Invalid(f"{name} holds characters that it cannot have")
    return value


def _encoded(body: object) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise Invalid("half a character cannot be sent") from None
    except (TypeError, ValueError) as error:
        raise Invalid(f"this cannot be sent as JSON: {error}") from None


def _has_ended(connection: HTTPConnection) -> bool:
    """Whether the server has closed a connection that nothing is expected on."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _new_key() -> str:
    from parley.wiring import SystemIds

    return SystemIds().token()
