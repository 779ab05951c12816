"""What policies change and would do: the difference of two versions, and the verdict on a message that is not sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.pages.policies import MENU, VERSION_HINT, moment_of, value_text, views
from parley.surfaces.console.parts import Filter, data_table, fact, filter_problem, filters, note, tag
from parley.surfaces.console.visit import ApiRefused, Page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document, Visit

_VERDICTS = {"allow": "ok", "hold": "warn", "deny": "bad"}
_WORDS = {"allow": "delivered", "hold": "held for approval", "deny": "refused"}
_LEVELS = ("public", "internal", "confidential", "restricted")
_PURPOSES = (
    ("information_query", "information query"),
    ("commitment_request", "commitment request"),
    ("meeting_scheduling", "meeting scheduling"),
)


async def diff_page(visit: Visit) -> Page:
    """What differs between two versions: in the documents, and in what is in force for whom."""
    old, new = visit.query.get("from", "").strip(), visit.query.get("to", "").strip()
    fields = (Filter("from", "From", hint=VERSION_HINT), Filter("to", "To", hint="now"))
    form = filters(visit, address("policies", "diff"), *fields, words="Compare")
    try:
        shown = await _differences(visit, moment_of(old, visit.now), moment_of(new, visit.now)) if old else None
        status = 200
    except ApiRefused as refused:
        if refused.status not in (404, 422):
            raise
        shown, status = filter_problem(visit, refused, fields), refused.status
    content = join(h("h1", "Difference of policies"), views(visit, "diff"), form, shown)
    return Page("Difference of policies", content, MENU, status)


async def _differences(visit: Visit, old: str, new: str) -> Html:
    result = await visit.get("policies", "diff", **{"from": old, "to": new})
    labels = note("", "From version ", h("code", result["old_label"]), " to ", h("code", result["new_label"]))
    return join(
        labels,
        _table("Changed in documents", "Document", result["documents"], "The documents are equal."),
        _table("Changed in force", "For", result["effective"], "Nothing changes in force."),
    )


def _table(caption: str, where: str, differences: list[Document], nothing: str) -> Html:
    if not differences:
        return note("", nothing)
    rows = [
        h("tr", h("th", difference["where"], scope="row", dir="auto"), h("td", difference["key"]),
          h("td", value_text(difference["old"]), dir="auto"), h("td", value_text(difference["new"]), dir="auto"))
        for difference in differences
    ]  # fmt: skip
    return data_table(caption, (where, "Key", "Before", "After"), rows)


# ---------------------------------------------------------------- try a message


async def try_page(visit: Visit, explained: Html | None = None, status: int = 200) -> Page:
    """The form of a message that is judged and not sent; with its verdict once it was."""
    words = "The policies in force judge this message. Nothing is sent, and nothing is recorded."
    about = h("p", words if visit.has_form else "Admins and auditors try messages here.")
    form = _form(visit.form) if visit.has_form else None
    content = join(h("h1", "Try a message"), views(visit, "try"), about, explained, form)
    return Page("Try a message", content, MENU, status)


async def explain(visit: Visit) -> Page:
    """Judge the message of the form."""
    form = visit.form
    body: Document = {"sender": form.get("sender", "").strip(), "to": form.get("to", "").strip(),
                      "text": form.get("text", ""), "human": form.get("human") == "true"}  # fmt: skip
    body |= {name: form[name] for name in ("classification", "exchange_type") if form.get(name)}
    try:
        explanation = await visit.post("policies", "explain", body=body)
    except ApiRefused as refused:
        if refused.status == 401:
            raise
        return await try_page(visit, note("bad", h("b", "Not judged: "), refused.detail, role="alert"), refused.status)
    return await try_page(visit, _explanation(explanation))


def _explanation(explanation: Document) -> Html:
    verdict: str = explanation["verdict"]
    words = _WORDS.get(verdict, verdict) if explanation["governed"] else "delivered; no policy governs it"
    rows = [
        h("tr", h("th", step["check"], scope="row"), h("td", step["value"], dir="auto"),
          h("td", step["source"], dir="auto"), h("td", step["found"], dir="auto"))
        for step in explanation["steps"]
    ]  # fmt: skip
    facts = [
        fact("Level", explanation["classification"]),
        fact("Words", ", ".join(explanation["detectedKeywords"]) or "none"),
        fact("Version", h("code", explanation["policy_version"] or "none")),
    ]
    return h(
        "section",
        note(_VERDICTS.get(verdict, ""), "It would be ", tag(words, _VERDICTS.get(verdict, "")), " ",
             explanation["reason"] or "", role="status"),
        h("dl", facts, class_="facts"),
        data_table("Checks, in their order", ("Check", "Value", "From", "Result"), rows),
        aria_label="Verdict",
    )  # fmt: skip


def _form(values: dict[str, str]) -> Html:
    levels = [("", "as detected"), *[(level, level) for level in _LEVELS]]
    return h(
        "form",
        _line("sender", "From agent", values),
        _line("to", "To agent", values),
        h("p", h("label", "Text", for_="text"), h("textarea", values.get("text", ""), id="text", name="text", rows=4,
                                                   dir="auto")),
        _select("classification", "Declared level", levels, values),
        _select("exchange_type", "Purpose", [("", "by default"), *_PURPOSES], values),
        _select("human", "Written by", [("", "the agent"), ("true", "a person")], values),
        h("button", "Try", class_="primary"),
        method="post", action=address("policies", "try"), class_="stacked",
    )  # fmt: skip


def _line(name: str, label: str, values: dict[str, str]) -> Html:
    entry = h("input", id=name, name=name, value=values.get(name, ""), required=True, autocomplete="off",
              spellcheck="false", dir="auto")  # fmt: skip
    return h("p", h("label", label, for_=name), entry)


def _select(name: str, label: str, choices: Iterable[tuple[str, str]], values: dict[str, str]) -> Html:
    options = [
        h("option", words, value=value, selected=values.get(name, "") == value) for value, words in choices
    ]  # fmt: skip
    return h("p", h("label", label, for_=name), h("select", options, id=name, name=name))
