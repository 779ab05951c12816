"""People at a real browser: by keyboard alone, on a phone, with what others decide meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.conformance.ocip.governed import admin_of, decide, held, inbox, pair, person
from tests.rigs.browser import Page, a_browser, needs_browser
from tests.rigs.team import LiveServer, with_server

pytestmark = [pytest.mark.slow, needs_browser]

LONG = "We promise. " + "All of it, to the last word. " * 1_500 + "And ten seats more."
AT = "location.pathname === {!r} && document.readyState === 'complete'"
ROWS = "document.querySelectorAll('#queue > li').length"


@asynccontextmanager
async def console(server: LiveServer, user: str = "ann") -> AsyncIterator[Page]:
    """A browser that has signed in by a link. It ends without an error on any page."""
    once = (await (await person(server, user)).post("/sessions/once")).json["once"]
    async with a_browser(server.rig.path.parent / "profile") as page:
        await page.open(f"{address_of(server)}/console/login#once={once}")
        await page.until(AT.format("/console/approvals"))
        yield page
        assert page.errors == []


def address_of(server: LiveServer) -> str:
    return f"http://127.0.0.1:{server.listener.port}"


@with_server
async def test_a_person_decides_by_keyboard_alone(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob", "We promise it.")

    async with console(server) as page:
        assert "once" not in await page.run("location.href")
        await page.press("j", "Enter")
        await page.until(AT.format(f"/console/approvals/{waits['approval']}"))
        # A letter decides nothing: it leads to the button.
        await page.until("document.documentElement.dataset.read === 'yes'")
        await page.press("y")
        assert await inbox(bob) == []
        await page.press("Enter")
        await page.until("document.body.innerText.includes('Approved by ann')")

    assert [message["payload"] for message in await inbox(bob)] == [{"text": "We promise it."}]


@with_server
async def test_what_waits_arrives_and_what_is_decided_elsewhere_ends_without_a_reload(server: LiveServer) -> None:
    alice, _ = await pair(server)
    first = await held(alice, "bob", "We promise one.")

    async with console(server) as page:
        await page.until("document.documentElement.dataset.live === 'live'")
        await page.run("globalThis.isSame = true")
        second = await held(alice, "bob", "We promise two.", conversation_id="conv-2")
        await page.until(f"{ROWS} === 2")
        await decide(await person(server, "ann"), first, "reject")
        await page.until(f"document.querySelector('[data-id=\"{first['approval']}\"]').classList.contains('gone')")
        await page.until("document.querySelector('.count').textContent === '1'")

        # The one that is decided keeps its place; nothing was loaded anew.
        ids = await page.run("[...document.querySelectorAll('#queue > li')].map(row => row.dataset.id)")
        assert ids == [first["approval"], second["approval"]]
        assert await page.run("isSame") is True


@with_server
async def test_the_list_under_the_reader_stands_still(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await held(alice, "bob", "We promise one.")

    async with console(server) as page:
        await page.until("document.documentElement.dataset.live === 'live'")
        await page.press("j")
        await held(alice, "bob", "We promise two.", conversation_id="conv-2")
        await page.until("document.querySelector('#more').textContent === '1 new: show'")
        assert await page.run(ROWS) == 1
        await page.run("document.querySelector('#more').click()")
        assert await page.run(ROWS) == 2


@with_server
async def test_somebody_who_reads_a_message_is_told_that_it_was_decided(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")

    async with console(server) as page:
        await page.press("j", "Enter")
        await page.until(
            "document.documentElement.dataset.live === 'live' && document.querySelector('#elsewhere') !== null"
        )
        await decide(await person(server, "ann"), waits, "reject")
        await page.until("!document.querySelector('#elsewhere').hidden")


@with_server
async def test_approve_sleeps_until_the_end_of_the_message_was_on_the_screen(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob", LONG)

    async with console(server) as page:
        await page.open(f"{address_of(server)}/console/approvals/{waits['approval']}")
        await asyncio.sleep(0.6)  # longer than it takes to wake
        assert await page.run("document.querySelector('button[value=approve]').disabled") is True
        assert await page.run("document.body.innerText.includes('And ten seats more.')") is True
        await page.run("document.querySelector('.message > div').scrollIntoView()")
        await page.until("!document.querySelector('button[value=approve]').disabled")


@pytest.mark.parametrize("width", [1280, 390, 320])
@with_server
async def test_nothing_scrolls_sideways_and_no_markup_of_a_message_runs(server: LiveServer, width: int) -> None:
    alice, _ = await pair(server)
    hostile = "We promise. <img src=/nothing onerror=globalThis.hacked=1><script>globalThis.hacked=1</script>"
    waits = await held(alice, "bob", hostile + " \u202e" + "x" * 3_000)

    async with console(server) as page:
        await page.resize(width, 800)
        for path in ("/console/approvals", f"/console/approvals/{waits['approval']}", "/console/sessions"):
            await page.open(f"{address_of(server)}{path}")
            await page.resize(width, 800)
            wide = await page.run("document.documentElement.scrollWidth")
            assert (wide <= width, await page.run("globalThis.hacked")) == (True, None), path


@with_server
async def test_a_page_whose_key_is_revoked_leads_to_the_sign_in(server: LiveServer) -> None:
    await pair(server)

    async with console(server) as page:
        await page.until("document.documentElement.dataset.live === 'live'")
        await (await admin_of(server)).delete("/keys/key_default_human_ann")
        await page.until(AT.format("/console/login"))
        page.errors.clear()  # the refused stream is told to developers


@with_server
async def test_twelve_pages_of_one_browser_all_show_what_is_new(server: LiveServer) -> None:
    alice, _ = await pair(server)

    async with console(server) as page:
        # Frames are forbidden, so these are streams as twelve pages would open them.
        await page.run(
            "globalThis.heard = 0; for (let n = 0; n < 12; n++)"
            " new EventSource('/console/live').addEventListener('queue', event =>"
            " { if (JSON.parse(event.data).rows.length) heard |= 1 << n; });"
        )
        await held(alice, "bob")
        await page.until(f"{ROWS} === 1")
        # Those beyond the fourth ask again by themselves.
        assert await page.run("fetch('/console/approvals').then(answer => answer.status)") == 200
