"""Whatever a document says, the pages of exchanges and of the audit log show it as text, and as nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.cli.audit.filters import ACTIONS as COMMAND_LINE_ACTIONS
from parley.surfaces.console.pages import audit, exchanges
from parley.surfaces.console.visit import Document, Page, Visit
from tests.docs.snippets import ROOT

NOW = datetime(2026, 11, 18, 9, 30, tzinfo=UTC)
AT = "2026-11-18T09:00:00+00:00"
PLAIN = "x"
HOSTILE = ["<b onclick=x>", '"><script>', "\u202eevil", "javascript:x"]


class ApiInMemory(Visit):
    """A visit whose API answers with these documents, by path."""

    def __init__(self, answers: dict[str, Any], kind: str = "human") -> None:
        self.answers = answers
        self.now = NOW
        self.query: dict[str, str] = {}
        self.who = {"kind": kind}

    async def get(self, *steps: str, **query: str | int | None) -> Any:  # noqa: ANN401  # JSON
        del query
        return self.answers["/".join(steps)]


def message(text: str, outcome: str) -> Document:
    names = ("sender", "to", "person", "summary", "decision", "decided_by", "code", "reason", "approval", "message_id")
    fields: Document = dict.fromkeys(names, text)
    return {
        **fields,
        "round": 1,
        "at": AT,
        "outcome": outcome,
        "classification": text,
        "policy_version": "1-a",
        "audit": [4],
    }


def exchange_answers(text: str) -> dict[str, Any]:
    names = ("exchangeId", "conversationId", "exchange_type", "initiator", "responder", "reply_policy")
    exchange: Document = {
        **dict.fromkeys((*names, "ended_by", "reason", "policy_version"), text),
        "outcome": "denied",
        "currentRound": 1,
        "maxRounds": 3,
        "pending_approvals": [text],
        "started_at": AT,
        "expires_at": AT,
        "ended_at": AT,
        "dataShared": [{"source": text, "fields": [text]}],
        "dataWithheld": [{"description": text, "reason": text}],
        "messages": [message(text, outcome) for outcome in ("delivered", "held", "denied")],
    }
    return {"exchanges": [exchange], "exchanges/x": exchange, "policies": {"label": "2-b"}}


def audit_answers(text: str) -> dict[str, Any]:
    names = ("actor", "sender", "to", "reason", "code", "note", "classification", "policy", "message_id")
    facts: Document = {**dict.fromkeys(names, text), "action": "agent_exchange", "outcome": "denied"}
    changed = {"action": text, "actor": text, "document": text, "decision": text}
    place = {"side": text, "seq": 1, "id": "aud_1", "at": AT, "exchange_id": text, "entry_hash": "ab"}
    entries = [{**place, "number": 4, "document": facts}, {**place, "number": 5, "document": changed}]
    step = {"check": text, "value": text, "source": text, "found": text}
    return {
        "audit/state": {"size": 5, "signed_size": 4, "signed_at": AT, "key_id": text, "verified_to": 3, "broken_at": 4,
                        "reason": text},
        "audit/counts": {"counts": []},
        "audit": {"entries": entries, "previous": 3},
        "audit/x/explain": {"number": 4, "outcome": "denied", "reasons": [text], "steps": [step], "agrees": False,
                            "verdict": "allow", "with_content": False},
        "audit/proof/4": {"entry": {"entry_hash": "ab"}, "path": ["cd"],
                          "checkpoint": {"size": 5, "key_id": text, "at": AT, "root": "ef"}},
    }  # fmt: skip


PAGES: dict[str, tuple[Callable[[str], dict[str, Any]], Callable[..., Coroutine[Any, Any, Page]], tuple[str, ...]]] = {
    "exchanges": (exchange_answers, exchanges.list_page, ()),
    "exchange": (exchange_answers, exchanges.detail_page, ("x",)),
    "audit": (audit_answers, audit.list_page, ()),
    "entry": (audit_answers, audit.detail_page, ("x",)),
}


class Outline(HTMLParser):
    """The elements of a page with the names of their attributes, without the marks of hidden characters."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if ("class", "hid") not in attrs:
            self.elements.append((tag, tuple([name for name, _ in attrs])))


def run(rendering: Coroutine[Any, Any, Page]) -> Page:
    """A rendering that never waits, without an event loop."""
    try:
        rendering.send(None)
    except StopIteration as done:
        page: Page = done.value
        return page
    raise AssertionError("it waits")


def shown(name: str, text: str) -> str:
    answers, render, steps = PAGES[name]
    return str(run(render(ApiInMemory(answers(text)), *steps)).content)


def outline(html: str) -> list[tuple[str, tuple[str, ...]]]:
    reader = Outline()
    reader.feed(html)
    return reader.elements


def test_the_filters_of_actions_have_every_action_of_the_log() -> None:
    page = (ROOT / "docs" / "reference" / "audit-entry.md").read_text(encoding="utf-8")
    table = page.partition("## Actions")[2].partition("## ")[0]
    actions = [action for line in table.splitlines() for action in re.findall("`([a-z_]+)`", line.split(" | ")[0])]

    assert sorted(dict(audit.ACTIONS)) == sorted(set(actions) - {"action"})
    assert sorted(COMMAND_LINE_ACTIONS) == sorted(dict(audit.ACTIONS))


def about(**facts: str) -> dict[str, Any]:
    """The answers of an API whose entry has these facts."""
    answers = audit_answers(PLAIN)
    answers["audit"]["entries"][0]["document"] = {"actor": "ann", **facts}
    return answers


def test_an_entry_of_a_link_names_the_approval_that_it_is_for() -> None:
    facts = {"action": "approval_link_created", "user_id": "ann", "approval": "appr_01M7H16BJG2G0T7VFEFHN4GRSJ"}
    page = str(run(audit.list_page(ApiInMemory(about(**facts)))).content)

    assert re.search(">approval link created<span [^>]*> …GRSJ</span><span [^>]*> by ann<", page)
    assert f'title="{facts["approval"]}"' in page


def test_the_page_of_a_decision_by_link_says_so() -> None:
    facts = {"action": "approval_decided", "approval": "appr_1", "decision": "approved"}
    by_link, signed_in = [
        str(run(audit.detail_page(ApiInMemory(about(**facts, **via)), "x")).content) for via in ({"via": "link"}, {})
    ]

    assert "<dt>Via</dt><dd>link</dd>" in by_link
    assert "<dt>Via</dt>" not in signed_in
    assert "<dt>Approval</dt><dd><code>appr_1</code></dd>" in signed_in


@cache
def plain_outline(name: str) -> list[tuple[str, tuple[str, ...]]]:
    return outline(shown(name, PLAIN))


@pytest.mark.parametrize("name", PAGES)
@settings(max_examples=10)
@given(
    st.text(min_size=1, max_size=12) | st.sampled_from(["<b onclick=x>", '"><script>', "\u202eevil", "javascript:x"])
)
def test_no_text_becomes_an_element_an_attribute_or_another_address(name: str, text: str) -> None:
    html = shown(name, f"x{text}")

    assert outline(html) == plain_outline(name)
    assert all(path.startswith(("/console", "#")) for path in re.findall(r'(?:href|action)="([^"]*)"', html))
    assert "\u202e" not in html


def test_what_matters_is_said_in_words_and_not_by_colour_alone() -> None:
    log, entry, exchange = [shown(name, PLAIN) for name in ("audit", "entry", "exchange")]

    assert "Broken at entry 4" in log
    assert "Now these checks come to allow" in entry
    assert [word in exchange for word in (" delivered", " held", " denied", "then, now")] == [True] * 4
    answers = audit_answers(PLAIN)
    for state, words in (
        ({"size": 0}, "No entry yet"),
        ({"broken_at": None}, "Checking: 3 of 5"),
        ({"broken_at": None, "verified_to": 5}, "Intact to 5"),
        ({"broken_at": None, "signed_size": 0}, "Not signed yet"),
    ):
        visit = ApiInMemory({**answers, "audit/state": {**answers["audit/state"], **state, "broken_at": None}})
        assert words in run(audit.list_page(visit)).content
