"""The HTTP API: from a request to its route and back. Callers, idempotency and refusals come from `entrance`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.team import UnsupportedMedia
from parley.surfaces.entrance.idempotency import Idempotency
from parley.surfaces.entrance.refusals import INTERNAL, status_of
from parley.surfaces.entrance.validation import converted
from parley.surfaces.http.http1.message import Request, Response
from parley.surfaces.http.problem import problem, problem_of
from parley.surfaces.http.route import Call, Route, parse_query
from parley.wire.json_strict import JsonLimits, parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from parley.app.team.team import Team
    from parley.surfaces.entrance.authentication import Authenticator
    from parley.surfaces.http.metrics import Metrics
    from parley.surfaces.http.origins import Origins
    from parley.surfaces.http.proxies import TrustedProxies

_PREFIXES = ("/api/v1/", "/v1/")
# Where streams are: the SDK reconnects at once, for ever, when it is refused.
_REFUSAL_SECONDS = 1.0
_NOBODY = Caller("", "", KeyKind.AGENT, "")


class _Node:
    """One segment of a path: a fixed name, or a parameter."""

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
        self._bare = _Node()
        self._below = _Node()
        limits = team.limits
        self._json_limits = JsonLimits(limits.payload_depth + 1, limits.payload_keys + 100, limits.payload_string_bytes)
        for route in routes:
            _plant(self._bare if route.bare else self._below, route)

    async def __call__(self, request: Request) -> Response:
        """Answer a request: find its route, authenticate the caller, read the body, run the route."""
        refusal = self._origins.refusal(request)
        if refusal is not None:
            return refusal
        route, params = self._find(request)
        if route is None:
            return _no_route(params)
        began = self._monotonic()
        call = Call(self._team, request, _NOBODY, params or {})
        try:
            if route.scope:
                call.caller = await self._caller(route, request)
                request.known = True
            call.query = parse_query(request.query)
            if route.body is not None:
                document = parse(_json_content(route, request), self._limits_of(route))
                call.body = document if route.body_raw else converted(document, route.body)
            key = request.headers.get(b"idempotency-key")
            if key is not None and request.method == "POST":
                response = await self._run_once(route, call, key.decode("latin-1"))
            else:
                response = await route.answer(call)
        except ParleyError as error:
            if status_of(error) == INTERNAL:
                raise
            if route.streams:
                await asyncio.sleep(max(0.0, began + _REFUSAL_SECONDS - self._monotonic()))
            response = problem_of(await self._authenticator.refusal(route, call.caller, error))
        self._metrics.count(route.method, route.path, response.status, self._monotonic() - began)
        return response

    async def _caller(self, route: Route, request: Request) -> Caller:
        secret, agent, peer = credentials_of(request, self._proxies)
        if route.streams and not secret and "ticket=" in request.query:
            ticket = parse_query(request.query).get("ticket", "")
            return await self._authenticator.admit_ticket(route, ticket, request.path, peer)
        return await self._authenticator.admit(route, secret, agent, peer)

    def admit(self, request: Request) -> Response | Awaitable[Response | None] | None:
        """Refuse a request at its head, before its body is read, when it cannot be answered anyway or has no valid key.

        Its key is checked again when the body is there: it may have been revoked meanwhile.
        """
        refusal = self._origins.refusal(request)
        if refusal is not None:
            return refusal
        route, params = self._find(request)
        if route is None:
            return _no_route(params)
        if not route.scope:
            return problem(413, "too_large", "this takes no body")
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

    @property
    def name(self) -> str:
        return f"{self._call.request.method}\n{self._call.request.path}"

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
        return answer.status, answer.body

    def restored(self, status: int, content: bytes) -> Response:
        return Response(status, content)


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
