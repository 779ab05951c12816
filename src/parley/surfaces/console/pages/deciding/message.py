"""A held message as it would be sent, why it is held, what was said before, and the form that decides.

Nothing of a message is cut off. The form carries the digest of what was rendered, so a decision is about exactly that.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from parley.domain.content.commitment import PLACES_MAX
from parley.surfaces.console.html import Html, h, join, text
from parley.surfaces.console.parts import badge, command, fact, moment, note, tag
from parley.surfaces.console.visit import ApiRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley.surfaces.console.html import Child
    from parley.surfaces.console.visit import Document, Visit

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
STATUSES = {
    "approved": "Approved",
    "rejected": "Rejected",
    "answered": "Answered",
    "expired": "Expired",
    "closed": "Closed with its exchange",
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


def decision_card(
    visit: Visit, approval: Document, place: Document, problem: ApiRefused | None = None, *, action: str | None = None
) -> Html:
    """The message with everything that a person needs to decide. `action`: where its form goes; None: to this page."""
    exchange: Document | None = approval.get("exchange")
    return h(
        "article",
        _heading(visit, approval, place),
        h("div", problem_note(problem), state_note(visit, approval), h("p", approval["reason"], dir="auto"),
          _warnings(approval), _content(approval), _so_far(exchange), _facts(visit, approval, exchange, place),
          class_="card-body"),
        _form(visit, approval, action),
        class_="card decision",
        data_id=approval["id"] if approval["status"] == "pending" else None,
    )  # fmt: skip


async def decide(visit: Visit, approval_id: str) -> None:
    """Send the decision of a form."""
    form = visit.form
    answer = form.get("answer", "")
    body = {"decision": form.get("decision", ""), "digest": form.get("digest", ""), "note": form.get("note", "")}
    await visit.post("approvals", approval_id, "decision", body=body | ({"answer": answer} if answer else {}))


async def place_of(visit: Visit, approval: Document) -> Document:
    """The channel that the message goes to, and the intent of it, as the agent sees them; empty when it cannot."""
    if not approval["channel_id"]:
        return {}
    try:
        channel: Document = await visit.get("channels", approval["channel_id"], seat=approval["agent"])
        intent: Document = await visit.get("intents", channel["intent_id"], seat=approval["agent"])
    except ApiRefused:
        return {}
    return {"channel": channel["name"], "intent": intent["title"]}


def in_words(table: dict[str, str], word: str) -> str:
    """A word of the API as people say it."""
    return table.get(word, word)


def receiver_of(approval: Document, place: Document) -> str:
    """Whom the message is for."""
    if approval["to"] in ("", "*"):
        return f"everyone in {place['channel']}" if place else "everyone in the channel"
    return str(approval["to"])


def _heading(visit: Visit, approval: Document, place: Document) -> Html:
    receiver = receiver_of(approval, place)
    person = [h("span", f" for {approval['user']}", class_="muted", dir="auto")] if approval["user"] else []
    left = (
        h("span", moment(approval["expires_at"], visit.now), class_="tag") if approval["status"] == "pending" else None
    )
    return h(
        "header",
        h("h1", badge(approval["agent"]), h("span", approval["agent"], dir="auto"), person, h("span", " → "),
          badge(receiver), h("span", receiver, dir="auto")),
        h("span", tag(in_words(CAUSES, approval["cause"]), "warn"), left, class_="tags"),
    )  # fmt: skip


def problem_note(problem: ApiRefused | None) -> Html | None:
    """Why a decision was refused."""
    if problem is None:
        return None
    return note("bad", h("b", "Not decided: "), problem.detail, h("p", h("code", problem.code)), role="alert")


def state_note(visit: Visit, approval: Document) -> Html | None:
    """What became of it, or what has changed meanwhile."""
    if approval["status"] != "pending":
        by = f" by {approval['decided_by']}" if approval["decided_by"] else ""
        sent = f" It was sent as {approval['message_id']}." if approval["message_id"] else ""
        words = in_words(STATUSES, approval["status"])
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
        _unmarked(places),
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


def _unmarked(places: dict[str, list[Document]]) -> Html | None:
    """That not every commitment word of a long text is marked: what is not looks harmless."""
    counts = [sum(place["mark"] == "detected" for place in marks) for marks in places.values()]
    if max(counts, default=0) < PLACES_MAX:
        return None
    lead = h("b", f"Only {PLACES_MAX} commitment words of a text are marked.")
    return note("warn", lead, " There may be more: read all of it.")


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


def _form(visit: Visit, approval: Document, action: str | None) -> Html | None:
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
        # The script says here why Approve sleeps; without it, Approve is awake.
        h("p", id="asleep", role="status", class_="muted") if "approve" in decisions else None,
        h("div", buttons, class_="buttons"),
        answer,
        method="post", action=action, id="decide", class_="deciding",
    )  # fmt: skip


def _button(words: str, decision: str, key: str, kind: str) -> Html:
    shortcut = [" ", h("kbd", key)] if key else None
    return h("button", words, shortcut, name="decision", value=decision, class_=kind)
