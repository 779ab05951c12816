"""Who gets a form on a page of the console, and that everybody else is refused when they send one."""

from __future__ import annotations

import re

import pytest

from parley.domain.directory.callers import KeyKind
from parley.surfaces.console.routes import ROUTES
from tests.conformance.ocip.governed import admin_of, held, pair, person, said
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import Visitor, text_of

# Who signs in with a key of each kind.
NAMES = {KeyKind.AGENT: "alice", KeyKind.HUMAN: "ann"}
# Kinds of keys that have a form on a page that they can open.
FORMS = {
    "approvals": {KeyKind.HUMAN},
    "exchanges": {KeyKind.HUMAN},
    "policies": {KeyKind.ADMIN, KeyKind.AUDITOR},
    "suspend": {KeyKind.ADMIN},
    "webhooks": {KeyKind.ADMIN, KeyKind.AGENT, KeyKind.SERVICE},
    "sessions": {KeyKind.ADMIN, KeyKind.HUMAN, KeyKind.AGENT, KeyKind.SERVICE},
}


async def visitor_of(server: LiveServer, kind: KeyKind) -> Visitor:
    visitor = Visitor(server)
    if kind is KeyKind.HUMAN:
        await person(server, NAMES[kind])
        secret = server.rig.secrets[f"key_default_human_{NAMES[kind]}"]
    else:
        secret = await server.rig.key(NAMES.get(kind, ""), kind)
    assert (await visitor.sign_in(secret)).status == 303
    return visitor


async def forms_of(server: LiveServer) -> dict[str, tuple[str, dict[str, str]]]:
    """A page with a form, and what to send, by the first step of its path."""
    alice, _ = await pair(server)
    waits = await held(alice, "bob", "We promise it.", conversation_id="waits")
    goes_on = await said(alice, "bob", conversation_id="goes-on")
    subscription = (await alice.post("/subscriptions", {})).json
    return {
        "approvals": (f"approvals/{waits['approval']}", {"decision": "reject", "digest": waits["digest"]}),
        "exchanges": (f"exchanges/{goes_on['metadata']['ocip_ext']['exchange_id']}", {"reason": "enough"}),
        "policies": ("policies/try", {"sender": "alice", "to": "bob", "text": "Hello."}),
        "suspend": ("suspend", {"what": "agent", "name": "bob", "typed": "bob", "reason": "x", "hours": ""}),
        "webhooks": (f"webhooks/{subscription['id']}", {"act": "disable"}),
        "sessions": ("sessions", {"id": "sess_unknown"}),
    }


def has_form(html: str, path: str) -> bool:
    """Whether a page has a form that is sent to its own address."""
    forms = re.findall(r"<form [^>]*>", html)
    return any(f'action="/console/{path}"' in form and 'method="post"' in form for form in forms)


def test_every_page_that_takes_a_form_is_looked_at() -> None:
    assert {route.steps[0] for route in ROUTES if route.post is not None} == set(FORMS)
    assert all(bool(route.forms_for) == (route.post is not None) for route in ROUTES)


@pytest.mark.parametrize("kind", list(KeyKind))
@with_server
async def test_a_form_that_is_not_shown_is_refused(server: LiveServer, kind: KeyKind) -> None:
    pages = await forms_of(server)
    visitor = await visitor_of(server, kind)

    for name, (path, form) in pages.items():
        page = await visitor.open(f"/console/{path}?what=agent&name=bob")
        sent = await visitor.send(f"/console/{path}", form)

        is_shown = has_form(page.body.decode(), path)
        assert is_shown == (kind in FORMS[name]), (name, page.status)
        assert (sent.status in (403, 404)) == (not is_shown or name == "sessions"), (name, sent.status, text_of(sent))


@with_server
async def test_an_admin_closes_no_exchange_on_a_page(server: LiveServer) -> None:
    path, form = (await forms_of(server))["exchanges"]
    visitor = await visitor_of(server, KeyKind.ADMIN)

    sent = await visitor.send(f"/console/{path}", form)

    assert (sent.status, "human_required" in text_of(sent)) == (403, True)
    assert (await (await admin_of(server)).get(f"/{path}")).json["outcome"] == "in_progress"
