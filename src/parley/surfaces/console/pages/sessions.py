"""The sign-ins of a person, or of the tenant for an admin: where from, until when, and the button that ends one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.parts import data_table, moment, note, tag
from parley.surfaces.console.visit import Page, Redirect

if TYPE_CHECKING:
    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document, Visit

# Of the end of an id, as `parley session list` shows it.
_ID_CHARS = 4
_HOW = {"key": "with the key", "link": "by a link"}


async def list_page(visit: Visit) -> Page:
    """The sign-ins that can be ended."""
    sessions: list[Document] = await visit.get("sessions", limit=100)
    rows = [_row(visit, session) for session in sessions]
    table = data_table("Sign-ins", ("Who", "Id", "Began", "How", "Ends", h("span", "End it", class_="sr")), rows)
    about = note("", "A sign-in ends after half a day, when its key is revoked, and here.")
    return Page("Sign-ins", join(h("h1", "Sign-ins"), about, table), "sessions")


async def end(visit: Visit) -> Redirect:
    """End one of them."""
    await visit.delete("sessions", visit.form.get("id", ""))
    return Redirect(address("sessions"))


def _row(visit: Visit, session: Document) -> Html:
    who = session.get("user_id") or session["key_id"]
    button = h("button", "End", aria_label=f"End the sign-in of {who}", class_="danger")
    form = h("form", h("input", type="hidden", name="id", value=session["id"]), button, method="post",
             action=address("sessions"))  # fmt: skip
    return h(
        "tr",
        h("td", h("span", who, dir="auto"), [" ", tag("this browser")] if session["id"] == visit.session_id else None),
        h("td", h("code", session["id"][-_ID_CHARS:])),
        h("td", moment(session["created_at"], visit.now)),
        h("td", _HOW.get(session["via"], session["via"])),
        h("td", moment(session["expires_at"], visit.now)),
        h("td", form),
    )
