"""Approvals: the queue of what waits for a person, one held message to the letter, and the decision about it.

Nothing of a message is cut off. The form carries the digest of what was rendered, so a decision is about exactly that.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from parley.surfaces.console.html import Html, address, h, join, text
from parley.surfaces.console.parts import badge, command, fact, moment, next_page, note, tabs, tag
from parley.surfaces.console.visit import ApiRefused, Page, Redirect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley.surfaces.console.html import Child
    from parley.surfaces.console.visit import Document, Visit

PAGE = 100
_MENU = "approvals"
# Why a message is held, in words.
CAUSES = {
    "cross_org": "another org unit",
    "round_limit": "round limit",
    "human_only": "people only",
    "commitment": "commitment",
    "pair_budget": "budget of the pair",
    "loop_detected": "loop",
    "rule": "rule",
}
_STATUSES = {
    "approved": "Approved",
    "rejected": "Rejected",
    "answered": "Answered by a person",
    "expired": "Expired",
    "cancelled": "Cancelled",
}
_BARRED = {
    "human_required": "Only a person can decide, and you have signed in with a key that is no person's."
    " This signs in as one:",
    "not_owner": "Another person decides about this message.",
    "approval_decided": "It has been decided.",
    "approval_expired": "It expired before anybody decided.",
}
_AS_A_PERSON = "parley key create --user NAME --save && parley console --context NAME"
_NO_MESSAGE = "There is no message: the exchange is at its limit, and a person says how it goes on."


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
        command("parley approval list"),
    )  # fmt: skip


def queue_row(visit: Visit, summary: Document) -> Html:
    """One approval of the queue; the live stream sends the same."""
    is_pending = summary["status"] == "pending"
    when = summary["expires_at"] if is_pending else summary["decided_at"] or summary["expires_at"]
    state = None if is_pending else tag(_in_words(_STATUSES, summary["status"]))
    hidden = tag(f"{summary['hidden']} hidden", "hidden-tag") if summary["hidden"] else None
    return h(
        "li",
        h(
            "a",
            h("span", _parties(summary), moment(when, visit.now), class_="line"),
            h("span", summary["summary"], class_="summary", dir="auto"),
            h("span", tag(_in_words(CAUSES, summary["cause"])), state, hidden, class_="tags"),
            href=address("approvals", summary["id"]),
        ),
        data_id=summary["id"],
        data_expires=summary["expires_at"],
    )


def _in_words(table: dict[str, str], word: str) -> str:
    return table.get(word, word)


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
    exchange: Document | None = approval.get("exchange")
    place = await _place(visit, approval)
    title = f"{approval['agent']} to {_receiver(approval, place)}"
    content = join(
        h("p", h("a", "Approvals", href=address("approvals")), class_="crumb"),
        _elsewhere(approval_id),
        h(
            "article",
            _heading(visit, approval, place),
            h("div", _problem(problem), _state(visit, approval), h("p", approval["reason"], dir="auto"),
              _warnings(approval), _content(approval), _so_far(exchange), _facts(visit, approval, exchange, place),
              class_="card-body"),
            _form(visit, approval),
            class_="card decision",
            data_id=approval_id if approval["status"] == "pending" else None,
        ),
    )  # fmt: skip
    return Page(title, content, _MENU, status=problem.status if problem else 200)


async def decide(visit: Visit, approval_id: str) -> Page | Redirect:
    """Send the decision; when it is refused, show what is the matter above the message, with what was typed."""
    form = visit.form
    answer = form.get("answer", "")
    body = {"decision": form.get("decision", ""), "digest": form.get("digest", ""), "note": form.get("note", "")}
    try:
        await visit.post("approvals", approval_id, "decision", body=body | ({"answer": answer} if answer else {}))
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


async def _place(visit: Visit, approval: Document) -> Document:
    """The channel that the message goes to, and the intent of it, as the agent sees them; empty when it cannot."""
    if not approval["channel_id"]:
        return {}
    try:
        channel: Document = await visit.get("channels", approval["channel_id"], seat=approval["agent"])
        intent: Document = await visit.get("intents", channel["intent_id"], seat=approval["agent"])
    except ApiRefused:
        return {}
    return {"channel": channel["name"], "intent": intent["title"]}


def _receiver(approval: Document, place: Document) -> str:
    if approval["to"] in ("", "*"):
        return f"everyone in {place['channel']}" if place else "everyone in the channel"
    return str(approval["to"])


def _heading(visit: Visit, approval: Document, place: Document) -> Html:
    receiver = _receiver(approval, place)
    person = [h("span", f" for {approval['user']}", class_="muted", dir="auto")] if approval["user"] else []
    left = (
        h("span", moment(approval["expires_at"], visit.now), class_="tag") if approval["status"] == "pending" else None
    )
    return h(
        "header",
        h("h1", badge(approval["agent"]), h("span", approval["agent"], dir="auto"), person, h("span", " → "),
          badge(receiver), h("span", receiver, dir="auto")),
        h("span", tag(_in_words(CAUSES, approval["cause"]), "warn"), left, class_="tags"),
    )  # fmt: skip


def _problem(problem: ApiRefused | None) -> Html | None:
    if problem is None:
        return None
    return note("bad", h("b", "Not decided: "), problem.detail, h("p", h("code", problem.code)), role="alert")


def _state(visit: Visit, approval: Document) -> Html | None:
    """What became of it, or what has changed meanwhile."""
    if approval["status"] != "pending":
        by = f" by {approval['decided_by']}" if approval["decided_by"] else ""
        sent = f" It was sent as {approval['message_id']}." if approval["message_id"] else ""
        words = _in_words(_STATUSES, approval["status"])
        at = [" ", moment(approval["decided_at"], visit.now)] if approval["decided_at"] else []
        remark = h("p", "Note: ", approval["note"]) if approval["note"] else None
        return note("ok", h("b", f"{words}{by}"), at, ".", sent, remark)
    if approval["stale"]:
        return note(
            "warn", h("b", "The policies have changed"), " since this was held. Approving checks it again first."
        )
    return None


def _warnings(approval: Document) -> Iterator[Html]:
    hidden = approval["hidden_characters"]
    if hidden:
        kinds = sorted({f"{character['code_point']} {character['name'].lower()}" for character in hidden})
        count = len(hidden)
        lead = "1 character cannot be seen." if count == 1 else f"{count} characters cannot be seen."
        words = " They are spelled out below, because the receiver's program reads them: "
        yield note("warn", h("b", lead), words, ", ".join(kinds), ".")
    if approval["confusable"]:
        scripts = sorted({"/".join(word["scripts"]) for word in approval["confusable"]})
        words = f" ({', '.join(scripts)}). They are marked below: one may be taken for another."
        yield note("warn", h("b", "Letters of several scripts in one word"), words)


def _content(approval: Document) -> Html:
    """What will be sent, field by field, and the same as JSON to the letter."""
    if approval["payload"] is None:
        is_pending = approval["status"] == "pending"
        return note("", _NO_MESSAGE if is_pending else "The message is not kept any more.")
    places = _places(approval)
    rows = [
        h("tr", h("th", _marked(name, places.get(f"{where}#", [])), scope="row"), h("td", _value(value, where, places)))
        for name, where, value in _fields(approval["payload"], "/payload")
    ]
    raw = json.dumps(approval["payload"], ensure_ascii=False, indent=2)
    metadata = json.dumps(approval["metadata"], ensure_ascii=False, indent=2) if approval["metadata"] else ""
    return join(
        h(
            "section",
            h("h2", "What will be sent" if approval["status"] == "pending" else "The message",
              h("span", f"{approval['bytes']:,} bytes", class_="muted")),
            h("table", rows, class_="content"),
            class_="message", aria_label="The message",
        ),
        h("details", h("summary", "As JSON, to the letter"), h("pre", raw, dir="auto"),
          [h("h3", "Metadata"), h("pre", metadata, dir="auto")] if metadata else None),
    )  # fmt: skip


def _fields(payload: Document, where: str) -> Iterator[tuple[str, str, Any]]:
    for name, value in payload.items():
        yield name, f"{where}/{_escaped(name)}", value


def _escaped(name: str) -> str:
    """A name as a part of a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _value(value: Any, where: str, places: dict[str, list[Document]]) -> Child:  # noqa: ANN401  # JSON
    if isinstance(value, str):
        return h("div", _marked(value, places.get(where, [])), class_="said", dir="auto")
    if isinstance(value, dict) and value:
        rows = [
            h(
                "tr",
                h("th", _marked(name, places.get(f"{place}#", [])), scope="row"),
                h("td", _value(inner, place, places)),
            )
            for name, place, inner in _fields(value, where)
        ]
        return h("table", rows, class_="content inner")
    if isinstance(value, list) and value:
        return h("ol", [h("li", _value(item, f"{where}/{number}", places)) for number, item in enumerate(value)])
    return h("code", json.dumps(value))


def _places(approval: Document) -> dict[str, list[Document]]:
    """By the pointer to a text: the words in it that are marked."""
    places: dict[str, list[Document]] = {}
    for kind in ("detected", "confusable"):
        for place in approval[kind]:
            places.setdefault(place["where"], []).append({**place, "mark": kind})
    return places


def _marked(content: str, places: list[Document]) -> Html:
    """A text with its words marked; where two kinds overlap, as both."""
    ends = {end for place in places for end in (place["position"], place["position"] + place["length"])}
    cuts = sorted({0, len(content), *ends})
    return join(*[_piece(content[start:end], start, places) for start, end in pairwise(cuts)])


def _piece(content: str, start: int, places: list[Document]) -> Html:
    marks = [place for place in places if place["position"] <= start < place["position"] + place["length"]]
    if not marks:
        return text(content)
    kinds = " ".join(dict.fromkeys(place["mark"] for place in marks))
    about = "; ".join([place.get("keyword") or ", ".join(place["scripts"]) for place in marks])
    return h("mark", text(content), class_=kinds, title=about)


def _so_far(exchange: Document | None) -> Html | None:
    if exchange is None or not exchange["transcript"]:
        return None
    turns = [
        h("li", h("b", turn.get("person") or turn["sender"], dir="auto"), ": ", h("span", turn["summary"], dir="auto"))
        for turn in exchange["transcript"]
    ]
    return h("section", h("h2", "So far", class_="title"), h("ol", turns, class_="turns"), aria_label="So far")


def _facts(visit: Visit, approval: Document, exchange: Document | None, place: Document) -> Html:
    rows: list[Html] = []
    if place:
        rows += [fact("Channel", place["channel"]), fact("Intent", place["intent"])]
    if exchange is not None:
        here, most = exchange["currentRound"], exchange["maxRounds"]
        rows.append(fact("Round", f"{here:,} of {most:,}"))
    rows += [
        fact("Purpose", approval["exchange_type"].replace("_", " ") or "-"),
        fact("Level", approval["classification"] or "-"),
        fact("Kind of message", approval["message_type"] or "-"),
        fact("Policies", h("code", approval["policy_version"])),
        fact("Waits since" if approval["status"] == "pending" else "Held", moment(approval["created_at"], visit.now)),
        fact("Who may decide", ", ".join(approval["deciders"]) or "nobody any more"),
        fact("Approval", h("code", approval["id"]), is_long=True),
        fact("Digest of what is shown", h("code", approval["digest"]), is_long=True),
    ]
    return h("dl", rows, class_="facts")


def _form(visit: Visit, approval: Document) -> Html | None:
    decisions = approval["decisions"]
    if not decisions:
        words = _BARRED.get(approval["barred"] or "", "") if approval["status"] == "pending" else ""
        line = command(_AS_A_PERSON) if approval["barred"] == "human_required" else None
        return h("footer", h("p", words, class_="muted"), line) if words else None
    closes = approval["closes"]
    form = visit.form if visit.request.method == "POST" else {}
    also = f"Rejecting also closes {len(closes)} other held message{'s' if len(closes) > 1 else ''} of this exchange."
    buttons = []
    if "approve" in decisions:
        buttons.append(_button("Approve and send", "approve", "y", "primary"))
    if "reject" in decisions:
        buttons.append(_button("Reject", "reject", "n", "danger"))
    answer = None
    if "answer" in decisions:
        field = h("textarea", form.get("answer", ""), name="answer", id="answer", rows=3, maxlength=65_536, dir="auto")
        answer = h(
            "details",
            h("summary", "Answer yourself ", h("kbd", "e")),
            h("label", "Your answer, sent in place of the message", for_="answer"), field,
            _button("Send the answer", "answer", "", "primary"),
            id="answering", open=bool(form.get("answer")),
        )  # fmt: skip
    return h(
        "form",
        # Enter in the note would press the first button of the form: that is one that does nothing.
        h("button", disabled=True, hidden=True),
        h("input", type="hidden", name="digest", value=approval["digest"]),
        h("label", "Note, for the log and for the agent", for_="note"),
        h("input", id="note", name="note", maxlength=2_000, value=form.get("note", ""), dir="auto", autocomplete="off"),
        h("p", also, class_="muted") if closes else None,
        h("div", buttons, class_="buttons"),
        answer,
        method="post", action=address("approvals", approval["id"]), id="decide", class_="deciding",
    )  # fmt: skip


def _button(words: str, decision: str, key: str, kind: str) -> Html:
    shortcut = [" ", h("kbd", key)] if key else None
    return h("button", words, shortcut, name="decision", value=decision, class_=kind)
