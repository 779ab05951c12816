"""Approvals: the queue of what waits for a person, one held message to the letter, and the decision about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.html import Html, address, h, join
from parley.surfaces.console.pages.deciding import message
from parley.surfaces.console.pages.deciding.message import CAUSES, STATUSES, in_words
from parley.surfaces.console.parts import badge, command, moment, next_page, note, tabs, tag
from parley.surfaces.console.visit import ApiRefused, Page, Redirect

if TYPE_CHECKING:
    from parley.surfaces.console.visit import Document, Visit

PAGE = 100
_MENU = "approvals"


# ---------------------------------------------------------------- the queue


async def list_page(visit: Visit) -> Page:
    """What waits, the next to expire first; or what was decided, the newest first."""
    is_decided = visit.query.get("status") == "decided"
    summaries = await (_decided(visit) if is_decided else waiting(visit, visit.query.get("after", "")))
    content = join(
        h("h1", "Approvals"),
        tabs(
            ("Waiting", address("approvals"), not is_decided),
            ("Decided", address("approvals", status="decided"), is_decided),
        ),
        _queue(visit, summaries),
        _older(summaries, is_decided=is_decided),
    )
    return Page("Approvals", content, _MENU)


async def waiting(visit: Visit, after: str = "") -> list[Document]:
    """A page of what waits, the next to expire first."""
    summaries: list[Document] = await visit.get(
        "approvals", status="pending", order="expiring", summary="true", limit=PAGE, after=after
    )
    return summaries


async def _decided(visit: Visit) -> list[Document]:
    summaries: list[Document] = await visit.get(
        "approvals",
        status="decided",
        order="newest",
        summary="true",
        limit=PAGE,
        before=visit.query.get("before"),
    )
    return summaries


def _queue(visit: Visit, summaries: list[Document]) -> Html:
    is_waiting = visit.query.get("status") != "decided"
    rows = h(
        "ol", [queue_row(visit, summary) for summary in summaries], class_="queue rows",
        id="queue" if is_waiting else None, hidden=not summaries,
    )  # fmt: skip
    if not is_waiting:
        return rows if summaries else note("", "Nothing has been decided yet.")
    more = h("button", type="button", id="more", hidden=True)
    return join(more, rows, None if summaries else h("div", _nothing_waits(), id="nothing"))


def _nothing_waits() -> Html:
    return join(
        note("", h("b", "Nothing waits for you."), " A message is held when a policy leaves it to a person, for example"
             " when an agent would commit its person to something. The same list on the command line:"),
        command("parley approvals list"),
    )  # fmt: skip


def queue_row(visit: Visit, summary: Document) -> Html:
    """One approval of the queue; the live stream sends the same."""
    is_pending = summary["status"] == "pending"
    when = summary["expires_at"] if is_pending else summary["decided_at"] or summary["expires_at"]
    state = None if is_pending else tag(in_words(STATUSES, summary["status"]))
    hidden = tag(f"{summary['hidden']} hidden", "hidden-tag") if summary["hidden"] else None
    return h(
        "li",
        h(
            "a",
            h("span", _parties(summary), moment(when, visit.now), class_="line"),
            h("span", summary["summary"], class_="summary", dir="auto"),
            h("span", tag(in_words(CAUSES, summary["cause"])), state, hidden, class_="tags"),
            href=address("approvals", summary["id"]),
        ),
        data_id=summary["id"],
        data_expires=summary["expires_at"],
    )


def _parties(approval: Document) -> Html:
    return h(
        "span",
        badge(approval["agent"]), h("b", approval["agent"], dir="auto"), h("span", " → ", class_="muted"),
        h("span", approval["to"], dir="auto"),
        class_="parties",
    )  # fmt: skip


def _older(summaries: list[Document], *, is_decided: bool) -> Html | None:
    if len(summaries) < PAGE:
        return None
    last = summaries[-1]["id"]
    path = address("approvals", status="decided", before=last) if is_decided else address("approvals", after=last)
    return next_page(path)


# ---------------------------------------------------------------- one approval


async def detail_page(visit: Visit, approval_id: str, problem: ApiRefused | None = None) -> Page:
    """A held message as it would be sent, why it is held, what was said before, and the form that decides."""
    approval: Document = await visit.get("approvals", approval_id, expand="exchange")
    place = await message.place_of(visit, approval)
    content = join(
        h("p", h("a", "Approvals", href=address("approvals")), class_="crumb"),
        _elsewhere(approval_id),
        message.decision_card(visit, approval, place, problem, action=address("approvals", approval_id)),
    )
    title = f"{approval['agent']} to {message.receiver_of(approval, place)}"
    return Page(title, content, _MENU, status=problem.status if problem else 200)


async def decide(visit: Visit, approval_id: str) -> Page | Redirect:
    """Send the decision; when it is refused, show what is the matter above the message, with what was typed."""
    try:
        await message.decide(visit, approval_id)
    except ApiRefused as refused:
        if refused.status in (401, 404):
            raise
        return await detail_page(visit, approval_id, refused)
    return Redirect(address("approvals", approval_id))


def _elsewhere(approval_id: str) -> Html:
    """What the script shows when it is decided on another page while it is read here."""
    link = h("a", "Show what became of it", href=address("approvals", approval_id))
    words = "It does not wait any more: somebody has decided about it, or it has expired. "
    return h("p", words, link, id="elsewhere", hidden=True, class_="note warn", role="status")
