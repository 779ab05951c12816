"""Signing in and out, and the checks of what a browser sends along.

Only pages below /console read the cookie; the API never does. A form is accepted from a page of this server alone: by
`Sec-Fetch-Site`, or by an `Origin` that equals scheme, host and port, which `Origins` has compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.surfaces.console.frame import bare
from parley.surfaces.console.html import Html, address, h
from parley.surfaces.console.parts import command, note

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Request

    Headers = tuple[tuple[bytes, bytes], ...]

CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    b" base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types parley"
)
# `no-referrer` would make browsers send `Origin: null` with our own forms.
HEADERS: Headers = (
    (b"Content-Security-Policy", CSP),
    (b"Referrer-Policy", b"same-origin"),
    (b"X-Frame-Options", b"DENY"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
)
# The address of a page at a link is a secret: not even this server gets it as a referrer, so no proxy logs it as one.
LINK_HEADERS: Headers = tuple(
    [(name, b"strict-origin" if name == b"Referrer-Policy" else value) for name, value in HEADERS]
)
# A key, or the secret of a link, and where to go then.
FORM_BYTES_MAX = 4096


class Cookie(NamedTuple):
    """The cookie of one server. Cookies know no ports, so without TLS its name has the port."""

    name: str
    is_secure: bool

    def secret(self, request: Request) -> str:
        """The secret that a browser sent; empty when there is none."""
        for part in request.header(b"cookie").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.name:
                return value
        return ""

    def set(self, secret: str, seconds: int) -> tuple[bytes, bytes]:
        """The header that gives a browser its secret; with 0 seconds, takes it away."""
        path = "Path=/; Secure" if self.is_secure else "Path=/console"
        value = f"{self.name}={secret}; {path}; HttpOnly; SameSite=Strict; Max-Age={seconds}"
        return b"Set-Cookie", value.encode("ascii")


def cookie_of(request: Request, *, is_secure: bool) -> Cookie:
    """The cookie of the server that a request came to."""
    if is_secure:
        return Cookie("__Host-parley", is_secure=True)
    port = request.header(b"host").rpartition(":")[2]
    return Cookie(f"parley-{port if port.isdecimal() else '80'}", is_secure=False)


def is_from_own_page(request: Request) -> bool:
    """Whether a page of this server sent a form. `Origins` refused every other `Origin` before."""
    site = request.header(b"sec-fetch-site")
    return site == "same-origin" if site else bool(request.header(b"origin"))


def is_from_elsewhere(request: Request) -> bool:
    """Whether somebody followed a link on another site: then the browser kept a strict cookie to itself."""
    return request.header(b"sec-fetch-site") == "cross-site"


def own_path(path: str) -> str:
    """Where to go after signing in: a page of the console, or its first one."""
    is_own = path == "/console" or path.startswith(("/console/", "/console?"))
    return path if is_own and path.isascii() and path.isprintable() else "/console"


def login_page(next_path: str, problem: str = "") -> Html:
    """The page that asks for a key. A link's secret comes in the fragment, which only the script can read."""
    return bare(
        "Sign in",
        h("h1", "Sign in"),
        note("bad", problem, role="alert") if problem else None,
        h(
            "form",
            h("input", type="hidden", name="next", value=own_path(next_path)),
            h("label", "Key", for_="key"),
            h("input", id="key", name="key", type="password", autocomplete="current-password", autofocus=True,
              required=True, spellcheck="false"),
            h("button", "Sign in", class_="primary"),
            method="post", action=address("login"), id="sign-in",
        ),
        h("p", "Are you logged in on the command line? This prints a link that signs you in here, once:"),
        command("parley console"),
        h("p", "Have you no key? An admin creates yours:"),
        command("parley key create --user NAME"),
        h(
            "form",
            h("input", type="hidden", name="once", id="once"),
            h("input", type="hidden", name="next", value=own_path(next_path)),
            method="post", action=address("login"), id="by-link", hidden=True,
        ),
    )  # fmt: skip


def refresh_page(path: str) -> Html:
    """A page that opens itself again: from our own page the browser sends the cookie along."""
    again = h("meta", http_equiv="refresh", content=f"0; url={own_path(path)}")
    return bare("Opening", h("p", h("a", "Open the page", href=own_path(path))), head=again)
