"""Suspending in the console: what it halts is shown first, the name is typed, and lifting is another form."""

from __future__ import annotations

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import admin_of, held, pair
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import signed_in, text_of

PATH = "/console/suspend"


@with_server
async def test_an_agent_is_suspended_after_a_preview_and_lifted(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await held(alice, "bob", "We promise it.")
    visitor = await signed_in(server, KeyKind.ADMIN)
    form = {"act": "suspend", "what": "agent", "name": "alice", "reason": "<i>leak</i>", "hours": "8"}

    empty = text_of(await visitor.open(PATH))
    preview = text_of(await visitor.open(f"{PATH}?what=agent&name=alice"))
    mistyped = await visitor.send(PATH, {**form, "typed": "alcie"})
    done = await visitor.send(PATH, {**form, "typed": "alice"})
    suspended = await visitor.open(PATH)
    lifted = await visitor.send(PATH, {"act": "lift", "what": "agent", "name": "alice"})
    again = await visitor.send(PATH, {"act": "lift", "what": "agent", "name": "alice"})

    assert "Nothing is suspended." in empty
    assert "Held messages 1" in preview
    assert (mistyped.status, "nothing was suspended" in text_of(mistyped)) == (422, True)
    assert (done.status, lifted.status, again.status) == (303, 303, 404)
    assert "agent alice <i>leak</i>" in text_of(suspended)
    assert "8 h left" in text_of(suspended)
    assert "<i>leak" not in suspended.body.decode()
    assert (await (await admin_of(server)).get("/suspensions")).json == []


@with_server
async def test_a_preview_says_what_it_lacks_and_whom_nobody_knows(server: LiveServer) -> None:
    await pair(server)
    visitor = await signed_in(server, KeyKind.ADMIN)

    async def shown(query: str) -> str:
        return text_of(await visitor.open(f"{PATH}{query}"))

    first, nothing = await shown(""), await shown("?what=&name=alice")
    unknown = [
        await shown(f"?what={query}")
        for query in ("agent&name=nobody", "pair&name=alice,nobody", "pair&name=none,nobody", "org_unit&name=mars")
    ]
    known = [
        await shown(f"?what={query}")
        for query in ("agent&name=alice", "pair&name=alice,bob", "org_unit&name=default", "tenant&name=")
    ]

    assert "What choose one An agent" in first
    assert ("Choose what" in first, "Choose what to suspend." in nothing) == (False, True)
    assert 'No agent "nobody" is registered.' in unknown[0]
    assert 'No agent "nobody" is registered.' in unknown[1]
    assert 'No agent "nobody" or "none" is registered.' in unknown[2]
    assert 'No agent is in org unit "mars".' in unknown[3]
    assert ["No agent" in page for page in known] == [False] * 4


@with_server
async def test_everything_is_suspended_only_by_typing_the_word(server: LiveServer) -> None:
    visitor = await signed_in(server, KeyKind.ADMIN)
    form = {"act": "suspend", "what": "tenant", "name": "", "reason": "incident", "hours": ""}

    refused = await visitor.send(PATH, {**form, "typed": ""})
    done = await visitor.send(PATH, {**form, "typed": "everything"})

    assert (refused.status, done.status) == (422, 303)
    assert "everything incident" in text_of(await visitor.open(PATH))


@with_server
async def test_an_auditor_reads_and_has_no_form(server: LiveServer) -> None:
    visitor = await signed_in(server, KeyKind.AUDITOR)

    page = await visitor.open(PATH)
    sent = await visitor.send(
        PATH, {"act": "suspend", "what": "agent", "name": "a", "typed": "a", "reason": "x", "hours": ""}
    )

    assert ("Nothing is suspended." in text_of(page), 'value="suspend"' in page.body.decode()) == (True, False)
    assert sent.status == 403
