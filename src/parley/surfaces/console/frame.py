"""What every page has around it: the menu, the bar at its top, and the list of keys."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from parley.surfaces.console.files import path_of
from parley.surfaces.console.html import Html, address, document, h, join
from parley.surfaces.console.menu import keys, menu
from parley.surfaces.console.parts import badge

if TYPE_CHECKING:
    from datetime import datetime

    from parley.surfaces.console.html import Child
    from parley.surfaces.console.visit import Document, Page


def framed(page: Page, who: Document, waiting: int, server: str, printed: Html) -> Html:
    """A page of a server with everything around it; `printed` stands above it on paper."""
    person = reader_of(who)
    reader = join(
        h("span", badge(person, is_person=bool(who.get("user_id"))), h("b", person, dir="auto"), class_="who"),
        h("form", h("button", "Sign out"), method="post", action=address("logout")),
    )
    return frame_page(page, menu(who, page.menu, waiting), keys(who), reader, server, printed)


def reader_of(who: Document) -> str:
    """Who reads the page: a person, an agent, or the kind of key."""
    return str(who.get("user_id") or who.get("agent_id") or who["kind"])


def print_head(place: str, reader: str, now: datetime) -> Html:
    """What stands above a page on paper: who printed it, where from, and when. The script sets the time of printing;
    without it, it is the time of the page.
    """
    at = h("span", f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC", id="printed-at")
    return h("p", h("b", "Parley"), " ", h("span", place, dir="auto"), h("br"), "Printed by ",
             h("b", reader, dir="auto"), " at ", at, class_="print-head")  # fmt: skip


def frame_page(
    page: Page, entries: Html, shortcuts: list[tuple[str, str]], reader: Html, foot: str, printed: Html | None = None
) -> Html:
    """A page between its menu, the bar with who reads it, and the list of keys."""
    return document(
        f"{page.title} · Parley",
        h("a", "Skip to the content", href="#content", class_="skip"),
        h("nav", _brand(), entries, h("p", foot, class_="foot"), aria_label="Pages"),
        h(
            "header",
            h("span", "Connecting", id="live", role="status", hidden=True),
            h("button", "Something is new: show", type="button", id="fresh", hidden=True),
            h("span", class_="gap"),
            h("button", "Shortcuts ", h("kbd", "?"), type="button", id="keys", hidden=True),
            h("button", "Theme", type="button", id="theme", hidden=True),
            reader,
        ),
        printed,
        h("main", page.content, id="content", tabindex="-1", data_topics=page.topics or None,
          data_every=page.every or None, data_seat=page.seat or None),
        _key_table(shortcuts),
        head=_head(),
    )  # fmt: skip


def bare(title: str, *content: Child, head: Html | None = None) -> Html:
    """A page without a menu: for those who have not signed in."""
    return document(
        f"{title} · Parley", h("main", _brand(), *content, class_="bare", id="content"), head=join(_head(), head)
    )


def _head() -> Html:
    return join(
        h("link", rel="stylesheet", href=path_of("console.css")),
        h("link", rel="icon", href=path_of("icon.svg")),
        h("script", src=path_of("console.js"), type="module"),
    )


def _brand() -> Html:
    return h(
        "a", h("img", src=path_of("icon.svg"), alt="", width=22, height=22), "Parley", href="/console", class_="brand"
    )


def _key_table(shortcuts: list[tuple[str, str]]) -> Html:
    rows = [h("tr", h("td", h("kbd", names)), h("td", about)) for names, about in shortcuts]
    off = h("label", h("input", type="checkbox", id="keys-off"), " Turn these off in this browser")
    close = h("form", h("button", "Close"), method="dialog")
    parts = (h("h2", "Keyboard shortcuts"), h("table", rows), h("p", off), close)
    return h("dialog", *parts, id="key-table", aria_label="Keyboard shortcuts")
