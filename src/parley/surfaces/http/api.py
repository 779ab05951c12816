"""The API: finds the route, has the gate name the caller, reads the body, remembers idempotency keys, words refusals.

What was carried out once is not carried out again: the key is written in the commit of what it was used for, the answer
after it.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from parley.domain.directory.callers import Caller, KeyKind, Saved
from parley.domain.errors.errors import Invalid, ParleyError, Problem, Stale, Unavailable
from parley.domain.errors.team import KeyReused, ScopeRequired, UnsupportedMedia
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp
from parley.surfaces.http.http1.message import Request, Response
from parley.surfaces.http.problem import problem, problem_of, status_of
from parley.surfaces.http.route import Call, Route, parse_query
from parley.surfaces.http.validation import readable
from parley.wire.json_strict import JsonLimits, parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from parley.app.team.team import Team
    from parley.domain.store.changes import Committed
    from parley.surfaces.entrance.gate import Gate
    from parley.surfaces.http.metrics import Metrics

_PREFIXES = ("/api/v1/", "/v1/")
_LONGEST_KEY = 255
# How long one waits for the answer of a request that is under way, and how often one looks for it.
_UNDER_WAY_SECONDS = 2.0
_LOOK_SECONDS = 0.05
_MOST_NAMES = 64
# Where streams are: the SDK reconnects at once, for ever, when it is refused.
_REFUSAL_SECONDS = 1.0
_NOBODY = Caller("", "", KeyKind.AGENT, "")


class _Node:
    """One step of a path: by its name, or by whatever stands there."""

    __slots__ = ("any", "any_name", "named", "routes")

    def __init__(self) -> None:
        self.named: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.any_name = ""
        self.routes: dict[str, Route] = {}


class Api:
    """Answers requests. What goes wrong inside is logged with a reference and shown without detail."""

    def __init__(
        self,
        team: Team,
        gate: Gate,
        routes: Iterable[Route],
        hosts: frozenset[str],
        metrics: Metrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._team = team
        self._metrics = metrics
        self._monotonic = monotonic
        self._gate = gate
        self._hosts = hosts
        # Names, as they were sent, that turned out to be ours.
        self._answers_to: set[bytes] = set()
        self._writing: set[asyncio.Future[Committed]] = set()
        self._bare = _Node()
        self._below = _Node()
        limits = team.limits
        self._json_limits = JsonLimits(limits.payload_depth + 1, limits.payload_keys + 100, limits.payload_string_bytes)
        for route in routes:
            _plant(self._bare if route.bare else self._below, route)

    def __call__(self, request: Request) -> Response | Awaitable[Response]:
        """The answer to a request."""
        refusal = self._check_origin(request)
        if refusal is not None:
            return refusal
        route, params = self._find(request)
        if route is None:
            if params is None:
                return problem(404, "not_found", "there is no such thing")
            allowed = ", ".join(sorted(params)).encode()
            answer = problem(405, "method_not_allowed", "this is not done here")
            answer.headers = ((b"Allow", allowed),)
            return answer
        return self._answer(route, request, params or {})

    def _find(self, request: Request) -> tuple[Route | None, dict[str, str] | None]:
        """The route and the parts of its path; without a route the methods that there are, or None for no such path."""
        path = request.path
        for prefix in _PREFIXES:
            if path.startswith(prefix):
                node, params = _walk(self._below, path[len(prefix) - 1 :])
                break
        else:
            node, params = _walk(self._bare, path)
        if node is None or not node.routes:
            return None, None
        method = "GET" if request.method == "HEAD" else request.method
        route = node.routes.get(method)
        return (route, params) if route is not None else (None, dict.fromkeys(node.routes, ""))

    def _check_origin(self, request: Request) -> Response | None:
        """A page of another site must not reach a server on this machine, by name or by a browser."""
        named = request.headers.get(b"host", b"")
        if named in self._answers_to and b"origin" not in request.headers:
            return None
        host = _host_name(request.header(b"host"))
        if self._hosts and host and host not in self._hosts:
            return problem(403, "host_forbidden", "this server does not answer to that name")
        origin = request.headers.get(b"origin")
        if origin is not None and _host_name(origin.decode("latin-1").partition("://")[2]) != host:
            return problem(403, "origin_forbidden", "requests from other sites are refused")
        if len(self._answers_to) < _MOST_NAMES:
            self._answers_to.add(named)
        return None

    async def _answer(self, route: Route, request: Request, params: dict[str, str]) -> Response:
        began = self._monotonic()
        response = await self._answered(route, request, params)
        self._metrics.count(route.method, route.path, response.status, self._monotonic() - began)
        return response

    async def _answered(self, route: Route, request: Request, params: dict[str, str]) -> Response:
        began = self._monotonic()
        try:
            if not (route.bare or route.untimed):
                self._team.nodes.check_time()
            caller = await self._gate.caller(request) if route.scope else _NOBODY
            if route.scope and caller.kind not in route.scope:
                raise ScopeRequired(f"this needs a key of kind {' or '.join(sorted(route.scope))}")
            call = Call(self._team, request, caller, params)
            call.query = parse_query(request.query)
            if route.body is not None:
                call.body = self._body(route, request)
            key = request.headers.get(b"idempotency-key")
            if key is not None and request.method == "POST":
                return await self._once(route, call, key.decode("latin-1"))
            return await route.answer(call)
        except ParleyError as error:
            if status_of(error) == 500:
                raise
            if route.streams:
                await asyncio.sleep(max(0.0, began + _REFUSAL_SECONDS - self._monotonic()))
            return problem_of(error)

    def _body(self, route: Route, request: Request) -> Any:  # noqa: ANN401  # the route knows its type
        content = request.body
        if not content and route.body_optional:
            content = b"{}"
        else:
            given = request.headers.get(b"content-type", b"")
            if given != b"application/json":
                kind = given.split(b";", 1)[0].strip().lower()
                if kind != b"application/json" and not kind.endswith(b"+json"):
                    raise UnsupportedMedia
        document = parse(content, self._json_limits if route.documents == 1 else self._limits_of(route))
        return document if route.body_raw else converted(document, route.body)

    def _limits_of(self, route: Route) -> JsonLimits:
        """Several documents in one are a list in an object."""
        depth, keys, string_bytes = self._json_limits
        return JsonLimits(depth + 2, keys * route.documents, string_bytes)

    async def _once(self, route: Route, call: Call, key: str) -> Response:
        """Carry a request out once, however often it is sent with the same key."""
        if not 1 <= len(key) <= _LONGEST_KEY:
            raise Invalid.because([Problem("invalid", "Idempotency-Key", f"has 1 to {_LONGEST_KEY} characters")])
        caller, request = call.caller, call.request
        where = "\n".join((caller.tenant, caller.key_id, caller.agent, request.method, request.path, key))
        scope = hashlib.sha256(where.encode()).hexdigest()
        fingerprint = hashlib.sha256(request.query.encode() + b"\n" + request.body).hexdigest()
        # The commit of a message takes the key with it and finds out by itself whether it was used.
        saved = None if route.keyed else await self._team.store.saved(scope)
        if saved is None:
            made = Saved(scope, fingerprint, self._team.new_id("once"), self._team.at())
            call.caller = caller._replace(saved=made)
            try:
                response = await route.answer(call)
            except ParleyError as error:
                if type(error) is Unavailable:  # to ask what does not answer would take as long again
                    raise
                # Carried out before, or at this moment: whatever is wrong with it now, it was right then.
                saved = await self._team.store.saved(scope)
                if saved is None or saved.made == made.made:
                    raise
            else:
                if response.stream is None and response.status < 300 and not route.confidential:
                    await self._remember(route, caller.tenant, made, response)
                return response
        if saved.fingerprint != fingerprint:
            raise KeyReused
        return await self._replayed(route, call, saved)

    async def _remember(self, route: Route, tenant: str, made: Saved, response: Response) -> None:
        answered = made._replace(status=response.status, answer=response.body)
        writing = asyncio.ensure_future(self._team.store.commit(TeamChanges(tenant, saved=answered)))
        if route.again is None:
            await writing
            return
        # What can be answered again without it is answered before it is written down.
        self._writing.add(writing)
        writing.add_done_callback(self._written)

    def _written(self, writing: asyncio.Future[Committed]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled():
            writing.exception()  # a full disk: the next request will meet it too

    async def _replayed(self, route: Route, call: Call, saved: Saved) -> Response:
        told_again = route.again is not None and saved.message_id
        if not saved.answer and not told_again and not route.confidential:
            saved = await self._awaited(saved)
        if saved.answer:
            response = Response(saved.status, saved.answer)
        elif route.again is not None and saved.message_id:
            response = await route.again(call, saved.message_id)
        else:
            raise Stale("this was carried out, but its answer was lost", hint="look for what it made")
        response.headers = ((b"Idempotent-Replayed", b"true"),)
        return response

    async def _awaited(self, saved: Saved) -> Saved:
        """What was carried out a moment ago, here or at another server, may be about to be answered."""
        if self._team.now() - from_stamp(saved.at) > timedelta(seconds=_UNDER_WAY_SECONDS):
            return saved
        with suppress(TimeoutError):
            async with asyncio.timeout(_UNDER_WAY_SECONDS):
                while not saved.answer:
                    await asyncio.sleep(_LOOK_SECONDS)
                    saved = await self._team.store.saved(saved.scope) or saved
        return saved


def converted(document: object, kind: Any) -> Any:  # noqa: ANN401  # the type says what comes back
    """A document as the type it should be, or `Invalid` with the field."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        field = path.strip("`.").removeprefix(".")
        code = "unknown_field" if "unknown field" in detail else "invalid"
        raise Invalid.because([Problem(code, field, readable(detail, kind, field))]) from None


def _plant(root: _Node, route: Route) -> None:
    node = root
    for step in route.path.strip("/").split("/"):
        if step.startswith("{"):
            if node.any is None:
                node.any, node.any_name = _Node(), step.strip("{}")
            node = node.any
        else:
            node = node.named.setdefault(step, _Node())
    node.routes[route.method] = route


def _walk(root: _Node, path: str) -> tuple[_Node | None, dict[str, str]]:
    node = root
    params: dict[str, str] = {}
    for step in path[1:].split("/"):
        following = node.named.get(step)
        if following is None:
            if node.any is None or not step:
                return None, params
            params[node.any_name] = step
            following = node.any
        node = following
    return node, params


def _host_name(text: str) -> str:
    """Host without port, in lower case."""
    if text.startswith("["):
        return text.partition("]")[0][1:].lower()
    return text.partition(":")[0].lower()
