"""The HTTP API: from a request to its route and back. Callers, idempotency and refusals come from `entrance`."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from parley.domain.directory.callers import Caller, KeyKind, key_digest
from parley.domain.errors.errors import Invalid, ParleyError, Problem, Stale, Unavailable
from parley.domain.errors.rules import Overspent
from parley.domain.errors.team import ScopeRequired, UnsupportedMedia
from parley.surfaces.entrance.idempotency import Idempotency, key_of
from parley.surfaces.entrance.links import Links
from parley.surfaces.entrance.refusals import INTERNAL, status_of
from parley.surfaces.entrance.sessions import Sessions
from parley.surfaces.entrance.validation import converted
from parley.surfaces.http.http1.message import PendingResponse, Request, Response
from parley.surfaces.http.link_pages import operations_of
from parley.surfaces.http.problem import problem, problem_of
from parley.surfaces.http.route import Call, Route, encode, operation_name, parse_query
from parley.wire.json_strict import JsonLimits, parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import RenderAnswer
    from parley.domain.record import Record
    from parley.domain.store.changes import Committed
    from parley.surfaces.entrance.authentication import Authenticator
    from parley.surfaces.http.metrics import Metrics
    from parley.surfaces.http.origins import Origins
    from parley.surfaces.http.proxies import TrustedProxies
    from parley.surfaces.http.route import Submit

_PREFIXES = (["", "api", "v1"], ["", "v1"])
# How long a refused client of a stream waits: the SDK reconnects at once, for ever. Pages reconnect by a timer.
_REFUSAL_SECONDS = 1.0
# Paths whose routes are remembered: so many, up to this length.
_MOST_PATHS, _LONGEST_PATH = 1_024, 256
PAGES = "/console"
_NOBODY = Caller("", "", KeyKind.AGENT, "")


class Pages(Protocol):
    """What answers requests below /console. `admit` may refuse one at its head, before its body is read."""

    def __call__(self, request: Request, /) -> Response | Awaitable[Response]: ...

    def admit(self, request: Request, /) -> Response | Awaitable[Response | None] | None: ...


class _Node:
    """One segment of a path: a fixed name, or a parameter."""

    __slots__ = ("any", "any_name", "named", "routes")

    def __init__(self) -> None:
        self.named: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.any_name = ""
        self.routes: dict[str, Route] = {}


# What follows from the head of a request: its route, the parts of its path, the digest of its key, the claimed agent.
_Resolved = tuple[Route, dict[str, str], tuple[str, str]]


class Api:
    """Answers requests. What goes wrong inside is logged with a reference and shown without detail."""

    def __init__(
        self,
        team: Team,
        authenticator: Authenticator,
        routes: Iterable[Route],
        origins: Origins,
        proxies: TrustedProxies,
        metrics: Metrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._team = team
        self._metrics = metrics
        self._monotonic = monotonic
        self._authenticator = authenticator
        self._idempotency = Idempotency(team)
        self._origins = origins
        self._proxies = proxies
        self._load_pages: Callable[[], Pages] | None = None
        self._bare = _Node()
        self._below = _Node()
        # Routes of paths that were asked for lately.
        self._found: dict[tuple[str, bytes], tuple[Route | None, dict[str, str] | None]] = {}
        limits = team.limits
        self._json_limits = JsonLimits(limits.payload_depth + 1, limits.payload_keys + 100, limits.payload_string_bytes)
        for route in routes:
            _plant(self._bare if route.bare else self._below, route)

    def __call__(self, request: Request) -> Response | PendingResponse | Awaitable[Response]:
        """Answer a request: find its route, authenticate the caller, read the body, run the route."""
        resolved: _Resolved | None = request.resolved
        if resolved is None:
            refusal = self._origins.refusal(request)
            if refusal is not None:
                return refusal
            found, params = self._find(request)
            if found is None:
                return self._pages(request) if self._is_page(request) else _no_route(params)
            secret, agent, _ = credentials_of(request, self._proxies)
            resolved = request.resolved = (found, params or {}, (key_digest(secret), agent))
        route, params, known_as = resolved
        if route.ends_with_client:
            request.ends_with_client = True
        began = self._monotonic()
        call = Call(self._team, request, _NOBODY, params)
        pending = self._submit(route, route.submit, call, known_as, began) if route.submit is not None else None
        return pending or self._answer(route, call, began)

    def mount(self, load: Callable[[], Pages]) -> None:
        """Answer what is below /console by pages, which are loaded when somebody opens the first one."""
        self._load_pages = load

    @cached_property
    def _pages(self) -> Pages:
        assert self._load_pages is not None  # noqa: S101  # `_is_page` looked
        return self._load_pages()

    def _is_page(self, request: Request) -> bool:
        return self._load_pages is not None and (request.path + "/").startswith(PAGES + "/")

    async def run(self, operation: Request, session: str) -> Response:
        """Run an operation for a page: the caller is that of a sign-in, and everything else is as for any request."""
        route, params = self._find(operation)
        if route is None:
            return _no_route(params)
        began = self._monotonic()
        call = Call(self._team, operation, _NOBODY, params or {})
        call.is_of_page = True
        try:
            agent = _seat(operation, "") if operation.method == "GET" and "seat=" in operation.query else ""
            call.caller = await self._authenticator.admit_session(route, session, agent, operation.peer)
        except ParleyError as error:
            return await self._refuse(route, call, began, error)
        return await self._answer(route, call, began)

    async def run_by_link(self, operation: Request, secret: str) -> Response:
        """Run an operation for the page at a link to an approval, if it is one of those that the page may use."""
        route, params = self._find(operation)
        if route is None:
            return _no_route(params)
        began = self._monotonic()
        call = Call(self._team, operation, _NOBODY, params or {})
        try:
            holder = await self._authenticator.check_link(secret, operation.peer)
            if operation_name(route.method, route.path, call.params) not in operations_of(holder):
                raise ScopeRequired("a link to an approval opens one page, and nothing else")
            agent = _seat(operation, "") if operation.method == "GET" else ""
            call.caller = await self._authenticator.admit_link(route, holder, agent)
        except ParleyError as error:
            return await self._refuse(route, call, began, error)
        return await self._answer(route, call, began)

    @property
    def links(self) -> Links:
        """Looks up links to approvals, for pages."""
        return Links(self._authenticator)

    def is_private(self, request: Request) -> bool:
        """Whether nobody can read along between the client and this server."""
        return self._origins.is_private(request)

    @property
    def sessions(self) -> Sessions:
        """Signs browsers in and out, for pages."""
        return Sessions(self._team, self._authenticator)

    def now(self) -> datetime:
        """The time of the server."""
        return self._team.now()

    def client_of(self, request: Request) -> str:
        """The address of the client that sent a request."""
        return self._proxies.client_of(request) if self._proxies else request.peer

    def _submit(
        self, route: Route, submit: Submit, call: Call, known_as: tuple[str, str], began: float
    ) -> PendingResponse | Awaitable[Response] | None:
        """Answer a call by the completion of its commit; None when it takes more than what is in memory."""
        request = call.request
        try:
            caller = self._authenticator.known_caller(route, known_as)
            if caller is None:
                return None
            call.caller, call.is_counted = caller, True
            self._read(route, call)
        except ParleyError as error:
            return None if self._admit_again(call) else self._refuse(route, call, began, error)
        try:
            changes = submit.changes(call)
            # Where other nodes write, too, only a commit that compares the keys may do without asking them.
            if changes is None or not (changes.keys_generation or self._team.store.is_current):
                self._admit_again(call)
                return None
            key = request.headers.get(b"idempotency-key")
            if key is not None:
                operation = _RouteOperation(route, call)
                changes = changes.with_key(
                    self._idempotency.use_of(operation, caller, key_of(key)), operation.answer_of
                )
            pending = PendingResponse()
            self._team.store.submit(
                changes, lambda outcome: pending.give(self._response_to(route, submit, call, began, outcome))
            )
        except ParleyError:
            self._admit_again(call)
            return None  # where it is decided, a repeated call is recognised first
        return pending

    def _admit_again(self, call: Call) -> bool:
        """Have a call that no commit compares admitted anew, by what other nodes did before it; False: none write."""
        if self._team.store.is_current:
            return False
        call.caller, call.is_read = _NOBODY, False
        return True

    def _response_to(
        self, route: Route, submit: Submit, call: Call, began: float, outcome: Committed | Exception
    ) -> Response | Awaitable[Response] | Exception:
        """The response to a call whose commit is durable, or refused."""
        if isinstance(outcome, ParleyError):
            is_final = isinstance(outcome, Unavailable) or not self._admit_again(call)
            if is_final and not isinstance(outcome, Stale | Overspent):
                return self._refuse(route, call, began, outcome)
            # A record has changed since the decision that was remembered, the idempotency key was used before, or a
            # budget is spent, which the rules record.
            return self._answer(route, call, began)
        if isinstance(outcome, Exception):
            return outcome
        try:
            response = submit.response(outcome)
        except Exception as error:  # noqa: BLE001  # the store must go on
            return error
        return self._counted(route, began, response)

    async def _answer(self, route: Route, call: Call, began: float) -> Response:
        try:
            if route.scope and call.caller is _NOBODY:
                call.caller = await self._caller(route, call)
            if not call.is_read:
                self._read(route, call)
            key = call.request.headers.get(b"idempotency-key")
            if key is not None and call.request.method == "POST":
                response = await self._run_once(route, call, key_of(key))
            else:
                response = await route.answer(call)
        except ParleyError as error:
            return await self._refuse(route, call, began, error)
        except Exception:
            self._team.nodes.history.count_request("internal")
            raise
        return self._counted(route, began, response)

    def _read(self, route: Route, call: Call) -> None:
        """Read the query and the body of a call whose caller is known."""
        request = call.request
        request.known = request.known or bool(route.scope)
        call.query = parse_query(request.query)
        if route.body is not None:
            document = parse(_json_content(route, request), self._limits_of(route))
            call.body = document if route.body_raw else converted(document, route.body)
        call.is_read = True

    async def _refuse(self, route: Route, call: Call, began: float, error: ParleyError) -> Response:
        if status_of(error) == INTERNAL:
            self._team.nodes.history.count_request(error.code)
            raise error
        if route.streams and not call.is_of_page:
            await asyncio.sleep(max(0.0, began + _REFUSAL_SECONDS - self._monotonic()))
        refusal = await self._authenticator.refusal(route, call.caller, error)
        return self._counted(route, began, problem_of(refusal), refusal.code)

    def _counted(self, route: Route, began: float, response: Response, refusal: str = "") -> Response:
        self._team.nodes.history.count_request(refusal)
        self._metrics.count(route.method, route.path, response.status, self._monotonic() - began)
        return response

    async def _caller(self, route: Route, call: Call) -> Caller:
        request = call.request
        secret, agent, peer = credentials_of(request, self._proxies)
        if "seat=" in request.query and request.method in ("GET", "HEAD"):
            agent = _seat(request, agent)
        if route.streams and not secret and "ticket=" in request.query:
            ticket = parse_query(request.query).get("ticket", "")
            return await self._authenticator.admit_ticket(route, ticket, request.path, peer)
        return await self._authenticator.admit(route, secret, agent, peer, is_counted=call.is_counted)

    def admit(self, request: Request) -> Response | Awaitable[Response | None] | None:
        """Refuse a request at its head, before its body is read, when it cannot be answered anyway or has no valid key.

        Its key is checked again when the body is there: it may have been revoked meanwhile.
        """
        refusal = self._origins.refusal(request)
        if refusal is not None:
            return refusal
        route, params = self._find(request)
        if route is None:
            return self._pages.admit(request) if self._is_page(request) else _no_route(params)
        if not route.scope:
            return problem(413, "too_large", "this takes no body")
        # It may close while its key is checked, before the route is called.
        request.ends_with_client = route.ends_with_client
        return self._admit(request)

    async def _admit(self, request: Request) -> Response | None:
        secret, _, peer = credentials_of(request, self._proxies)
        try:
            await self._authenticator.check(secret, peer)
        except ParleyError as error:
            if status_of(error) == INTERNAL:
                raise
            return problem_of(error)
        return None

    def _find(self, request: Request) -> tuple[Route | None, dict[str, str] | None]:
        """The route and the parts of its path; without a route the methods that there are, or None for no such path."""
        match = self._found.get((request.method, request.raw_path))
        if match is None:
            match = self._search(request)
            if match[0] is not None and len(request.raw_path) <= _LONGEST_PATH:
                if len(self._found) >= _MOST_PATHS:
                    self._found.clear()
                self._found[request.method, request.raw_path] = match
        return match

    def _search(self, request: Request) -> tuple[Route | None, dict[str, str] | None]:
        steps = _steps_of(request)
        for prefix in _PREFIXES:
            if steps[: len(prefix)] == prefix:
                node, params = _walk(self._below, steps[len(prefix) :])
                break
        else:
            node, params = _walk(self._bare, steps[1:])
        if node is None or not node.routes:
            return None, None
        method = "GET" if request.method == "HEAD" else request.method
        route = node.routes.get(method)
        return (route, params) if route is not None else (None, dict.fromkeys(node.routes, ""))

    def _limits_of(self, route: Route) -> JsonLimits:
        """Several documents in one are a list in an object."""
        if route.documents == 1:
            return self._json_limits
        depth, keys, string_bytes = self._json_limits
        return JsonLimits(depth + 2, keys * route.documents, string_bytes)

    async def _run_once(self, route: Route, call: Call, key: str) -> Response:
        response, repeated = await self._idempotency.run(_RouteOperation(route, call), call.caller, key)
        if repeated:
            response.headers = ((b"Idempotent-Replayed", b"true"),)
        return response


class _RouteOperation:
    """A call of a route, as `Idempotency` runs it."""

    def __init__(self, route: Route, call: Call) -> None:
        self._route = route
        self._call = call
        self.commits_key = route.keyed
        self.confidential = route.confidential
        self.repeatable = route.again is not None
        # Whether the answer was rendered for the commit of what the call writes.
        self._in_commit = False

    @property
    def name(self) -> str:
        return operation_name(self._route.method, self._route.path, self._call.params)

    @property
    def content(self) -> bytes:
        return self._call.request.query.encode() + b"\n" + self._call.request.body

    async def run(self, caller: Caller) -> Response:
        self._call.caller = caller
        return await self._route.answer(self._call)

    async def repeat(self, created_id: str) -> Response:
        assert self._route.again is not None  # noqa: S101  # it is repeatable
        return await self._route.again(self._call, created_id)

    def stored(self, answer: Response) -> tuple[int, bytes] | None:
        # 202: a message that waits. What it says is in its approval, and nowhere else.
        if answer.stream is not None or answer.status >= 300 or answer.status == 202 or self._route.unsaved:
            return None
        if self._in_commit and answer.status == self._status:  # stored with what it writes
            return None
        return answer.status, answer.body

    def restored(self, status: int, content: bytes) -> Response:
        return Response(status, content)

    @property
    def answer_of(self) -> RenderAnswer | None:
        return self._render if self._route.posted is not None or self._route.written is not None else None

    @property
    def _status(self) -> int:
        return 201 if self._route.posted is not None else next(iter(self._route.answers))

    def _render(self, posts: tuple[Post, ...], records: tuple[Record, ...]) -> tuple[int, bytes]:
        posted, written = self._route.posted, self._route.written
        self._in_commit = True
        if posted is not None:
            return self._status, posted(self._call, posts)
        assert written is not None  # noqa: S101  # `answer_of` looked
        return self._status, encode(written(records[0]))


def _json_content(route: Route, request: Request) -> bytes:
    """The body of a request, which must be JSON; an optional one may be missing."""
    if not request.body and route.body_optional:
        return b"{}"
    content_type = request.headers.get(b"content-type", b"")
    if content_type != b"application/json":
        kind = content_type.split(b";", 1)[0].strip().lower()
        if kind != b"application/json" and not kind.endswith(b"+json"):
            raise UnsupportedMedia
    return request.body


def credentials_of(request: Request, proxies: TrustedProxies) -> tuple[str, str, str]:
    """Secret, claimed agent and address of the client."""
    secret = request.header(b"x-api-key")
    if not secret:
        kind, _, bearer = request.header(b"authorization").partition(" ")
        secret = bearer.strip() if kind.lower() == "bearer" else ""
    return secret, request.header(b"x-agent-id"), proxies.client_of(request) if proxies else request.peer


def _seat(request: Request, agent: str) -> str:
    """The agent whose place a reader takes, by the query: for clients that cannot set headers."""
    seat = parse_query(request.query).get("seat", "")
    if agent and seat and seat != agent:
        raise Invalid.because([Problem("invalid", "seat", "is another agent than that of X-Agent-ID")])
    return seat or agent


def _no_route(methods: dict[str, str] | None) -> Response:
    """The response for an unknown path or method."""
    if methods is None:
        return problem(404, "not_found", "nothing at this path")
    answer = problem(405, "method_not_allowed", "method not allowed for this path")
    answer.headers = ((b"Allow", ", ".join(sorted(methods)).encode()),)
    return answer


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


def _steps_of(request: Request) -> list[str]:
    """The segments of the path. An escaped slash is part of a segment."""
    if b"%" not in request.raw_path:
        return request.path.split("/")
    return [unquote(step) for step in request.raw_path.decode("ascii").split("/")]


def _walk(root: _Node, steps: list[str]) -> tuple[_Node | None, dict[str, str]]:
    node = root
    params: dict[str, str] = {}
    for step in steps:
        following = node.named.get(step)
        if following is None:
            if node.any is None or not step:
                return None, params
            params[node.any_name] = step
            following = node.any
        node = following
    return node, params
