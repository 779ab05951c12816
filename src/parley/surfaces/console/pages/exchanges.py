"""Exchanges: how each ended, and one with its messages, also those that were held or denied, and its audit entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.menu import GOVERNS
from parley.surfaces.console.parts import (
    Filter,
    badge,
    data_table,
    empty,
    fact,
    filter_problem,
    filters,
    fresh,
    moment,
    next_page,
    note,
    short_id,
    tag,
)
from parley.surfaces.console.periods import HINT, as_time
from parley.surfaces.console.visit import ApiRefused, Page, Redirect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.surfaces.console.html import Child, Html
    from parley.surfaces.console.visit import Document, Visit

_MENU = "exchanges"
_PAGE = 50
# More rounds than this are a number.
_DOTS_MAX = 12
OUTCOMES = {
    "in_progress": ("in progress", ""),
    "resolved": ("resolved", "ok"),
    "escalated": ("waits for a person", "warn"),
    "denied": ("denied", "bad"),
    "expired": ("expired", ""),
}
# What became of a message: its sign, its words, and its colour.
_RESULTS = {"delivered": ("●", "ok"), "held": ("◐", "warn"), "denied": ("✕", "bad")}
_PURPOSES = {
    "information_query": "information query",
    "commitment_request": "commitment request",
    "meeting_scheduling": "meeting scheduling",
}
_REPLIES = {"agent-ok": "by an agent", "human-only": "by a person", "no-reply-needed": "not needed"}
LEVELS = ("public", "internal", "confidential", "restricted")
_NAMES = ("outcome", "agent", "user", "org_unit", "pair", "purpose", "classification")
_FILTERS = (
    Filter("outcome", "Outcome", tuple([(value, words) for value, (words, _) in OUTCOMES.items()])),
    Filter("agent", "Agent"),
    Filter("pair", "Two agents", hint="ann-bot,bob-bot"),
    Filter("user", "Person"),
    Filter("org_unit", "Org unit"),
    Filter("purpose", "Purpose", tuple(_PURPOSES.items())),
    Filter("classification", "Level", tuple([(level, level) for level in LEVELS])),
    Filter("since", "Since", hint=HINT),
    Filter("until", "Until", hint=HINT),
)


# ---------------------------------------------------------------- the list


async def list_page(visit: Visit) -> Page:
    """The exchanges that the caller may see, newest first."""
    query = visit.query
    problem: Html | None = None
    exchanges: list[Document] = []
    try:
        exchanges = await visit.get(
            "exchanges",
            **{name: query.get(name) for name in _NAMES},
            since=as_time(query.get("since", ""), visit.now),
            until=as_time(query.get("until", ""), visit.now, ends=True),
            before=query.get("before"),
            order="newest",
            limit=_PAGE,
        )
    except ApiRefused as refused:
        if refused.status != 422:
            raise
        problem = filter_problem(visit, refused, _FILTERS)
    content = join(
        h("h1", "Exchanges"),
        filters(visit, address("exchanges"), *_FILTERS),
        problem,
        fresh("exchanges", None if problem else _list(visit, exchanges)),
    )
    return Page("Exchanges", content, _MENU, topics="exchanges")


def _list(visit: Visit, exchanges: list[Document]) -> Html:
    if not exchanges:
        if any(visit.query.values()):
            return note("", "No exchange matches.")
        words = " A message that meets the policies opens one: between org units, or with a purpose or a level."
        return empty(
            [h("b", "There are no exchanges yet."), words],
            "parley post CHANNEL --to AGENT --purpose information_query --field text='How far is it?'",
        )
    headings = ("Outcome", "From and to", "Purpose", "Rounds", "Began", "Conversation")
    table = data_table("Exchanges, newest first", headings, [_row(visit, exchange) for exchange in exchanges])
    kept = {name: visit.query.get(name) for name in (*_NAMES, "since", "until")}
    last = exchanges[-1]["exchangeId"]
    return join(
        table, next_page(address("exchanges", **kept, before=last), "Older ones") if len(exchanges) == _PAGE else None
    )


def _row(visit: Visit, exchange: Document) -> Html:
    waiting = len(exchange["pending_approvals"])
    held = h("span", f" {waiting} held", class_="muted together") if waiting else None
    return h(
        "tr",
        h("td", outcome_tag(exchange["outcome"]), held),
        h("th", h("a", _parties(exchange), href=address("exchanges", exchange["exchangeId"])), scope="row"),
        h("td", _PURPOSES.get(exchange["exchange_type"], exchange["exchange_type"])),
        h("td", _rounds(exchange)),
        h("td", moment(exchange["started_at"], visit.now)),
        h("td", short_id(exchange["conversationId"]), dir="auto", title=exchange["conversationId"]),
    )


def outcome_tag(outcome: str) -> Html:
    """An outcome of an exchange, in words."""
    words, kind = OUTCOMES.get(outcome, (outcome, ""))
    return tag(words, kind)


def _parties(exchange: Document) -> Html:
    return h(
        "span",
        badge(exchange["initiator"]), h("b", exchange["initiator"], dir="auto"), h("span", " → ", class_="muted"),
        badge(exchange["responder"]), h("b", exchange["responder"], dir="auto"),
        class_="parties",
    )  # fmt: skip


def _rounds(exchange: Document) -> Child:
    """The rounds that were taken as filled dots, and the same as numbers."""
    taken, limit = exchange["currentRound"], exchange["maxRounds"]
    words = f"{taken} of {limit}"
    if limit > _DOTS_MAX:
        return words
    dots = "●" * min(taken, limit) + "○" * max(limit - taken, 0)
    return [h("span", dots, class_="dots", aria_hidden="true"), " ", words]


# ---------------------------------------------------------------- one exchange


async def detail_page(visit: Visit, exchange_id: str, problem: ApiRefused | None = None) -> Page:
    """An exchange: its outcome, its messages with what became of each, and the policies then and now."""
    exchange: Document = await visit.get("exchanges", exchange_id)
    now: Document = await visit.get("policies")
    left = None if exchange["ended_at"] else h("span", moment(exchange["expires_at"], visit.now), class_="tag")
    head = h(
        "header",
        h("h1", _parties(exchange)),
        h("span", outcome_tag(exchange["outcome"]), left, class_="tags"),
    )
    body = h(
        "div", _ending(visit, exchange), _messages(visit, exchange), _data(exchange),
        _facts(visit, exchange, str(now["label"])), class_="card-body",
    )  # fmt: skip
    content = join(
        h("p", h("a", "Exchanges", href=address("exchanges")), class_="crumb"),
        note("bad", h("b", "Not closed: "), problem.detail, role="alert") if problem else None,
        fresh("exchange", h("article", head, body, class_="card wide")),
        _closing(visit, exchange),
    )
    title = f"{exchange['initiator']} to {exchange['responder']}"
    return Page(title, content, _MENU, status=problem.status if problem else 200, topics="exchanges")


async def close(visit: Visit, exchange_id: str) -> Page | Redirect:
    """Close an exchange, for the reason that was typed."""
    try:
        await visit.post("exchanges", exchange_id, "close", body={"reason": visit.form.get("reason", "")})
    except ApiRefused as refused:
        if refused.status in (401, 404):
            raise
        return await detail_page(visit, exchange_id, refused)
    return Redirect(address("exchanges", exchange_id))


def _ending(visit: Visit, exchange: Document) -> Html | None:
    if not exchange["ended_at"]:
        return None
    by = f" by {exchange['ended_by']}" if exchange["ended_by"] else ""
    words, kind = OUTCOMES.get(exchange["outcome"], (exchange["outcome"], ""))
    reason = f": {exchange['reason']}" if exchange["reason"] else ""
    return note(kind, h("b", f"{words.capitalize()}{by}"), " ", moment(exchange["ended_at"], visit.now), reason)


def _messages(visit: Visit, exchange: Document) -> Html:
    messages: list[Document] = exchange["messages"]
    if not messages:
        return note("", "The audit log has no message of this exchange that you may see.")
    rows = [_message(visit, message) for message in messages]
    return join(h("h2", "Messages"), h("ol", rows, class_="timeline rows"))


def _message(visit: Visit, message: Document) -> Html:
    sign, kind = _RESULTS.get(message["outcome"], ("●", ""))
    who = message["person"] or message["sender"]
    instead = h("span", f" for {message['sender']}", class_="muted", dir="auto") if message["person"] else None
    number = f"Round {message['round']} · " if message["outcome"] == "delivered" else ""
    result = h("span", h("span", sign, aria_hidden="true"), f" {message['outcome']}", class_=f"tag {kind}")
    return h(
        "li",
        h(
            "div",
            h("span", badge(who, is_person=bool(message["person"])), h("b", who, dir="auto"), instead),
            h("span", result, tag(message["classification"]), class_="tags"),
            h("span", number, moment(message["at"], visit.now), class_="muted"),
            h("span", "audit ", _entries(message["audit"]), class_="entries"),
            class_="line",
        ),
        _words(message),
    )


def _words(message: Document) -> Html:
    """What a message says, or that nothing of it was kept; why it was not delivered, and who decided about it."""
    summary = message["summary"]
    lost = "Denied, so its content was not kept." if message["outcome"] == "denied" else "You may not read it."
    decided = f"{message['decision'] or 'approved'} by {message['decided_by']}" if message["decided_by"] else ""
    approval = message["approval"]
    link = h("a", decided or "Show the approval", href=address("approvals", approval), dir="auto") if approval else None
    code = h("code", message["code"]) if message["code"] else None
    return join(
        h("div", summary, class_="said", dir="auto") if summary else h("div", lost, class_="muted"),
        h("p", message["reason"], " ", code, class_="why", dir="auto") if message["reason"] else None,
        h("p", link, class_="why") if link else None,
    )


def _entries(numbers: Iterable[int]) -> list[Child]:
    return [[h("a", number, href=address("audit", str(number)), class_="number"), " "] for number in numbers]


def _data(exchange: Document) -> Html | None:
    shared = [f"{data['source']}: {', '.join(data['fields'])}" for data in exchange["dataShared"]]
    withheld = [f"{data['description']}: {data['reason']}" for data in exchange["dataWithheld"]]
    if not shared and not withheld:
        return None
    lines = [h("li", h("b", "Shared "), line, dir="auto") for line in shared]
    lines += [h("li", h("b", "Withheld "), line, dir="auto") for line in withheld]
    return join(h("h2", "Data", class_="title"), h("ul", lines))


def _facts(visit: Visit, exchange: Document, label: str) -> Html:
    then = exchange["policy_version"]
    policies = h("code", then)
    if then != label:
        difference = h("a", "difference", href=address("policies", "diff", from_=then, to=label))
        may_compare = visit.who["kind"] in GOVERNS
        policies = join(policies, " then, now ", h("code", label), " ", difference if may_compare else None)
    return h(
        "dl",
        fact("Rounds", _rounds(exchange)),
        fact("Purpose", _PURPOSES.get(exchange["exchange_type"], exchange["exchange_type"])),
        fact("Began", moment(exchange["started_at"], visit.now)),
        fact("Policies", policies),
        fact("Reply", _REPLIES.get(exchange["reply_policy"], exchange["reply_policy"])),
        fact(
            "Audit entries", h("a", "all of this exchange", href=address("audit", exchange_id=exchange["exchangeId"]))
        ),
        fact("Conversation", h("code", exchange["conversationId"], dir="auto"), is_long=True),
        fact("Exchange", h("code", exchange["exchangeId"]), is_long=True),
        class_="facts",
    )


def _closing(visit: Visit, exchange: Document) -> Html | None:
    """The form for a person; everybody else reads."""
    if exchange["ended_at"] or not visit.has_form:
        return None
    label = h("label", "Reason, for the audit log", for_="reason")
    field = h("input", id="reason", name="reason", maxlength=2000, dir="auto", autocomplete="off")
    button = h("p", h("button", "Close the exchange", class_="danger"))
    return h(
        "form", label, field, button, method="post", action=address("exchanges", exchange["exchangeId"]), class_="acts"
    )
