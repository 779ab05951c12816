"""Agents: who is there, whom each acts for, what waits for it, and the policies in force for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.menu import GOVERNS
from parley.surfaces.console.pages.policies import value_text
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
    note,
    presence,
    tag,
)  # fmt: skip
from parley.surfaces.console.visit import ApiRefused, Page

if TYPE_CHECKING:
    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document, Visit

_MENU = "agents"
_ROWS_MAX = 500
_ASKS = 20
_STATUSES = (
    ("active", "active"),
    ("draining", "stopping"),
    ("unhealthy", "away"),
    ("dead", "offline"),
    ("deregistered", "left"),
)
_FILTERS = (
    Filter("status", "Status", _STATUSES),
    Filter("role_id", "Role"),
    Filter("capability", "Capability"),
)


async def list_page(visit: Visit) -> Page:
    """The registered agents, those that are there first."""
    fields = {name: visit.query.get(name) for name in ("status", "role_id", "capability")}
    head = join(h("h1", "Agents"), filters(visit, address("agents"), *_FILTERS))
    try:
        agents: list[Document] = await visit.get("agents", **fields)
    except ApiRefused as refused:
        if refused.status != 422:
            raise
        return Page("Agents", join(head, filter_problem(visit, refused, _FILTERS)), _MENU, status=422)
    agents.sort(key=lambda agent: (not agent["online"], agent["status"] == "deregistered", agent["agent_id"]))
    rows = [_agent_row(visit, agent) for agent in agents[:_ROWS_MAX]]
    online = sum([agent["online"] for agent in agents])
    caption = f"{online:,} of {len(agents):,} online"
    headings = ("Agent", "Presence", "Acts for", "Org unit", "Role", "Open requests")
    cut = (
        note("", f"The first {_ROWS_MAX} are shown. Filter by role or capability.") if len(agents) > _ROWS_MAX else None
    )
    content = join(head, fresh("agents", data_table(caption, headings, rows) if rows else _no_agents(), cut))
    return Page("Agents", content, _MENU, topics="agents", every=10)


def _agent_row(visit: Visit, agent: Document) -> Html:
    name, person = agent["agent_id"], agent["user_id"]
    asks = agent["open_asks"]
    return h(
        "tr",
        h("td", badge(name), h("a", name, href=address("agents", name), dir="auto")),
        h("td", presence(agent, visit.now)),
        h("td", [badge(person, is_person=True), h("span", person, dir="auto")] if person else "-"),
        h("td", agent["org_unit"], dir="auto"),
        h("td", agent["role_id"] or "-", dir="auto"),
        h("td", tag(f"{asks:,}", "warn") if asks else "0", class_="number"),
    )


def _no_agents() -> Html:
    return empty("No agent matches, or none is registered. This registers one:", "parley agent register NAME")


# ---------------------------------------------------------------- one agent


async def detail_page(visit: Visit, agent_id: str) -> Page:
    """One agent."""
    agent: Document = await visit.get("agents", agent_id, "record")
    content = join(
        h("p", h("a", "Agents", href=address("agents")), class_="crumb"),
        fresh(
            "agent",
            h("header", badge(agent_id), h("h1", agent_id, dir="auto"), presence(agent, visit.now), class_="top"),
            await _suspended(visit, agent),
            h("dl", _facts(visit, agent), class_="facts"),
            await _asks(visit, agent_id),
        ),
        await _policies(visit, agent_id),
        _suspend(visit, agent_id),
    )
    return Page(agent_id, content, _MENU, topics="agents", every=10)


def _facts(visit: Visit, agent: Document) -> list[Html]:
    name, person = agent["agent_id"], agent["user_id"]
    seen = moment(agent["last_seen_at"], visit.now) if agent["last_seen_at"] else "never"
    return [
        fact("Last seen", "now" if agent["online"] else seen),
        fact("Acts for", [badge(person, is_person=True), h("span", person, dir="auto")] if person else "nobody"),
        fact("Org unit", h("span", agent["org_unit"], dir="auto")),
        fact("Team", h("span", agent["team"] or "-", dir="auto")),
        fact("Role", h("span", agent["role_id"] or "-", dir="auto")),
        fact("Highest level", agent["max_classification"]),
        fact("Capabilities", h("span", ", ".join(agent["capabilities"]) or "-", dir="auto")),
        fact("Open requests", agent["open_asks"]),
        fact("Registered", moment(agent["registered_at"], visit.now)),
        fact("Status", agent["status"]),
        fact("Channels", h("a", "Show its channels", href=address("channels", member=name))),
    ]


async def _suspended(visit: Visit, agent: Document) -> Html | None:
    """Whether it may send nothing, by its name, its org unit or its tenant."""
    try:
        suspensions: list[Document] = await visit.get("suspensions") if visit.who["kind"] in GOVERNS else []
    except ApiRefused:
        return None
    halted = {("agent", agent["agent_id"]), ("org_unit", agent["org_unit"]), ("tenant", "")}
    for suspension in suspensions:
        if (suspension["what"], suspension["name"]) in halted:
            by = [f" by {suspension['by']} ", moment(suspension["at"], visit.now), ": "]
            return note("bad", h("b", "Suspended"), by, h("span", suspension["reason"], dir="auto"))
    return None


async def _asks(visit: Visit, agent_id: str) -> Html | None:
    try:
        asks: list[Document] = await visit.get(
            "asks", agent=agent_id, state="waiting,late", order="newest", limit=_ASKS
        )
    except ApiRefused:
        return None
    if not asks:
        return None
    rows = [_ask_row(visit, ask) for ask in asks]
    return data_table("Requests without an answer, newest first", ("From", "To", "Asked", "State", "Request"), rows)


def _ask_row(visit: Visit, ask: Document) -> Html:
    path = address("channels", ask["channel_id"], "messages", ask["message_id"])
    return h(
        "tr",
        h("td", ask["sender"], dir="auto"),
        h("td", ask["forwarded_to"] or ask["to"], dir="auto"),
        h("td", moment(ask["asked_at"], visit.now)),
        h("td", tag(ask["state"], "warn" if ask["state"] == "waiting" else "bad")),
        h("td", h("a", ask["summary"] or "show", href=path, dir="auto")),
    )


async def _policies(visit: Visit, agent_id: str) -> Html | None:
    """The effective policy, and the document that each value comes from."""
    try:
        effective: Document = await visit.get("policies", "effective", agent=agent_id)
    except ApiRefused as refused:
        return note("", f"The policies in force for it are not shown: {refused.detail}")
    if not effective["policy"]:
        return note("", "No policy is in force: messages to other org units are refused, others are not governed.")
    rows = [
        h(
            "tr",
            h("th", h("code", key), scope="row"),
            h("td", value_text(value), dir="auto"),
            h("td", h("span", str(effective["origins"].get(key, "default")), dir="auto")),
        )
        for key, value in effective["policy"].items()
    ]
    return data_table(f"Policies in force for it, version {effective['label']}", ("Key", "Value", "From"), rows)


def _suspend(visit: Visit, agent_id: str) -> Html | None:
    if visit.who["kind"] != "admin":
        return None
    path = address("suspend", what="agent", name=agent_id)
    return h("p", h("a", "Suspend: see what that halts", href=path, class_="button"))
