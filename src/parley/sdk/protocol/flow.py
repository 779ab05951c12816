"""The requests of a client, their retries and their answers, without any I/O.

A flow is a generator: it yields a `Request` or a `Pause`, is sent the `Response` (or thrown `Broken`), and returns the
result. `sdk.client.connection` runs flows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache, partial
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from parley.domain.errors.errors import Invalid, ParleyError, Unavailable
from parley.domain.names import is_loopback
from parley.sdk.protocol.refusal import refusal
from parley.sdk.transport.port import Broken, Place, Request, Response

T = TypeVar("T")

_API = "/api/v1"
# Seconds before each retry; the last is repeated.
_PAUSES: tuple[float, ...] = (0.1, 0.4, 1.0, 2.0)
# Not quoted in a path, besides letters and digits; the path of an address may be quoted already.
_SAFE_IN_PATH = "/%:@!$&'()*+,;="
_PATIENCE_SECONDS = 10.0
_RETRY_AFTER_MIN = 0.05


def _default(value: object) -> object:
    """JSON for dataclasses, times and whatever else the encoder does not know."""
    from parley.sdk.protocol.payloads import json_default

    return json_default(value)


# Made once, since every request needs them. The parts of paths are few words, and ids that are used again soon.
_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default)
_quoted = lru_cache(maxsize=4_096)(partial(quote, safe=""))
# Operating systems refuse longer timeouts.
_TIMEOUT_MAX = 1e9


class Pause(NamedTuple):
    """Wait before the next request."""

    seconds: float


class Answer(NamedTuple):
    """A response: the status, headers by lower-case name, and the JSON document."""

    status: int
    headers: Mapping[str, str]
    document: Any
    content: bytes = b""


Flow: TypeAlias = Generator[Request | Pause, Any, T]


class ApiSession:
    """The server, key and agent of a client, and how it retries: everything that a flow needs, without I/O.

    A request whose connection broke is sent again where that is safe: a GET always; a POST because it carries an
    Idempotency-Key, so that the server carries it out once; anything else only when it cannot have arrived. After 429
    and 503 with Retry-After, it is sent again at that time. Retries go on for `patience` seconds, or for the time that
    the call itself was given. `connect_patience` limits them for a server that has never answered.

    `url` may be several addresses of one installation, separated by commas.
    """

    def __init__(  # noqa: PLR0913  # one parameter a choice
        self,
        url: str,
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 30.0,
        patience: float = _PATIENCE_SECONDS,
        connect_patience: float = inf,
        hints: Mapping[str, str] | None = None,
        new_key: Callable[[], str],
        monotonic: Callable[[], float],
    ) -> None:
        urls = [part.strip().rstrip("/") for part in url.split(",") if part.strip()] or [url]
        self.url = ",".join(urls)
        self.agent = agent
        self.places = [target_of(part) for part in urls]
        self.place = self.places[0]
        self.monotonic = monotonic
        self.timeout = some_seconds("timeout", timeout)
        self._prefix = self.place.prefix + _API
        self._patience = patience
        self._connect_patience = connect_patience
        self._hints = hints or {}
        # For a request that may have to be named before it is answered.
        self.new_key = new_key
        self._reached = False
        self._headers = {"accept": "application/json"}
        for name, value in (("x-api-key", key), ("x-agent-id", agent)):
            if value:
                self._headers[name] = header(name, value)

    def target(self, path: tuple[str, ...], query: Mapping[str, object] | None = None) -> str:
        """Path and query, without the query fields that are None or empty."""
        try:
            target = f"{self._prefix}/{'/'.join([_quoted(part) for part in path])}"
        except (TypeError, UnicodeEncodeError):
            raise Invalid(f"a name or an id is a text, not {_not_text(path)!r}") from None
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
            fields["idempotency-key"] = self.new_key()
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
        within: float | None = None,
    ) -> Flow[Answer]:
        """Send a request and read its answer; a refusal is raised as the error it is.

        With `parsed=False` the document is left out: the caller decodes `content` itself. Retries go on for
        `within` seconds instead of `patience`.
        """
        request = self.request(method, *path, body=body, query=query, headers=headers, timeout=timeout)
        try:
            response = yield from self.send_with_retries(request, within)
            return self.answer(response, parsed=parsed)
        except ParleyError as error:
            raise self.with_hint(error) from None

    def send_with_retries(self, request: Request, within: float | None = None) -> Flow[Response[Any]]:
        """The first response; `Unavailable` when there is none within `within` seconds, or within `patience`."""
        repeatable = request.method in ("GET", "HEAD") or "idempotency-key" in request.headers
        patience = self._patience if within is None else within
        # The pauses are counted, too: retries end even if the clock stands still.
        until, waited, arrived, tries = self.monotonic() + patience, 0.0, False, 0
        while True:
            try:
                response: Response[Any] = yield request
            except Broken as broken:
                arrived = arrived or broken.arrived
                final = broken.malformed or (broken.arrived and broken.timed_out) or (arrived and not repeatable)
                limit = patience if arrived else min(patience, self._unreached_limit)
                left = min(until - self.monotonic(), limit - waited)
                if final or left <= 0:
                    raise self.connection_error(broken, arrived=arrived) from None
                pause = min(_PAUSES[min(tries, len(_PAUSES) - 1)], left)
                tries += 1
            else:
                self._reached = True
                retry_after = _retry_after(response, repeatable=repeatable)
                if retry_after is None or retry_after > min(until - self.monotonic(), patience - waited):
                    return response
                pause = retry_after
            waited += pause
            yield Pause(pause)

    @property
    def opening_patience(self) -> float:
        """How many seconds to wait for a server that cannot be reached."""
        return min(self._patience, self._unreached_limit)

    @property
    def _unreached_limit(self) -> float:
        return inf if self._reached else self._connect_patience

    def answer(self, response: Response[Any], *, parsed: bool = True) -> Answer:
        """The answer in a response; a refusal is raised."""
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

    def connection_error(self, broken: Broken, *, arrived: bool) -> Unavailable:
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
        """An error with a hint, where this client has one for it."""
        if error.message.endswith(")"):
            return error  # the server has said what to do
        keys = [*(f"{problem.code} {problem.field}" for problem in error.problems), error.code]
        error.hint = error.hint or next((self._hints[key] for key in keys if key in self._hints), "")
        return error


def target_of(url: str) -> Place:
    """The host, port and path of an address, or `Invalid`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or "@" in url:
        before, at, rest = url.rpartition("@")
        shown = f"...@{rest}" if at and before else url  # errors are logged, so no password
        raise Invalid(
            f"{shown!r} is no address of a server",
            hint="write http://HOST:PORT; where an agent runs may also be mailbox:PROJECT",
        )
    secure = parts.scheme == "https"
    # The address of the API is accepted, too.
    prefix = quote(parts.path.rstrip("/").removesuffix(_API), safe=_SAFE_IN_PATH)
    return Place(secure, host, port or (443 if secure else 80), prefix)


def check_encrypted(place: Place, key: str, *, plain_http: bool) -> None:
    """Refuse to send a key in the clear to another machine, unless that is allowed."""
    if key and not place.secure and not plain_http and not is_loopback(place.host):
        raise Invalid(
            f"the key would travel to {place.host} in the clear",
            hint="use https://, or set PARLEY_PLAIN_HTTP=any where nobody else can listen",
        )


def header(name: str, value: str) -> str:
    """A value that is allowed in a header, or `Invalid`."""
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without a type checker
        raise Invalid(f"{name} is a text, not {type(value).__name__}")
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise Invalid(f"{name} has characters that a header cannot have")
    return value


def encoded(body: object) -> bytes:
    """A document as JSON, or `Invalid`."""
    try:
        return _json.encode(body).encode()
    except UnicodeEncodeError:
        raise Invalid("the text has a lone surrogate, which UTF-8 cannot encode") from None
    except (TypeError, ValueError, RecursionError):
        from parley.sdk.protocol.payloads import problem_in  # only for those who need it, as below

        raise Invalid(f"this cannot be sent as JSON: {problem_in(body, _json.encode)}") from None


def as_payload(value: object) -> dict[str, Any]:
    """A value as a payload: a mapping as it is, other values as `sdk.protocol.payloads` says."""
    if isinstance(value, dict):
        return value
    from parley.sdk.protocol.payloads import payload_of

    return payload_of(value)


def some_seconds(name: str, value: object) -> float:
    """A length of time, or `Invalid`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _TIMEOUT_MAX:
        return value
    raise Invalid(f"{name} is a number of seconds above 0, not {value!r}")


def _not_text(path: tuple[object, ...]) -> object:
    """The part of a path that is not printable text."""
    return next((part for part in path if not isinstance(part, str) or not part.isprintable()), path)


def _query_value(value: object) -> object:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _retry_after(response: Response[Any], *, repeatable: bool) -> float | None:
    """The seconds until a request may be sent again, as the server says; None if it must not be."""
    if response.status == 429 or (response.status == 503 and repeatable):
        seconds = response.headers.get("retry-after", "")
        return max(float(seconds), _RETRY_AFTER_MIN) if seconds.isascii() and seconds.isdigit() else None
    return None
