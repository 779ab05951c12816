"""The audit log: its entries with filters, whether it is intact, and one entry with its reasons and its proof."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.pages.exchanges import outcome_tag
from parley.surfaces.console.parts import (
    Filter,
    badge,
    command,
    data_table,
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
from parley.surfaces.console.visit import ApiRefused, Page

if TYPE_CHECKING:
    from parley.surfaces.console.html import Child, Html
    from parley.surfaces.console.visit import Document, Visit

_MENU = "audit"
_PAGE = 50
_NUMBER_MAX = 10**15 - 1
# A signature that is older than this is late while entries wait for one.
_SIGNED_LATE_SECONDS = 60
_KINDS = {"delivered": "ok", "held": "warn", "denied": "bad"}
_OUTCOMES = ("delivered", "held", "denied", "resolved", "expired")
ACTIONS = (
    ("agent_exchange", "message"),
    ("agent_exchange_ended", "exchange ended"),
    ("agent_exchange_withdrawn", "request withdrawn"),
    ("approval_decided", "approval decided"),
    ("policy_changed", "policy changed"),
    ("agent_placed", "agent placed"),
    ("suspended", "suspended"),
    ("suspension_lifted", "suspension lifted"),
    ("key_created", "key created"),
    ("key_rotated", "key rotated"),
    ("key_revoked", "key revoked"),
    ("content_erased", "content erased"),
    ("approval_told", "notified about approval"),
    ("session_started", "signed in"),
    ("session_ended", "signed out"),
    ("login_link_created", "login link created"),
    ("approval_link_created", "approval link created"),
    ("identity_registered", "signing key registered"),
    ("identity_rotated", "signing key replaced"),
    ("audit_let_go", "old entries trimmed"),
)
_NAMES = ("outcome", "action", "side", "actor", "pair", "code", "exchange_id", "message_id")
_FILTERS = (
    Filter("outcome", "Outcome", tuple([(word, word) for word in _OUTCOMES])),
    Filter("action", "Action", ACTIONS),
    Filter("side", "Side", hint="an agent, or @tenant"),
    Filter("actor", "Actor"),
    Filter("pair", "Two agents", hint="ann-bot,bob-bot"),
    Filter("code", "Error code"),
    Filter("exchange_id", "Exchange"),
    Filter("message_id", "Message"),
    Filter("since", "Since", hint=HINT),
    Filter("until", "Until", hint=HINT),
)


# ---------------------------------------------------------------- the list


async def list_page(visit: Visit) -> Page:
    """The newest entries first, above them the state of the log."""
    state: Document = await visit.get("audit", "state")
    counts: Document = await visit.get("audit", "counts")
    problem, page = None, None
    try:
        page = await _entries(visit)
    except ApiRefused as refused:
        if refused.status != 422:
            raise
        problem = filter_problem(visit, refused, _FILTERS)
    content = join(
        h("h1", "Audit log"),
        fresh("audit-state", _state(visit, state), _tiles(counts)),
        filters(visit, address("audit"), *_FILTERS),
        problem,
        fresh("audit", _list(visit, page) if page is not None else None),
        _export(visit),
    )
    return Page("Audit log", content, _MENU, topics="audit")


async def _entries(visit: Visit) -> Document:
    query = visit.query
    page: Document = await visit.get(
        "audit",
        **{name: query.get(name) for name in _NAMES},
        since=as_time(query.get("since", ""), visit.now),
        until=as_time(query.get("until", ""), visit.now, ends=True),
        before=query.get("before") or _NUMBER_MAX,
        limit=_PAGE,
    )
    return page


def _state(visit: Visit, state: Document) -> Html:
    """Whether the log is intact, how far it is signed, and since when."""
    size, checked, signed = state["size"], state["verified_to"], state["signed_size"]
    if state["broken_at"]:
        words = [h("b", f"Broken at entry {state['broken_at']:,}: "), state["reason"], "."]
        copy = command("parley audit export > audit.jsonl && parley audit verify audit.jsonl")
        return note("bad", *words, h("p", "Keep a copy before you do anything else:"), copy, role="alert")
    if not size:
        return note("", "No entry yet.")
    intact = f"Intact to {checked:,}" if checked >= size else f"Checking: {checked:,} of {size:,} entries are intact"
    if not signed:
        return note("warn", h("b", intact), ". Not signed yet.")
    at = moment(state["signed_at"], visit.now)
    is_late = signed < size and _age(visit, state["signed_at"]) > _SIGNED_LATE_SECONDS
    return note("warn" if is_late else "ok", h("b", intact), f" · signed to {signed:,} ", at, " by key ",
                h("code", state["key_id"]))  # fmt: skip


def _age(visit: Visit, at: str) -> float:
    return (visit.now - datetime.fromisoformat(at)).total_seconds()


def _tiles(counts: Document) -> Html:
    """What happened in the last 24 hours."""
    sums = {name: sum([span[name] for span in counts["counts"]]) for name in ("sent", "held", "denied", "entries")}
    words = {"sent": "Delivered", "held": "Held", "denied": "Denied", "entries": "Entries"}
    tiles = [h("div", h("dt", f"{words[name]} in 24 hours"), h("dd", number)) for name, number in sums.items()]
    return h("dl", tiles, class_="tiles")


def _list(visit: Visit, page: Document) -> Html:
    entries: list[Document] = page["entries"][::-1]
    older = None
    if page["previous"]:
        kept = {name: visit.query.get(name) for name in (*_NAMES, "since", "until")}
        older = next_page(address("audit", **kept, before=page["previous"]), "Older ones")
    if not entries:
        return join(note("", "No entry matches here." if any(visit.query.values()) else "No entry yet."), older)
    headings = ("Number", "Outcome", "What", "Side", "Time", "Why")
    return join(data_table("Entries, newest first", headings, [_row(visit, entry) for entry in entries]), older)


def _row(visit: Visit, entry: Document) -> Html:
    facts: Document = entry["document"] or {}
    return h(
        "tr",
        h("th", h("a", entry["number"], href=address("audit", str(entry["number"]))), scope="row"),
        h("td", _outcome(facts)),
        h("td", _subject(facts)),
        h("td", entry["side"], dir="auto"),
        h("td", moment(entry["at"], visit.now)),
        h(
            "td",
            facts.get("reason") or facts.get("note") or "",
            [" ", _code(facts)] if facts.get("code") else None,
            dir="auto",
        ),
    )


def _outcome(facts: Document) -> Html | None:
    outcome = str(facts.get("outcome") or facts.get("decision") or "")
    if facts.get("action") == "agent_exchange_ended":
        return outcome_tag(outcome)
    return tag(outcome, _KINDS.get(outcome, "")) if outcome else None


def _code(facts: Document) -> Html | None:
    return h("code", facts["code"]) if facts.get("code") else None


def _subject(facts: Document) -> Child:
    """Who wrote to whom, or what was done to what by whom."""
    if not facts:
        return h("span", "trimmed", class_="muted")
    if facts.get("sender"):
        return [badge(facts["sender"]), h("span", facts["sender"], dir="auto"), h("span", " → ", class_="muted"),
                h("span", facts.get("to") or "*", dir="auto")]  # fmt: skip
    words = dict(ACTIONS).get(facts["action"], str(facts["action"]).replace("_", " "))
    about = [str(facts[name]) for name in _ABOUT if facts.get(name)]
    by = h("span", f" by {short_id(facts['actor'])}", class_="muted", dir="auto", title=facts["actor"])
    subject = h("span", f" {short_id(about[0])}", dir="auto", title=about[0]) if about else None
    return [words, subject, by]


# What an administrative entry is about, the most telling first.
_ABOUT = ("document", "agent", "name", "approval", "agent_id", "user_id", "exchange_id", "conversation_id", "made_key")


def _export(visit: Visit) -> Html:
    """The command that takes along what the filters of side and period select, and verifies it elsewhere."""
    options = []
    for name in ("side", "since", "until"):
        value = visit.query.get(name, "")
        if value and value.replace("-", "").replace("@", "").replace(":", "").replace(".", "").isalnum():
            options.append(f" --{name} {value}")
    return join(
        h("h2", "Export", class_="title"),
        command(f"parley audit export{''.join(options)} > audit.jsonl && parley audit verify audit.jsonl"),
    )


# ---------------------------------------------------------------- one entry


async def detail_page(visit: Visit, number: str) -> Page:
    """One entry: why its message ended as it did, the proof that it is signed, and exactly what is hashed."""
    explanation: Document = await visit.get("audit", number, "explain")
    page: Document = await visit.get("audit", after=explanation["number"] - 1, limit=1)
    entry: Document = page["entries"][0]
    facts: Document = entry["document"] or {}
    head = h("header", h("h1", f"Entry {entry['number']:,}"), h("span", _outcome(facts), class_="tags"))
    body = h(
        "div",
        h("p", _subject(facts)),
        _reasons(explanation),
        _facts(visit, entry, facts),
        _steps(explanation, str((facts.get("rule") or {}).get("key", ""))),
        await _proof(visit, entry["number"]),
        _document(facts),
        class_="card-body",
    )
    content = join(
        h("p", h("a", "Audit log", href=address("audit")), class_="crumb"), h("article", head, body, class_="card wide")
    )
    return Page(f"Audit entry {entry['number']}", content, _MENU)


def _reasons(explanation: Document) -> Html | None:
    if not explanation["reasons"]:
        return None
    lines = [h("li", reason, dir="auto") for reason in explanation["reasons"]]
    return join(h("h2", "Why"), h("ul", lines, class_="turns"))


def _facts(visit: Visit, entry: Document, facts: Document) -> Html:
    exchange = entry["exchange_id"]
    message = facts.get("message_id")
    about = [
        fact("Time", moment(entry["at"], visit.now)),
        fact("Side", h("span", f"{entry['side']}, entry {entry['seq']:,} of it", dir="auto")),
        fact("Actor", h("span", facts.get("actor", "-"), dir="auto")),
        fact("Action", dict(ACTIONS).get(facts.get("action", ""), facts.get("action", "trimmed"))),
        fact("Level", facts["classification"]) if facts.get("classification") else None,
        fact("Policies", h("code", facts["policy"])) if facts.get("policy") else None,
        fact("Exchange", h("a", exchange, href=address("exchanges", exchange))) if exchange else None,
        fact("Message", h("a", message, href=address("audit", message_id=message))) if message else None,
        fact("Approval", h("code", facts["approval"])) if facts.get("approval") else None,
        fact("Via", facts["via"]) if facts.get("via") else None,
    ]
    return h("dl", about, class_="facts")


def _steps(explanation: Document, rule: str) -> Html | None:
    """Every check of the policies of then, for those who may read the policies; `rule` is the one that decided."""
    if not explanation["steps"]:
        return None
    kind = _KINDS.get(explanation["outcome"] or "", "")
    rows = [
        h(
            "tr",
            h("th", step["check"], [" ", tag("decided", kind)] if step["check"] == rule else None, scope="row"),
            h("td", step["value"], dir="auto"),
            h("td", step["source"], dir="auto"),
            h("td", step["found"], dir="auto"),
        )
        for step in explanation["steps"]
    ]
    table = data_table("Checks of the policies of then", ("Check", "Value", "From", "Found"), rows)
    lost = "" if explanation["with_content"] else " The content was not kept: only what was detected in it counts."
    if explanation["agrees"]:
        words = note("", f"These checks come to the same again: {explanation['verdict']}.", lost)
    else:
        changed = (
            " What they depend on beside the policies has changed since, or rules of the organisation were stricter."
        )
        words = note("warn", h("b", f"Now these checks come to {explanation['verdict']}."), changed, lost)
    return join(h("h2", "Checks", class_="title"), table, words)


async def _proof(visit: Visit, number: int) -> Html:
    """The signed checkpoint that covers it, and the commands that prove it to somebody else."""
    line = f"parley audit prove {number} > proof.json && parley audit verify --proof proof.json"
    try:
        proof: Document = await visit.get("audit", "proof", str(number))
    except ApiRefused as refused:
        return join(h("h2", "Proof", class_="title"), note("warn", refused.detail))
    checkpoint = proof["checkpoint"]
    signed = [
        f"One of the first {checkpoint['size']:,} entries, which key ",
        h("code", checkpoint["key_id"]),
        " signed ",
        moment(checkpoint["at"], visit.now),
        f". {len(proof['path'])} hashes lead from it to the root.",
    ]
    hashes = h("dl", fact("Hash of the entry", h("code", proof["entry"]["entry_hash"]), is_long=True),
               fact("Root", h("code", checkpoint["root"]), is_long=True), class_="facts")  # fmt: skip
    return join(h("h2", "Proof", class_="title"), h("p", signed), hashes, command(line))


def _document(facts: Document) -> Html:
    if not facts:
        return note("", "The document was trimmed after the retention time. Its hash stays, and with it every proof.")
    return h("details", h("summary", "All that it says, as JSON"),
             h("pre", json.dumps(facts, ensure_ascii=False, indent=2), dir="auto"))  # fmt: skip
