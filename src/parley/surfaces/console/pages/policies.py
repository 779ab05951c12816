"""Policies: the documents in force now or on a day, each document, and what is in force for an agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.menu import GOVERNS
from parley.surfaces.console.parts import (
    Filter,
    data_table,
    empty,
    fact,
    filter_problem,
    filters,
    moment,
    note,
    short_id,
    tabs,
)
from parley.surfaces.console.periods import as_time
from parley.surfaces.console.visit import ApiRefused, Page

if TYPE_CHECKING:
    from datetime import datetime

    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document, Visit

MENU = "policies"
_HISTORY_ROWS = 50
VERSION_HINT = "day, 7d or version"
_DAY_LENGTH = len("2026-03-13")


# ---------------------------------------------------------------- the list


async def list_page(visit: Visit) -> Page:
    """The documents in force, those of an agent, and the versions."""
    at, agent = visit.query.get("at", "").strip(), visit.query.get("agent", "").strip()
    fields = (Filter("at", "As of", hint=VERSION_HINT), Filter("agent", "In force for", hint="agent"))
    form = filters(visit, address("policies"), *fields)
    try:
        then = moment_of(at, visit.now)
        policies = await visit.get("policies", at=then)
        effective = await visit.get("policies", "effective", agent=agent, at=then) if agent else None
    except ApiRefused as refused:
        if refused.status not in (404, 422):
            raise
        shown = filter_problem(visit, refused, fields)
        return Page("Policies", join(h("h1", "Policies"), views(visit, "policies"), form, shown), MENU, refused.status)
    content = join(
        h("h1", "Policies"),
        views(visit, "policies"),
        form,
        _version(visit, policies, is_now=not at),
        _broken(policies["broken"]),
        _in_force(effective) if effective else None,
        _documents(policies, at),
        _history(visit, await visit.get("policies", "history")) if governs(visit) else None,
    )
    return Page("Policies", content, MENU)


def governs(visit: Visit) -> bool:
    """Whether the caller reads versions, differences and trials."""
    return visit.who["kind"] in GOVERNS


def views(visit: Visit, here: str) -> Html | None:
    """The views of this part of the console."""
    if not governs(visit):
        return None
    return tabs(
        ("In force", address("policies"), here == "policies"),
        ("Difference", address("policies", "diff"), here == "diff"),
        ("Try a message", address("policies", "try"), here == "try"),
    )


def moment_of(text: str, now: datetime) -> str:
    """A day as its end, so that what changed on it counts; how long ago as a time; a time or a version as it is."""
    is_day = len(text) == _DAY_LENGTH and text.count("-") == 2
    return f"{text}T23:59:59.999999Z" if is_day else as_time(text, now)


def _version(visit: Visit, policies: Document, *, is_now: bool) -> Html:
    since = [" since ", moment(policies["made_at"], visit.now)] if policies["made_at"] else None
    by = (
        [", by ", h("span", short_id(policies["made_by"]), dir="auto", title=policies["made_by"])]
        if policies["made_by"]
        else None
    )
    words = "In force now: version " if is_now else "In force then: version "
    return note("" if is_now else "warn", words, h("code", policies["label"]), since, by)


def _broken(files: list[Document]) -> list[Html]:
    return [
        note("bad", h("b", "Not in force, because it cannot be read: "), h("code", file["file"], dir="auto"),
             h("p", file["message"], dir="auto"))
        for file in files
    ]  # fmt: skip


def _documents(policies: Document, at: str) -> Html:
    if not policies["policies"]:
        about = " Without a policy of the enterprise, no agent may write to another org unit."
        return empty([h("b", "No policy is in force."), about], "parley policy put enterprise/default FILE")
    rows = [
        h("tr",
          h("th", h("a", f"{policy['scope']}/{policy['name']}", dir="auto",
                    href=address("policies", policy["scope"], policy["name"], at=at)), scope="row"),
          h("td", ", ".join(sorted(policy["keys"])) or "none"))
        for policy in policies["policies"]
    ]  # fmt: skip
    return data_table("Documents", ("Document", "Keys that it sets"), rows)


def _in_force(effective: Document) -> Html:
    """Each key that applies to an agent, and the document that says so."""
    name = effective["agent"] or "you"
    if effective["policy"] is None:
        return note("warn", "Nothing is allowed for ", h("b", name, dir="auto"), ": the enterprise has no policy.")
    origins = effective["origins"]
    rows = [
        h("tr", h("th", key, scope="row"), h("td", value_text(value), dir="auto"), h("td", origins.get(key, "")))
        for key, value in effective["policy"].items()
    ]
    facts = [fact("Agent", name), fact("Org unit", effective["org_unit"]), fact("Team", effective["team"] or "none"),
             fact("Person", effective["user_id"] or "none")]  # fmt: skip
    table = data_table(f"In force for {name}", ("Key", "Value", "From"), rows)
    return join(h("dl", facts, class_="facts"), table)


def _history(visit: Visit, revisions: list[Document]) -> Html:
    shown = revisions[:_HISTORY_ROWS]
    older = [*shown[1:], None]
    rows = [_revision(visit, revision, before) for revision, before in zip(shown, older, strict=True)]
    caption = "Versions" if len(shown) == len(revisions) else f"The last {len(shown)} of {len(revisions)} versions"
    return data_table(caption, ("Version", "In force since", "By", "Changes"), rows)


def _revision(visit: Visit, revision: Document, before: Document | None) -> Html:
    diff = address("policies", "diff", **{"from": before["label"], "to": revision["label"]}) if before else ""
    return h(
        "tr",
        h("th", h("a", revision["label"], href=address("policies", at=revision["label"])), scope="row"),
        h("td", moment(revision["made_at"], visit.now) if revision["made_at"] else "the beginning"),
        h("td", short_id(revision["made_by"] or "the server"), dir="auto", title=revision["made_by"] or None),
        h("td", h("a", "Difference", h("span", f" to {revision['label']}", class_="sr"), href=diff) if diff else "-"),
    )


def value_text(value: object) -> str:
    """A value of a policy in words; a list as its entries."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value) or "none"
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- one document


async def detail_page(visit: Visit, scope: str, name: str) -> Page:
    """The text of a document, now or then."""
    at = visit.query.get("at", "").strip()
    document = f"{scope}/{name}"
    as_of = Filter("at", "As of", hint=VERSION_HINT)
    head = join(
        h("p", h("a", "Policies", href=address("policies", at=at)), class_="crumb"),
        h("h1", document, dir="auto"),
        filters(visit, address("policies", scope, name), as_of),
    )
    try:
        policies = await visit.get("policies", at=moment_of(at, visit.now), texts="true")
    except ApiRefused as refused:
        if refused.status not in (404, 422):
            raise
        return Page(f"Policy {document}", join(head, filter_problem(visit, refused, [as_of])), MENU, refused.status)
    by_name = {(policy["scope"], policy["name"]): policy for policy in policies["policies"]}
    policy = by_name.get((scope, name))
    text = (
        h("pre", h("code", policy["text"]), dir="auto")
        if policy
        else note("warn", h("b", document, dir="auto"), " was not in force." if at else " is not in force.")
    )
    content = join(head, _version(visit, policies, is_now=not at), text)
    return Page(f"Policy {document}", content, MENU, 200 if policy else 404)
