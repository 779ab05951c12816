"""Policies in the console: in force now and on a day, for an agent, compared, and tried on a message."""

from __future__ import annotations

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import admin_of, pair
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import signed_in, text_of

HOSTILE = "agent-to-agent:\n  max_rounds: 2\n# <script>alert(1)</script> ag\u200bree\n"


@with_server
async def test_documents_are_shown_as_they_were_on_a_day_and_for_an_agent(server: LiveServer) -> None:
    await pair(server)
    admin = await admin_of(server)
    day = f"{server.rig.clock.at:%Y-%m-%d}"
    server.rig.clock.pass_by(days=2)
    await admin.request("PUT", "/policies/org/sales", {"text": HOSTILE})
    visitor = await signed_in(server, KeyKind.AUDITOR)

    now, then, of_alice, document, was_not, wrong = [
        await visitor.open(f"/console/policies{rest}")
        for rest in ("", f"?at={day}", "?agent=alice", "/org/sales", f"/org/sales?at={day}", "?at=x")
    ]

    assert "In force now" in text_of(now)
    assert ("org/sales" in text_of(now), ">org/sales<" in then.body.decode()) == (True, False)
    assert "In force then" in text_of(then)
    assert "In force for alice Key Value From" in text_of(of_alice)
    assert "<script>alert" not in document.body.decode()
    assert "U+200B" in text_of(document)
    assert (was_not.status, wrong.status) == (404, 422)


@with_server
async def test_two_versions_are_compared(server: LiveServer) -> None:
    admin = await admin_of(server)
    before = (await admin.get("/policies")).json["label"]
    await admin.request("PUT", "/policies/org/sales", {"text": HOSTILE})
    visitor = await signed_in(server, KeyKind.ADMIN)

    compared = text_of(await visitor.open(f"/console/policies/diff?from={before}"))

    assert "org/sales max_rounds not set 2" in compared
    assert "org/sales max_rounds 3 2" in compared


@with_server
async def test_a_message_is_judged_and_not_sent(server: LiveServer) -> None:
    await pair(server)
    admin, visitor = await admin_of(server), await signed_in(server, KeyKind.ADMIN)
    form = {"sender": "alice", "to": "bob", "text": "We promise <b>it</b>.", "exchange_type": "information_query"}

    judged = await visitor.send("/console/policies/try", form)
    refused = await visitor.send("/console/policies/try", {**form, "to": ""})

    assert judged.status == 200
    assert "It would be held for approval" in text_of(judged)
    assert "Checks, in their order" in text_of(judged)
    assert "<b>it</b>" not in judged.body.decode()
    assert (refused.status, "Not judged:" in text_of(refused)) == (422, True)
    assert (await admin.get("/audit", action="agent_exchange")).json["entries"] == []


@with_server
async def test_a_person_sees_documents_and_neither_versions_nor_trials(server: LiveServer) -> None:
    visitor = await signed_in(server, KeyKind.HUMAN)

    page = text_of(await visitor.open("/console/policies"))

    assert "enterprise/default" in page
    assert ("Versions" in page, "Try a message" in page) == (False, False)
    assert (await visitor.open("/console/policies/diff?from=1-000000000000")).status == 403
