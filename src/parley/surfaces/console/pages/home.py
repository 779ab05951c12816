"""The first page: for a person their approvals; for an admin or auditor five numbers, and what needs somebody."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.menu import GOVERNS
from parley.surfaces.console.parts import data_table, fresh, moment, note, tag
from parley.surfaces.console.visit import ApiRefused, Page, Redirect

if TYPE_CHECKING:
    from parley.surfaces.console.html import Child, Html
    from parley.surfaces.console.visit import Document, Visit

_NEEDS = 20
# Refused messages are counted up to here.
# Entries about messages: those about the end of an exchange would count a refusal twice.
_MESSAGES = "agent_exchange"
_DENIED_MAX = 1_000
_NEWEST = 10**15 - 1


class Need(NamedTuple):
    """Something that needs somebody: since when, what it is, and the page that says more."""

    at: str
    kind: str
    words: str
    path: str
    tone: str = "warn"


async def first_page(visit: Visit) -> Page | Redirect:
    """Where somebody begins who has signed in."""
    if visit.who["kind"] not in GOVERNS:
        return Redirect(address("approvals"))
    approvals, asks = await _approvals(visit), await _late_asks(visit)
    denied, status = await _denied(visit), await _get(visit, "status")
    needs = sorted([*approvals, *asks, *denied, *_concerns(visit, status)], reverse=True)[:_NEEDS]
    rows = [_row(visit, need) for need in needs]
    table = data_table("What needs somebody, newest first", ("What", "About", "When"), rows)
    tiles = await _tiles(visit, denied, status)
    nothing = note("ok", h("b", "Nothing needs anybody."), " Held messages, late requests and refusals appear here.")
    content = join(h("h1", "Home"), fresh("home", h("dl", tiles, class_="tiles"), table if rows else nothing))
    return Page("Home", content, "", topics="audit,agents", every=10)


async def _get(visit: Visit, *steps: str, **query: str | int | None) -> Any:  # noqa: ANN401  # JSON
    """What the API has, or None where the key may not read it."""
    try:
        return await visit.get(*steps, **query)
    except ApiRefused as refused:
        if refused.status == 401:
            raise
        return None


# ---------------------------------------------------------------- five numbers


async def _tiles(visit: Visit, denied: list[Need], status: Document | None) -> list[Html]:
    waiting = await _get(visit, "approvals", "count", status="pending")
    asks = await _get(visit, "asks", "count", since=_ago(visit, hours=24))
    agents: list[Document] = await visit.get("agents")
    online = sum([agent["online"] for agent in agents])
    count = f"{len(denied):,} or more" if len(denied) == _DENIED_MAX else len(denied)
    nodes = None if status is None else len(status["nodes"])
    troubles = len(status["concerns"]) if status else 0
    about = f"{troubles} need{'s' if troubles == 1 else ''} somebody" if troubles else "all is well"
    return [
        _tile("Waiting approvals", waiting and waiting["count"], address("approvals"), "for a person"),
        _tile("Late requests", asks and asks["late"], "", "in the last 24 hours"),
        _tile("Agents online", online, address("agents"), f"of {len(agents):,}"),
        _tile("Denied", count, address("audit", action=_MESSAGES, outcome="denied"), "in the last hour"),
        _tile("Servers", nodes, address("servers") if visit.who.get("operator") else "", about if status else ""),
    ]


def _tile(name: str, value: str | int | None, path: str, about: str = "") -> Html:
    shown: Child = h("span", "-", title="this key may not read it") if value is None else value
    return h(
        "div", h("dt", h("a", name, href=path) if path and value is not None else name), h("dd", shown),
        h("dd", about if value is not None else "not for this key", class_="muted"),
    )  # fmt: skip


def _ago(visit: Visit, hours: int) -> str:
    return (visit.now - timedelta(hours=hours)).isoformat()


# ---------------------------------------------------------------- what needs somebody


async def _approvals(visit: Visit) -> list[Need]:
    pending = await _get(visit, "approvals", status="pending", order="newest", summary="true", limit=_NEEDS)
    return [
        Need(held["created_at"], "approval", f"{held['agent']} to {held['to']}: {held['summary']}",
             address("approvals", held["id"]))
        for held in pending or ()
    ]  # fmt: skip


async def _late_asks(visit: Visit) -> list[Need]:
    late = await _get(visit, "asks", state="late", order="newest", limit=_NEEDS, since=_ago(visit, hours=24))
    return [
        Need(ask["until"] or ask["asked_at"], "late request", f"{ask['sender']} asked {ask['to']}: {ask['summary']}",
             address("channels", ask["channel_id"], "messages", ask["message_id"]))
        for ask in late or ()
    ]  # fmt: skip


async def _denied(visit: Visit) -> list[Need]:
    """What was refused in the last hour."""
    page = await _get(
        visit,
        "audit",
        action=_MESSAGES,
        outcome="denied",
        since=_ago(visit, hours=1),
        before=_NEWEST,
        limit=_DENIED_MAX,
    )
    return [_refusal(entry) for entry in (page["entries"] if page else ()) if entry["document"]]


def _refusal(entry: Document) -> Need:
    facts = entry["document"]
    who = [str(facts.get(name) or "") for name in ("sender", "to")]
    words = f"{' to '.join(filter(None, who)) or entry['side']}: {facts.get('reason') or facts.get('code') or 'denied'}"
    return Need(entry["at"], "denied", words, address("audit", str(entry["number"])), "bad")


def _concerns(visit: Visit, status: Document | None) -> list[Need]:
    path = address("servers") if visit.who.get("operator") else ""
    concerns = status["concerns"] if status else ()
    return [Need(visit.now.isoformat(), "server", concern["detail"], path, "bad") for concern in concerns]


def _row(visit: Visit, need: Need) -> Html:
    return h(
        "tr",
        h("td", tag(need.kind, need.tone)),
        h("td", h("a", need.words, href=need.path, dir="auto") if need.path else h("span", need.words, dir="auto")),
        h("td", moment(need.at, visit.now)),
    )
