"""What a client says and what it makes of the answers, without any I/O.

A flow is a generator: it yields a `Request` or a `Pause`, is sent the `Response` (or thrown `Broken`), and returns what
the caller wanted. `sdk.client.connection` carries flows out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache, partial
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from parley.domain.errors.errors import Invalid, ParleyError, Unavailable
from parley.sdk.protocol.refusal import refusal
from parley.sdk.transport.port import Broken, Place, Request, Response

T = TypeVar("T")

_API = "/api/v1"
# How long to wait before each try after the first: where nobody was, and where somebody was who may be restarting.
_PAUSES: tuple[float, ...] = (0.1, 0.4)
_PATIENT_PAUSES = (*_PAUSES, 1.0, 2.0, 4.0)
# What stands in a path as it is, besides letters and digits; the path of an address may be quoted already.
_IN_A_PATH = "/%:@!$&'()*+,;="
# A server that asks for more patience than this is not waited for.
_LONGEST_WAIT = 10.0
_SHORTEST_WAIT = 0.05
# Both are needed for every request; the parts of paths are few words, and ids that come again soon.
_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_quoted = lru_cache(maxsize=4_096)(partial(quote, safe=""))
# Operating systems do not count so many seconds.
_FOR_EVER = 1e9


class Pause(NamedTuple):
    """So many seconds in which nothing is sent."""

    seconds: float


class Answer(NamedTuple):
    """What the server said: the status, headers by lower-case name, and the document."""

    status: int
    headers: Mapping[str, str]
    document: Any
    content: bytes = b""


Flow: TypeAlias = Generator[Request | Pause, Any, T]


class ApiSession:
    """Who talks to which server, and how: everything that a flow needs to know, and nothing that does I/O.

    A request whose connection broke is sent again where that is safe: a GET always; a POST because it carries an
    Idempotency-Key, so that the server carries it out once; anything else only when it cannot have arrived. A server
    that asks to be left alone for a while (429, 503 with Retry-After) is asked again after it, within `patience`.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 30.0,
        patience: float = _LONGEST_WAIT,
        hints: Mapping[str, str] | None = None,
        new_key: Callable[[], str],
        monotonic: Callable[[], float],
    ) -> None:
        self.url = url.rstrip("/")
        self.agent = agent
        self.place = target_of(self.url)
        self.monotonic = monotonic
        self.timeout = some_seconds("timeout", timeout)
        self._prefix = self.place.prefix + _API
        self._patience = patience
        self._hints = hints or {}
        self._new_key = new_key
        self._reached = False
        self._headers = {"accept": "application/json"}
        for name, value in (("x-api-key", key), ("x-agent-id", agent)):
            if value:
                self._headers[name] = header(name, value)

    def target(self, path: tuple[str, ...], query: Mapping[str, object] | None = None) -> str:
        """Path and query; what is None or empty in the query is left out."""
        try:
            target = f"{self._prefix}/{'/'.join([_quoted(part) for part in path])}"
        except (TypeError, UnicodeEncodeError):
            raise Invalid(f"a name or an id is a text, not {_no_text(path)!r}") from None
        if not query:
            return target
        fields = {name: _query_value(value) for name, value in query.items() if value not in (None, "")}
        return f"{target}?{urlencode(fields)}" if fields else target

    def request(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 0.0,
        streams: bool = False,
    ) -> Request:
        """A request of this session. A POST gets a key of its own, so that it can be sent again."""
        fields = {**self._headers, **(headers or {})}
        content = b""
        if method == "POST" and "idempotency-key" not in fields:
            fields["idempotency-key"] = self._new_key()
        if body is not None:
            content = encoded(body)
            fields["content-type"] = "application/json"
        if streams:
            fields["accept"] = "text/event-stream"
        return Request(method, self.target(path, query), fields, content, timeout or self.timeout, streams)

    def send(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 0.0,
        parsed: bool = True,
        within: float = inf,
    ) -> Flow[Answer]:
        """Send a request and read its answer; a refusal is raised as the error it is.

        With `parsed=False` the document is left out, for whoever reads `content` in a faster way. It is not sent again
        later than `within` so many seconds.
        """
        request = self.request(method, *path, body=body, query=query, headers=headers, timeout=timeout)
        try:
            response = yield from self._tried(request, self.monotonic() + within)
            return self.answer(response, parsed=parsed)
        except ParleyError as error:
            raise self.with_hint(error) from None

    def _tried(self, request: Request, until: float) -> Flow[Response[Any]]:
        """The answer of the first try that gets one; none begins after a moment of the clock."""
        again = request.method in ("GET", "HEAD") or "idempotency-key" in request.headers
        # Whoever has answered before is only away for a moment.
        pauses, arrived, tried, waited = (_PATIENT_PAUSES if self._reached else _PAUSES), False, 0, 0.0
        while True:
            try:
                response: Response[Any] = yield request
            except Broken as broken:
                arrived = arrived or broken.arrived
                pauses = _PATIENT_PAUSES if arrived else pauses
                hopeless = broken.timed_out or broken.malformed or (arrived and not again)
                if tried == len(pauses) or hopeless or self.monotonic() + pauses[tried] > until:
                    raise self.lost(broken, arrived=arrived) from None
                yield Pause(pauses[tried])
                tried += 1
                continue
            self._reached = True
            rest = _asked_rest(response, again=again)
            if rest is None or waited + rest > self._patience or self.monotonic() + rest > until:
                return response
            waited += rest
            yield Pause(rest)

    def answer(self, response: Response[Any], *, parsed: bool = True) -> Answer:
        """What a response says; a refusal is raised."""
        status, content = response.status, response.body
        if status < 300 and not parsed:
            return Answer(status, response.headers, None, content)
        try:
            document = json.loads(content) if content else None
            understood = status < 300 or isinstance(document, dict)
        except ValueError:
            document, understood = None, False
        if not understood and (status < 500 or content):
            raise Unavailable(f"{self.url} does not answer like a Parley server (status {status})")
        if status >= 300:
            raise refusal(status, document, response.headers.get("retry-after", ""))
        return Answer(status, response.headers, document, content)

    def lost(self, broken: Broken, *, arrived: bool) -> Unavailable:
        """The error for a connection that broke."""
        if broken.timed_out:
            return Unavailable(f"{self.url} did not answer in time", facts={"arrived": arrived})
        if broken.malformed:
            text = f"{self.url} does not answer like a Parley server: {broken.reason}"
            return Unavailable(text, facts={"arrived": arrived})
        if arrived:
            return Unavailable(f"the connection to {self.url} broke: {broken.reason}", facts={"arrived": True})
        hint = self._hints.get("unreachable", "")
        return Unavailable(f"no server answers at {self.url}: {broken.reason}", hint=hint, facts={"arrived": False})

    def with_hint(self, error: ParleyError) -> ParleyError:
        """An error with what to do about it, where we know."""
        if error.message.endswith(")"):
            return error  # the server has said what to do
        keys = [*(f"{problem.code} {problem.field}" for problem in error.problems), error.code]
        error.hint = error.hint or next((self._hints[key] for key in keys if key in self._hints), "")
        return error


def target_of(url: str) -> Place:
    """The place that an address names, or `Invalid`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or "@" in url:
        before, at, rest = url.rpartition("@")
        shown = f"...@{rest}" if at and before else url  # no password in an error: those go into logs
        raise Invalid(
            f"{shown!r} is no address of a server",
            hint="write http://HOST:PORT; where an agent runs may also be mailbox:PROJECT",
        )
    secure = parts.scheme == "https"
    # Where the API is may be given instead of where the server is.
    prefix = quote(parts.path.rstrip("/").removesuffix(_API), safe=_IN_A_PATH)
    return Place(secure, host, port or (443 if secure else 80), prefix)


def header(name: str, value: str) -> str:
    """A value that a header can have, or `Invalid`."""
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise Invalid(f"{name} holds characters that it cannot have")
    return value


def encoded(body: object) -> bytes:
    """A document as JSON, or `Invalid`."""
    try:
        return _json.encode(body).encode()
    except UnicodeEncodeError:
        raise Invalid("half a character cannot be sent") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"this cannot be sent as JSON: {error}") from None


def some_seconds(name: str, value: object) -> float:
    """A length of time, or `Invalid`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _FOR_EVER:
        return value
    raise Invalid(f"{name} is a number of seconds above 0, not {value!r}")


def _no_text(path: tuple[object, ...]) -> object:
    """The part of a path that cannot stand in one."""
    return next((part for part in path if not isinstance(part, str) or not part.isprintable()), path)


def _query_value(value: object) -> object:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _asked_rest(response: Response[Any], *, again: bool) -> float | None:
    """How long the server wants to be left alone before it is asked the same again; None when it is not to be asked."""
    if response.status == 429 or (response.status == 503 and again):
        seconds = response.headers.get("retry-after", "")
        return max(float(seconds), _SHORTEST_WAIT) if seconds.isascii() and seconds.isdigit() else None
    return None
