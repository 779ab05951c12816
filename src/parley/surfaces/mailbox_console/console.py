"""The console of a project's mailboxes: the look of a server's console on files, for one person, read-only.

request ──> our Host and Origin? ──> static file, or the one-time link
                                └──> cookie ──> page, from the use cases of mailboxes ──> frame

It listens on this machine alone and ends with the command that started it. Nothing is kept: no sign-in outlives it.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import ParleyError
from parley.domain.version import VERSION
from parley.surfaces.console import sign_in
from parley.surfaces.console.files import static_response
from parley.surfaces.console.frame import bare, frame_page
from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.live import OpenStreams
from parley.surfaces.console.menu import KEYS, MenuEntry, keys, menu
from parley.surfaces.console.parts import command, note
from parley.surfaces.console.visit import Page, fields_of, steps_of
from parley.surfaces.entrance.refusals import status_of
from parley.surfaces.http.files import page_response
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.origins import Origins
from parley.surfaces.http.problem import problem
from parley.surfaces.mailbox_console import details, lists
from parley.surfaces.mailbox_console.live import ChangeStream

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from parley.app.mailbox.overview import ProjectReader
    from parley.surfaces.console.html import Html
    from parley.surfaces.http.http1.message import Request

    Show = Callable[..., Page]

# The names of this machine that the link may have. Any other leads here by a trick of somebody's name server.
_NAMES = frozenset({"127.0.0.1", "localhost"})
LINK_SECONDS = 600
_COOKIE_SECONDS = 43_200
_MENU = (
    (
        "Mailboxes",
        (
            MenuEntry("Agents", "agents", "e"),
            MenuEntry("Threads", "threads", "c"),
            MenuEntry("Reviews", "reviews", "r"),
            MenuEntry("Waiting", "waiting", "w"),
            MenuEntry("Dead letters", "dead-letters", "d"),
        ),
    ),
)
# These pages have no form, no filter and no list of several pages.
_KEYS = (*[key for key in KEYS if key[0] not in ("y n e", "/", "[ ]")], ("[", "previous page"))
# Who reads: the menu asks nothing of it.
_WHO = {"kind": "reader", "tenant_id": ""}
_PAGES: tuple[tuple[tuple[str, ...], Show], ...] = (
    (("agents",), lists.agents_page),
    (("agents", "*"), lists.inbox_page),
    (("agents", "*", "sent"), lists.sent_page),
    (("agents", "*", "messages", "*"), details.message_page),
    (("agents", "*", "files", "*"), details.file_page),
    (("threads",), lists.threads_page),
    (("threads", "*"), details.thread_page),
    (("reviews",), lists.reviews_page),
    (("waiting",), lists.waiting_page),
    (("dead-letters",), lists.dead_letters_page),
)


class Secrets(NamedTuple):
    """Two random secrets: that of the link, which works once, and that of the cookie which it gives."""

    link: str
    cookie: str


class MailboxConsole:
    """Answers every request. `now` tells the time, `monotonic` counts seconds."""

    def __init__(
        self,
        project: ProjectReader,
        secrets: Secrets,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._project = project
        self._secrets = secrets
        self._now = now
        self._monotonic = monotonic
        self._link_until = monotonic() + LINK_SECONDS
        self._origins = Origins(_NAMES)
        self._streams = OpenStreams()

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        refusal = self._origins.refusal(request)
        if refusal is not None:
            return refusal
        if not request.header(b"host"):
            return problem(403, "host_forbidden", "a request names the server that it is for")
        if not request.path.startswith("/console"):
            return _redirect("/console") if request.path == "/" else problem(404, "not_found", "nothing at this path")
        steps = steps_of(request)
        if steps[:1] == ["static"]:
            return static_response(request, steps[1:])
        if steps == ["login"]:
            return self._login(request)
        if request.method not in ("GET", "HEAD"):
            return problem(405, "method_not_allowed", "these pages are for reading")
        return self._visit(request, steps)

    # ------------------------------------------------------------ the link

    def _login(self, request: Request) -> Response:
        if request.method == "GET":
            return self._html(request, _link_page())
        if request.method != "POST":
            return problem(405, "method_not_allowed", "method not allowed for this path")
        if not sign_in.is_from_own_page(request):
            return problem(403, "origin_forbidden", "forms of other sites are refused")
        form = fields_of(request.body.decode("utf-8", "replace"))
        if not self._uses_link(form.get("once", "")):
            return self._html(request, _link_page(_WRONG_LINK), status=401)
        cookie = sign_in.cookie_of(request, is_secure=False)
        return _redirect(sign_in.own_path(form.get("next", "")), cookie.set(self._secrets.cookie, _COOKIE_SECONDS))

    def _uses_link(self, secret: str) -> bool:
        """Whether this is the secret of the link, which is used up then."""
        is_right = compare_digest(secret.encode(), self._secrets.link.encode())
        if not is_right or self._monotonic() > self._link_until:
            return False
        self._link_until = float("-inf")
        return True

    def _is_signed_in(self, request: Request) -> bool:
        secret = sign_in.cookie_of(request, is_secure=False).secret(request)
        return compare_digest(secret.encode(), self._secrets.cookie.encode())

    # ------------------------------------------------------------ pages

    def _visit(self, request: Request, steps: list[str]) -> Response:
        if not self._is_signed_in(request):
            if sign_in.is_from_elsewhere(request):
                return self._html(request, sign_in.refresh_page(request.raw_path.decode("ascii")))
            return _redirect(address("login"))
        request.known = True
        if not steps:
            return _redirect(address("agents"))
        if steps == ["live"]:
            stream = ChangeStream(self._project, self._streams)
            return Response(200, content_type=b"text/event-stream", headers=sign_in.HEADERS, stream=stream)
        page = self._page(steps)
        shortcuts = keys(_WHO, _MENU, _KEYS)
        reader = h(
            "span", h("b", self._project.name, dir="auto"), h("span", " read-only", class_="muted"), class_="who"
        )
        entries = menu(_WHO, page.menu, 0, _MENU)
        foot = f"{request.header(b'host')} · {VERSION}"
        return self._html(request, frame_page(page, entries, shortcuts, reader, foot), status=page.status)

    def _page(self, steps: list[str]) -> Page:
        for pattern, show in _PAGES:
            if len(pattern) == len(steps) and all(
                part in ("*", step) for part, step in zip(pattern, steps, strict=True)
            ):
                open_steps = [step for part, step in zip(pattern, steps, strict=True) if part == "*"]
                try:
                    return show(self._project, self._now(), *open_steps)
                except ParleyError as error:
                    return _refused(error)
        return Page("No such page", join(h("h1", "No such page")), "", status=404)

    def _html(self, request: Request, html: Html, *, status: int = 200) -> Response:
        return page_response(request, html.encode(), sign_in.HEADERS, status)


_WRONG_LINK = (
    "This link was used already, or is older than ten minutes. End the command with Ctrl-C and start it again."
)


def _link_page(refusal: str = "") -> Html:
    """What the link opens: the script sends its secret, which no server sees in an address."""
    form = h(
        "form",
        h("input", type="hidden", name="once", id="once"),
        method="post", action=address("login"), id="by-link", hidden=True,
    )  # fmt: skip
    words = h("p", "Open the link that this command printed. It works once, and needs JavaScript.")
    shown = note("bad", refusal, role="alert") if refusal else None
    # Who has not signed in is not told the name.
    line = command("parley console --project NAME")
    return bare("Mailboxes", h("h1", "Mailboxes"), shown, words, line, form)


def _refused(error: ParleyError) -> Page:
    content = join(h("h1", "This cannot be shown"), note("bad", error.message, h("p", h("code", error.code))))
    return Page("Refused", content, "", status=status_of(error))


def _redirect(path: str, *headers: tuple[bytes, bytes]) -> Response:
    return Response(303, b"", b"text/plain", (*sign_in.HEADERS, *headers, (b"Location", path.encode("ascii"))))
