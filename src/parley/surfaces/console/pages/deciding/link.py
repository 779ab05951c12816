"""The page at a link to an approval: one held message, and the decision about it, without signing in.

    waits, as it was when the link was made ──> the message and the form        200
    decided, expired                        ──> what became of it, no message   200
    it or the policies changed since        ──> sign in, no message             409
    no such link, ended, or its key is      ──> the same page for all of them   410

Opening it changes nothing: programs that check mail open every link. The form has no address, so it goes to that of the
page, and no page contains the secret.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.pages.deciding import message
from parley.surfaces.console.parts import command, moment, note
from parley.surfaces.console.visit import ApiRefused, Page

if TYPE_CHECKING:
    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document, Visit
    from parley.surfaces.entrance.links import OpenLink

# Refusals of the API after which the link is of no use: its key, its approval or the right to decide is gone.
_ENDS = frozenset({401, 404})


async def link_page(visit: Visit, link: OpenLink, problem: ApiRefused | None = None) -> Page:
    """The message and its form; or what became of it."""
    try:
        approval: Document = await visit.get("approvals", link.approval_id, expand="exchange")
        if approval["status"] != "pending" or _has_expired(visit, approval):
            return _outcome_page(visit, approval, problem)
        if approval["barred"]:
            return ended_page()
        if approval["digest"] != link.content_digest or approval["stale"]:
            return _changed_page(approval)
        return await _decision_page(visit, link, approval, problem)
    except ApiRefused as refused:
        is_over = refused.status in _ENDS or refused.code == "suspended"
        return ended_page() if is_over else refused_page(refused.status, refused.code, refused.detail)


async def decide(visit: Visit, link: OpenLink) -> Page | None:
    """Send the decision; None when it is made, else what is the matter, with what was typed."""
    try:
        await message.decide(visit, link.approval_id)
    except ApiRefused as refused:
        return await link_page(visit, link, refused)
    return None


async def _decision_page(visit: Visit, link: OpenLink, approval: Document, problem: ApiRefused | None) -> Page:
    place = await message.place_of(visit, approval)
    ends_at = min(link.expires_at, _time_of(approval["expires_at"])).isoformat()
    about = h(
        "p",
        "You decide as ", h("b", link.user_id, dir="auto"), ", by a link for you alone that opens nothing else (",
        h("span", moment(ends_at, visit.now), class_="ends"), ").",
        class_="muted",
    )  # fmt: skip
    content = join(about, message.decision_card(visit, approval, place, problem))
    # The title names nobody: a chat shows it as a preview, and a browser in its history.
    return Page("A message waits for you", content, "", status=problem.status if problem else 200)


def _outcome_page(visit: Visit, approval: Document, problem: ApiRefused | None) -> Page:
    """What became of it. The message itself is for those who sign in: the link has ended with the approval."""
    if approval["status"] == "pending":
        approval = {**approval, "status": "expired", "decided_by": "", "decided_at": approval["expires_at"]}
    content = join(
        h("h1", message.in_words(message.STATUSES, approval["status"])),
        message.problem_note(problem),
        # The remark of whoever decided is not for everybody whom a link may have been forwarded to.
        message.state_note(visit, {**approval, "note": ""}),
        _sign_in("Sign in to read it", approval["id"]),
    )
    return Page("Decided", content, "", status=problem.status if problem else 200)


def _changed_page(approval: Document) -> Page:
    """What waits is no longer what the link was made for: nobody decides about it by this link."""
    content = join(
        h("h1", "Look at this message again"),
        note("warn", "The message, or a policy, has changed since this link was made. Nothing was sent, and this link"
             " decides nothing any more.", role="alert"),
        _sign_in("Sign in to read it and decide", approval["id"]),
    )  # fmt: skip
    return Page("Changed", content, "", status=409)


def ended_page() -> Page:
    """The same page for links that have ended and for those that never were."""
    content = join(
        h("h1", "This link does not work"),
        note("", "A link to an approval works for 24 hours, for one message, until somebody has decided about it. It"
             " ends when the key of its person is revoked, and when the server does not allow such links any more."),
        _sign_in("Sign in to see what waits for you"),
        h("p", "On the command line, this creates a fresh link:"),
        command("parley approvals link"),
    )  # fmt: skip
    return Page("No such link", content, "", status=410)


def refused_page(status: int, code: str, detail: str) -> Page:
    """What is the matter with a request that has nothing to do with the link."""
    content = join(h("h1", "This did not work"), note("bad", detail, h("p", h("code", code)), role="alert"))
    return Page("Refused", content, "", status=status)


def _sign_in(words: str, approval_id: str = "") -> Html:
    path = address("approvals", approval_id) if approval_id else address("approvals")
    return h("p", h("a", words, href=path, class_="button"))


def _has_expired(visit: Visit, approval: Document) -> bool:
    return _time_of(approval["expires_at"]) <= visit.now


def _time_of(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
