"""The pages of what happened: exchanges and the audit log, as a person, an admin and an auditor see them."""

from __future__ import annotations

import pytest

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import admin_of, ext_of, held, pair, person, said
from tests.rigs.browser import a_browser, needs_browser
from tests.rigs.team import Client, LiveServer, with_server
from tests.rigs.visitor import Visitor, text_of
from tests.surface.http.test_audit_insight import numbers, tell_story


async def visitor(server: LiveServer, client: Client) -> Visitor:
    browser = Visitor(server)
    once = (await client.post("/sessions/once")).json["once"]
    await browser.send("/console/login", {"once": once})
    return browser


@with_server
async def test_an_exchange_is_shown_to_each_side_as_it_may_know_it(server: LiveServer) -> None:
    story = await tell_story(server)
    path = f"/console/exchanges/{story['exchange']}"
    admin = await visitor(server, await admin_of(server))
    ann, ben = [await visitor(server, await person(server, user)) for user in ("ann", "ben")]

    everything = text_of(await admin.open(path))
    for words in ("How is it?", "I commit to Friday.", "approved by ben", "classification_exceeded", "✕ denied"):
        assert words in everything, words
    assert "Close the exchange" not in everything
    assert "classification_exceeded" in text_of(await ann.open(path))
    assert "✕" not in text_of(await ben.open(path))
    listed = text_of(await ben.open("/console/exchanges?pair=alice,bob&since=7d"))
    assert "2 of 3" in listed
    assert "No exchange matches" in text_of(await ben.open("/console/exchanges?org_unit=sales"))
    assert "two names" in text_of(await ben.open("/console/exchanges?pair=alice"))


@with_server
async def test_a_person_closes_an_exchange_once(server: LiveServer) -> None:
    alice, _ = await pair(server)
    exchange_id = ext_of(await said(alice, "bob", "How is it?"))["exchange_id"]
    ben = await visitor(server, await person(server, "ben"))
    path = f"/console/exchanges/{exchange_id}"

    assert "Close the exchange" in text_of(await ben.open(path))
    first, again = [await ben.send(path, {"reason": reason}) for reason in ("settled by phone", "once more")]

    assert (first.status, again.status) == (303, 409)
    assert "Not closed" in text_of(again)
    page = text_of(await ben.open(path))
    assert "settled by phone" in page
    assert "Close the exchange" not in page


@with_server
async def test_the_log_says_that_it_is_intact_and_why_an_entry_is_there(server: LiveServer) -> None:
    await tell_story(server)
    admin = await admin_of(server)
    (denied,) = await numbers(admin, code="classification_exceeded")
    browser = await visitor(server, admin)

    log = text_of(await browser.open("/console/audit"))
    assert "Intact to" in log
    assert "parley audit export" in log
    only = (await browser.open("/console/audit?code=classification_exceeded&until=3000-01-01")).body.decode()
    assert only.count('scope="row"') == 1
    assert "Refused" not in text_of(await browser.open("/console/audit?since=never"))
    entry = text_of(await browser.open(f"/console/audit/{denied}"))
    for words in ("Why", "max_classification", "These checks come to the same again: deny", "signed", "audit prove"):
        assert words in entry, words
    ben = await visitor(server, await person(server, "ben"))
    assert (await ben.open(f"/console/audit/{denied}")).status == 404


@with_server
async def test_an_auditor_reads_both_and_is_offered_nothing_else(server: LiveServer) -> None:
    story = await tell_story(server)
    browser = Visitor(server)
    await browser.sign_in(await server.rig.key("", KeyKind.AUDITOR))

    home = await browser.open("/console")
    assert (home.status, "Waiting approvals - not for this key" in text_of(home)) == (200, True)
    page = await browser.open("/console/audit")
    assert (page.status, "Approvals" in text_of(page)) == (200, False)
    exchange = text_of(await browser.open(f"/console/exchanges/{story['exchange']}"))
    assert "How is it?" in exchange
    assert "Close the exchange" not in exchange


@pytest.mark.slow
@needs_browser
@with_server
async def test_what_happens_appears_on_open_pages_and_keys_lead_to_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    exchange_id = ext_of(await said(alice, "bob", "How is it?", conversation_id="conv-1"))["exchange_id"]
    address = f"http://127.0.0.1:{server.listener.port}"
    once = (await (await person(server, "ben")).post("/sessions/once")).json["once"]

    async with a_browser(server.rig.path.parent / "profile") as page:
        await page.open(f"{address}/console/login#once={once}")
        await page.until("location.pathname === '/console/approvals' && document.readyState === 'complete'")
        await page.press("g", "x")
        await page.until("location.pathname === '/console/exchanges' && document.readyState === 'complete'")
        await page.press("j", "Enter")
        await page.until(f"location.pathname === '/console/exchanges/{exchange_id}'")
        await page.until("document.documentElement.dataset.live === 'live'")
        await held(bob, "alice", "I commit to Friday.", conversation_id="conv-1")
        await page.until("document.body.innerText.includes('I commit to Friday.')")
        await page.press("g", "l")
        await page.until("location.pathname === '/console/audit' && document.readyState === 'complete'")
        await page.until("document.documentElement.dataset.live === 'live'")
        before = await page.run("document.querySelectorAll('#audit tbody tr').length")
        await said(alice, "bob", "And now?", conversation_id="conv-2")
        await page.until(f"document.querySelectorAll('#audit tbody tr').length > {before}")
        assert page.errors == []
