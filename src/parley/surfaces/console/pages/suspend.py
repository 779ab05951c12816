"""Suspend: what is suspended now, and forms to suspend and to lift. A preview says first what would be halted."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from parley.domain.agents.party import DEFAULT_ORG, PAIR_MARK
from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.parts import Filter, data_table, empty, fact, filters, fresh, moment, note
from parley.surfaces.console.visit import ApiRefused, Page, Redirect

if TYPE_CHECKING:
    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document, Visit

_MENU = "suspend"
_KINDS = {"agent": "An agent", "pair": "Two agents", "org_unit": "An org unit", "tenant": "Everything"}
# What somebody types to suspend everything, which has no name.
_EVERYTHING = "everything"
_HOURS = (("", "until it is lifted"), ("1", "for 1 hour"), ("8", "for 8 hours"), ("24", "for 1 day"))
_COUNTED_MAX = 1_000
_IN_ADVANCE = " Check the name. A suspension of it counts as soon as there is one."


async def list_page(visit: Visit, problem: str = "", status: int = 200) -> Page:
    """What is suspended, and for admins the form that previews a suspension."""
    suspensions: list[Document] = await visit.get("suspensions")
    content = join(
        h("h1", "Suspend"),
        note("bad", h("b", "Not done: "), problem, role="alert") if problem else None,
        fresh("suspensions", _list(visit, suspensions)),
        await _choice(visit) if visit.has_form else None,
    )
    return Page("Suspend", content, _MENU, status=status, topics="suspensions")


async def change(visit: Visit) -> Page | Redirect:
    """Suspend or lift; a refusal is shown above the list."""
    form = visit.form
    what, name = form.get("what", ""), form.get("name", "")
    try:
        if form.get("act") == "lift":
            await visit.delete("suspensions", what=what, name=name)
        elif form.get("typed", "").strip() != (name or _EVERYTHING):
            # The choice is shown again, with the form.
            visit.query.update(what=what, name=name)
            return await list_page(visit, "the name that you typed is another one; nothing was suspended", 422)
        elif not form.get("reason", "").strip():
            visit.query.update(what=what, name=name)
            return await list_page(visit, "say why; nothing was suspended", 422)
        else:
            await visit.post("suspensions", body=_suspension(visit, what, name))
    except ApiRefused as refused:
        if refused.status == 401:
            raise
        return await list_page(visit, refused.detail, refused.status)
    return Redirect(address("suspend"))


def _suspension(visit: Visit, what: str, name: str) -> Document:
    body: Document = {"what": what, "name": name, "reason": visit.form.get("reason", "")}
    hours = visit.form.get("hours", "")
    if hours in dict(_HOURS) and hours:
        body["until"] = (visit.now + timedelta(hours=int(hours))).isoformat()
    return body


# ---------------------------------------------------------------- what is suspended


def _list(visit: Visit, suspensions: list[Document]) -> Html:
    if not suspensions:
        about = " A suspended agent can send nothing, and nothing reaches it, until the suspension is lifted."
        return empty([h("b", "Nothing is suspended."), about], "parley suspend agent NAME --reason 'why'")
    headings = ("Suspended", "Reason", "By", "Since", "Ends", *(("Lift",) if visit.has_form else ()))
    rows = [_row(visit, suspension) for suspension in suspensions]
    return data_table("Suspensions in force", headings, rows)


def _row(visit: Visit, suspension: Document) -> Html:
    subject = _subject(suspension["what"], suspension["name"])
    lift = (
        h("form", h("input", type="hidden", name="what", value=suspension["what"]),
          h("input", type="hidden", name="name", value=suspension["name"]),
          h("button", "Lift", h("span", f" the suspension of {subject}", class_="sr"), name="act", value="lift"),
          method="post", action=address("suspend"))
        if visit.has_form else None
    )  # fmt: skip
    return h(
        "tr",
        h("th", subject, scope="row", dir="auto"),
        h("td", suspension["reason"] or "none given", dir="auto"),
        h("td", suspension["by"], dir="auto"),
        h("td", moment(suspension["at"], visit.now)),
        h("td", moment(suspension["until"], visit.now) if suspension["until"] else "when lifted"),
        h("td", lift) if visit.has_form else None,
    )


def _subject(what: str, name: str) -> str:
    return "everything" if what == "tenant" else f"{_KINDS.get(what, what).partition(' ')[2]} {name}"


# ---------------------------------------------------------------- suspending


async def _choice(visit: Visit) -> Html:
    """The form that chooses what to suspend; with a choice, what that would halt, and the form that does it."""
    what, name = visit.query.get("what", ""), visit.query.get("name", "").strip()
    title = h("h2", "Suspend something", class_="title")
    choose = filters(
        visit, address("suspend"),
        Filter("what", "What", tuple(_KINDS.items()), unset="choose one"),
        Filter("name", "Name", hint="agent, org unit, or two agents: a,b"),
        words="Preview",
    )  # fmt: skip
    if not what:
        is_sent = "what" in visit.query
        return join(title, choose, note("bad", "Choose what to suspend.", role="alert") if is_sent else None)
    try:
        preview = await visit.get("suspensions", "preview", what=what, name=name)
    except ApiRefused as refused:
        return join(title, choose, note("bad", refused.detail, role="alert"))
    return join(title, choose, await _unknown(visit, preview), _preview(preview), _form(preview))


async def _unknown(visit: Visit, preview: Document) -> Html | None:
    """That nobody has the name, which may be misspelt. It can be suspended before it is registered."""
    names = preview["name"].split(PAIR_MARK)
    if preview["what"] == "tenant" or preview["agents"] >= len(names):
        return None
    if preview["what"] == "org_unit":
        # Agents that nobody has placed are in it, registered or not.
        if names == [DEFAULT_ORG]:
            return None
        return note("warn", h("b", f'No agent is in org unit "{names[0]}".', dir="auto"), _IN_ADVANCE)
    agents: list[Document] = await visit.get("agents", names=",".join(names))
    known = {agent["agent_id"] for agent in agents}
    unknown = " or ".join([f'"{name}"' for name in names if name not in known])
    return note("warn", h("b", f"No agent {unknown} is registered.", dir="auto"), _IN_ADVANCE) if unknown else None


def _preview(preview: Document) -> Html:
    already = note("warn", "This is suspended already. Suspending it again changes its reason and its end.")
    halted = [("Agents", "agents"), ("Open exchanges", "exchanges"), ("Held messages", "approvals"),
              ("Unanswered requests", "asks")]  # fmt: skip
    return join(
        already if preview["suspended"] else None,
        note("", "A suspension of ", h("b", _subject(preview["what"], preview["name"]), dir="auto"), " would halt:"),
        h("dl", [fact(words, _count(preview[key])) for words, key in halted], class_="tiles"),
    )


def _count(count: int) -> str:
    return f"{count:,} or more" if count >= _COUNTED_MAX else f"{count:,}"


def _form(preview: Document) -> Html:
    typed = preview["name"] or _EVERYTHING
    return h(
        "form",
        h("input", type="hidden", name="what", value=preview["what"]),
        h("input", type="hidden", name="name", value=preview["name"]),
        h("p", h("label", "Reason, for the audit log", for_="reason"),
          h("input", id="reason", name="reason", required=True, autocomplete="off", dir="auto")),
        h("p", h("label", "How long", for_="hours"),
          h("select", [h("option", words, value=value) for value, words in _HOURS], id="hours", name="hours")),
        h("p", h("label", "Type ", h("b", typed, dir="auto"), " to confirm", for_="typed"),
          h("input", id="typed", name="typed", required=True, autocomplete="off", spellcheck="false", dir="auto")),
        h("button", "Suspend", name="act", value="suspend", class_="danger"),
        method="post", action=address("suspend"), class_="stacked",
    )  # fmt: skip
