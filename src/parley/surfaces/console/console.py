"""The console: pages of the server for people. Everything on them comes from the API, as the person who signed in.

request ──> static file, or sign in
        ├─> link to an approval ──> its one page, without a cookie
        └─> cookie ──> form from a page of ours? ──> page, which calls the API in process ──> frame
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError
from parley.domain.version import VERSION
from parley.surfaces.console import live, sign_in
from parley.surfaces.console.files import static_response
from parley.surfaces.console.frame import bare, framed, print_head, reader_of
from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.live import LiveRows, OpenStreams
from parley.surfaces.console.menu import AUDITOR, PERSON
from parley.surfaces.console.pages.deciding import link
from parley.surfaces.console.parts import note
from parley.surfaces.console.routes import find_route, open_steps
from parley.surfaces.console.visit import ApiRefused, Page, Redirect, Visit, fields_of, steps_of
from parley.surfaces.entrance.refusals import INTERNAL, refusal_of, status_of
from parley.surfaces.http.files import page_response
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.link_pages import STEP, path_of
from parley.surfaces.http.problem import problem

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from parley.surfaces.console.html import Html
    from parley.surfaces.entrance.sessions import SignIn
    from parley.surfaces.http.api import Api
    from parley.surfaces.http.http1.message import Request

    Headers = tuple[tuple[bytes, bytes], ...]
    Shown = Page | Redirect

_COUNT_MAX = 999
# Of the path of a link: its name, and the secret.
_LINK_STEPS = 2
# Of a page that belongs to no entry of the menu.
_NO_ENTRY = "-"


class Console:
    """Answers every request below /console. `is_secure`: browsers reach the server by TLS."""

    def __init__(self, api: Api, *, is_secure: bool) -> None:
        self._api = api
        self._sessions = api.sessions
        self._is_secure = is_secure
        self._streams = OpenStreams()

    def __call__(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a request."""
        steps = steps_of(request)
        if steps[:1] == ["static"]:
            return static_response(request, steps[1:])
        if request.method not in ("GET", "HEAD", "POST"):
            return problem(405, "method_not_allowed", "method not allowed for this path")
        if request.method == "POST" and not sign_in.is_from_own_page(request):
            return problem(403, "origin_forbidden", "forms of other sites are refused")
        if steps[:1] == [STEP]:
            return self._by_link(request, steps[1] if len(steps) == _LINK_STEPS else "")
        if steps == ["login"]:
            return self._login(request)
        if steps == ["logout"] and request.method == "POST":
            return self._logout(request)
        return self._visit(request, steps)

    def admit(self, request: Request) -> Response | Awaitable[Response | None] | None:
        """Refuse a form at its head: a large one of somebody who has not signed in."""
        length = request.header(b"content-length")
        if length.isdecimal() and int(length) <= sign_in.FORM_BYTES_MAX:
            return None
        return self._admit(request)

    async def _admit(self, request: Request) -> Response | None:
        steps = steps_of(request)
        if steps[:1] == [STEP]:
            is_known = await self._api.links.is_open(steps[-1], self._api.client_of(request))
        else:
            is_known = await self._sessions.is_signed_in(self._secret(request))
        return None if is_known else problem(413, "too_large", "sign in first")

    # ------------------------------------------------------------ signing in and out

    async def _login(self, request: Request) -> Response:
        fields = fields_of(request.query)
        if request.method != "POST":
            return self._html(request, sign_in.login_page(fields.get("next", "")))
        form = fields_of(request.body.decode("utf-8", "replace"))
        try:
            signed_in = await self._sign_in(form, self._api.client_of(request))
        except ParleyError as error:
            if status_of(error) == INTERNAL:
                raise
            refusal = refusal_of(error)
            words = _WRONG_LINK if "once" in form and refusal.status == 401 else _WRONG_KEY
            detail = words if refusal.status == 401 else refusal.detail
            return self._html(request, sign_in.login_page(form.get("next", ""), detail), status=refusal.status)
        cookie = sign_in.cookie_of(request, is_secure=self._is_secure)
        header = cookie.set(signed_in.secret, signed_in.seconds)
        return _redirect(sign_in.own_path(form.get("next", "")), (header,))

    async def _sign_in(self, form: dict[str, str], peer: str) -> SignIn:
        if form.get("once"):
            return await self._sessions.sign_in_by_link(form["once"], peer)
        return await self._sessions.sign_in(form.get("key", "").strip(), peer)

    async def _logout(self, request: Request) -> Response:
        await self._sessions.sign_out(self._secret(request))
        cookie = sign_in.cookie_of(request, is_secure=self._is_secure)
        # Not "cookies": that would take away those of other programs on this host.
        gone = (b"Clear-Site-Data", b'"cache", "storage"')
        return _redirect(address("login"), (cookie.set("", 0), gone))

    def _secret(self, request: Request) -> str:
        return sign_in.cookie_of(request, is_secure=self._is_secure).secret(request)

    # ------------------------------------------------------------ links to approvals

    async def _by_link(self, request: Request, secret: str) -> Response:
        """The page at a link. It reads no cookie and sets none: a link opens nothing else."""
        try:
            page = await self._at_link(request, secret)
        except ParleyError as error:
            if status_of(error) == INTERNAL:
                raise
            refusal = refusal_of(error)
            page = link.ended_page()
            if refusal.status != 401:
                page = link.refused_page(refusal.status, refusal.code, refusal.detail)
        if page is None:
            return _redirect(path_of(secret), own=sign_in.LINK_HEADERS)
        return page_response(request, bare(page.title, page.content).encode(), sign_in.LINK_HEADERS, page.status)

    async def _at_link(self, request: Request, secret: str) -> Page | None:
        """What a link shows; None after a decision."""
        if not self._api.is_private(request):
            return link.refused_page(403, "unsafe_mode", "Open this link over https: here others could read along.")
        peer = self._api.client_of(request)
        opened = await self._api.links.open(secret, peer)
        visit = Visit(request, lambda operation: self._api.run_by_link(operation, secret), self._api.now(), peer)
        page = await (link.decide if request.method == "POST" else link.link_page)(visit, opened)
        if page is None or page == link.ended_page():
            return page
        # On paper it has the address of the approval: that of the page is a secret.
        place = f"{self._host(request)}{address('approvals', opened.approval_id)}"
        return page._replace(content=join(print_head(place, opened.user_id, visit.now), page.content))

    # ------------------------------------------------------------ pages

    async def _visit(self, request: Request, steps: list[str]) -> Response:
        secret = self._secret(request)
        if not secret and request.method == "GET" and sign_in.is_from_elsewhere(request):
            return self._html(request, sign_in.refresh_page(_whole_path(request)))
        visit = Visit(
            request, lambda operation: self._api.run(operation, secret), self._api.now(), self._api.client_of(request)
        )
        if steps == ["live"] and request.method == "GET":
            return await self._live(visit, secret)
        try:
            visit.who = await visit.get("whoami")
            visit.session_id = await self._sessions.id_of(secret)
            shown = await self._shown(visit, steps)
            if isinstance(shown, Redirect):
                return _redirect(shown.address)
            waiting = await _waiting(visit)
        except ApiRefused as refused:
            if refused.status == 401:
                return _redirect(address("login", next=_whole_path(request) if request.method == "GET" else ""))
            if not visit.who:
                return self._html(request, _unreachable(refused), status=refused.status)
            shown, waiting = _refused(refused), 0
        printed = print_head(f"{self._host(request)}{_whole_path(request)}", reader_of(visit.who), visit.now)
        html = framed(shown, visit.who, min(waiting, _COUNT_MAX), self._foot(request), printed)
        return self._html(request, html, status=shown.status)

    async def _live(self, visit: Visit, secret: str) -> Response:
        try:
            source = await live.open_stream(visit)
        except ApiRefused as refused:
            return problem(refused.status, refused.code, refused.detail)
        rows = LiveRows(visit, source, self._streams, secret)
        return Response(200, content_type=b"text/event-stream", headers=sign_in.HEADERS, stream=rows)

    async def _shown(self, visit: Visit, steps: list[str]) -> Shown:
        """The page at these steps, or where a form that was sent leads."""
        route, is_form = find_route(steps), visit.request.method == "POST"
        handler = (route.post if is_form else route.show) if route is not None else None
        if route is None or handler is None:
            return _no_page()
        visit.has_form = visit.who["kind"] in route.forms_for
        if is_form and not visit.has_form:
            raise _no_form(route.forms_for)
        return await handler(visit, *open_steps(route, steps))

    def _html(self, request: Request, html: Html, *, status: int = 200) -> Response:
        return page_response(request, html.encode(), sign_in.HEADERS, status)

    def _host(self, request: Request) -> str:
        return str(request.header(b"host"))

    def _foot(self, request: Request) -> str:
        return f"{self._host(request)} · {VERSION}"


_WRONG_KEY = "This key is not valid here. It may have been revoked, or belong to another server."
_WRONG_LINK = "This link was used already, or is older than ten minutes. Print a fresh one with: parley console"


async def _waiting(visit: Visit) -> int:
    """How many approvals wait; none for an auditor, who reads no approvals."""
    if visit.who["kind"] == AUDITOR:
        return 0
    counted = await visit.get("approvals", "count", status="pending")
    return int(counted["count"])


def _redirect(path: str, headers: Headers = (), own: Headers = sign_in.HEADERS) -> Response:
    return Response(303, b"", b"text/plain", (*own, *headers, (b"Location", path.encode("ascii"))))


def _whole_path(request: Request) -> str:
    path = request.raw_path.decode("ascii")
    return f"{path}?{request.query}" if request.query else path


def _no_page() -> Page:
    content = join(h("h1", "No such page"), h("p", h("a", "To the first page", href="/console")))
    return Page("No such page", content, _NO_ENTRY, status=404)


def _no_form(kinds: tuple[str, ...]) -> ApiRefused:
    """The refusal of a form that the page did not show: also where the API would take the same from this key."""
    if kinds == (PERSON,):
        return ApiRefused(403, {"code": "human_required", "detail": "only a person decides on this page"})
    return ApiRefused(403, {"code": "scope_required", "detail": "this page has no form for your kind of key"})


def _refused(refused: ApiRefused) -> Page:
    content = join(
        h("h1", "This did not work"), note("bad", refused.detail, h("p", h("code", refused.code)), role="alert")
    )
    return Page("Refused", content, _NO_ENTRY, status=refused.status)


def _unreachable(refused: ApiRefused) -> Html:
    return bare("Refused", note("bad", refused.detail, h("p", h("code", refused.code)), role="alert"))
