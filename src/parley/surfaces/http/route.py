"""Routes: path, scope, body and responses of each operation. The OpenAPI document is generated from them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from parley.domain.agents.party import PAIR_MARK
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.errors import Invalid, Problem
from parley.surfaces.entrance.authentication import sender_of
from parley.surfaces.http.http1.message import Request, Response

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.store.changes import Committed, TeamChanges

AGENTS = frozenset({KeyKind.AGENT, KeyKind.SERVICE, KeyKind.ADMIN})
EVERYBODY = frozenset(KeyKind) - {KeyKind.AUDITOR}
ADMINS = frozenset({KeyKind.ADMIN})
# What an auditor reads, too. No operation with one of these scopes writes.
READ_BY_ALL = frozenset(KeyKind)
READ_BY_AGENTS = AGENTS | {KeyKind.AUDITOR}
READ_BY_ADMINS = ADMINS | {KeyKind.AUDITOR}
# No key needed.
PUBLIC: frozenset[KeyKind] = frozenset()

_MOST_FIELDS = 100
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
encode = msgspec.json.Encoder().encode


class Param(NamedTuple):
    """One query parameter."""

    name: str
    about: str
    type: str = "string"
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


class Call:
    """One request: the caller, path parameters, query and body."""

    __slots__ = ("body", "caller", "is_counted", "is_of_page", "is_read", "params", "query", "request", "team")

    def __init__(self, team: Team, request: Request, caller: Caller, params: dict[str, str]) -> None:
        self.team = team
        self.request = request
        self.caller = caller
        self.params = params
        self.query: dict[str, str] = {}
        self.body: Any = None
        # Whether query and body were read.
        self.is_read = False
        # Whether the request was counted for the rate limit of its key.
        self.is_counted = False
        # Whether a page of the server asks, in process.
        self.is_of_page = False

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number from the query, within bounds."""
        text = self.query.get(name, "")
        if not text:
            return default
        value = float(text) if _NUMBER.fullmatch(text) else float("nan")
        if not low <= value <= high:
            raise Invalid.because([Problem("invalid", name, f"must be a number from {low:.12g} to {high:.12g}")])
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """An integer from the query, within bounds."""
        value = self.number(name, default, low, high)
        if value != int(value):
            raise Invalid.because([Problem("invalid", name, "must be a whole number")])
        return int(value)

    def choice(self, name: str, *choices: str) -> str:
        """One of several values from the query; the first is the default."""
        text = self.query.get(name, choices[0])
        if text not in choices:
            raise Invalid.because([Problem("invalid", name, f"must be {' or '.join(choices)}")])
        return text

    def pair(self, name: str) -> tuple[str, str] | None:
        """Two names from the query, separated by a comma."""
        text = self.query.get(name, "")
        first, comma, second = [part.strip() for part in text.partition(PAIR_MARK)]
        if (text and not (first and comma and second)) or PAIR_MARK in second:
            raise Invalid.because([Problem("invalid", name, "must be two names, separated by a comma")])
        return (first, second) if text else None

    def flag(self, name: str) -> bool:
        """A boolean from the query."""
        text = self.query.get(name, "")
        if text not in ("", "true", "false", "1", "0"):
            raise Invalid.because([Problem("invalid", name, "must be true or false")])
        return text in ("true", "1")

    async def speaker(self, sender: str | None) -> Caller:
        """The caller as the agent that the body names."""
        return await sender_of(self.team, self.caller, sender)


Answer = Callable[[Call], Awaitable[Response]]


class Submit(NamedTuple):
    """How the common call of a route is answered without a coroutine, by the completion of its one commit."""

    # What it writes, if that follows from what is in memory; None: the call needs the route's `answer`. Where other
    # nodes write, too, it names the generation of the keys.
    changes: Callable[[Call], TeamChanges | None]
    response: Callable[[Committed], Response]


class Route(NamedTuple):
    """One operation. `path` is below /api/v1 (and /v1) unless it is `bare`; `answers` maps a status to its schema."""

    method: str
    path: str
    answer: Answer
    summary: str
    tag: str
    answers: Mapping[int, Any]
    scope: frozenset[KeyKind] = AGENTS
    body: type[Any] | None = None
    body_optional: bool = False
    # The handler converts the document itself, for more precise errors.
    body_raw: bool = False
    # The response contains a secret, and is never stored for an idempotency key.
    confidential: bool = False
    query: tuple[Param, ...] = ()
    headers: tuple[Param, ...] = ()
    bare: bool = False
    # Served even when the server's clock is wrong.
    untimed: bool = False
    streams: bool = False
    # Its answer is given to one client and to nobody else: it ends when the client stops sending, and gives nothing.
    ends_with_client: bool = False
    # Served to a suspended agent, too: its own record; and its messages, whose refusal the rules record.
    while_suspended: bool = False
    # A person decides by it, so often a minute at most.
    decides: bool = False
    # Its single commit writes the idempotency key, so a repeated call is recognised by that commit.
    keyed: bool = False
    # Renders the response of a repeated call from the ids of what the first call created, in its commit.
    again: Callable[[Call, str], Awaitable[Response]] | None = None
    # Renders the body of a 201 response from the messages that the call posts; it is stored in their commit.
    posted: Callable[[Call, tuple[Post, ...]], bytes] | None = None
    # The same from the first record that the call writes, for a response with the first status of `answers`.
    written: Callable[[Any], object] | None = None
    # A repeated call gets what is stored now. Its response quotes what was said, and would outlive an erasure.
    unsaved: bool = False
    # Tried before `answer`: the common call, answered by the completion of its commit.
    submit: Submit | None = None
    # Maximum number of documents in one body.
    documents: int = 1
    # Error statuses besides those common to all routes of its kind.
    refusals: tuple[int, ...] = ()
    content_type: str = "application/json"


def operation_name(method: str, path: str, params: Mapping[str, str]) -> str:
    """What an idempotency key belongs to: an operation below /api/v1, or /v1 which is the same, with its parameters."""
    escaped = {name: value.replace("/", "%2F") for name, value in params.items()}
    return f"{method}\n/api/v1{path.format_map(escaped)}"


def parse_query(text: str) -> dict[str, str]:
    """The fields of the query as texts; the last one of a name wins."""
    if not text:
        return {}
    if "%00" in text:
        raise Invalid.because([Problem("invalid", "query", "holds a character that is none")])
    try:
        return dict(
            parse_qsl(
                text,
                keep_blank_values=True,
                strict_parsing=False,
                max_num_fields=_MOST_FIELDS,
                encoding="utf-8",
                errors="strict",
            )
        )
    except (ValueError, UnicodeDecodeError):
        raise Invalid.because([Problem("invalid", "query", "cannot be read")]) from None


def json(status: int, document: object, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """A JSON answer."""
    return Response(status, encode(document), headers=headers)


def etag(version: int) -> tuple[tuple[bytes, bytes], ...]:
    """The version as a header."""
    return ((b"ETag", b'"%d"' % version),)


def if_match(request: Request) -> int | None:
    """The version that a change depends on: `1`, `"1"` or `W/"1"`; None without the header."""
    text = request.header(b"if-match").strip()
    if not text or text == "*":
        return None
    bare = text.removeprefix("W/").strip('"')
    if not bare.isascii() or not bare.isdigit() or len(bare) > 15:
        raise Invalid.because([Problem("invalid", "If-Match", "must be a version")])
    return int(bare)
