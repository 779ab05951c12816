"""How pages look beside a desk: on paper they are complete, on a phone nothing has to be scrolled sideways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.conformance.ocip.governed import admin_of, held, pair, person, tell
from tests.rigs.approval_links import a_link
from tests.rigs.browser import Page, a_browser, needs_browser
from tests.rigs.http_client import Client
from tests.rigs.team import LiveServer, with_server

pytestmark = [pytest.mark.slow, needs_browser]

AT_START = "location.pathname !== '/console/login' && document.readyState === 'complete'"
# Paper has the width of A4 between its margins, in CSS pixels.
PAPER_WIDTH, PHONE_WIDTH = 703, 390
LONG_NAME = "-".join(["purchasing"] * 6)
SHOWN = "[...document.querySelectorAll({!r})].filter((element) => element.checkVisibility()).length"
# What reaches over the edge: of the page, or of a box that cuts it off.
CUT = """[...document.querySelectorAll('main, main *:not(.sr)')].filter((element) => {
    const isOver = element.getBoundingClientRect().right > innerWidth + 1;
    const cuts = getComputedStyle(element).overflowX !== 'visible';
    return isOver || (cuts && element.scrollWidth > element.clientWidth + 1);
}).map((element) => element.tagName + '.' + element.className)"""
GROUND = "getComputedStyle(document.documentElement).backgroundColor"
NOT_ON_PAPER = "nav, body > header, #live, button, .deciding, .filters, .tabs, .crumb, dialog"
PAGES = ("approvals", "exchanges", "audit", "traffic", "policies", "agents", "channels", "servers", "webhooks")


@asynccontextmanager
async def console(server: LiveServer, who: Client) -> AsyncIterator[Page]:
    """A browser that has signed in by a link."""
    once = (await who.post("/sessions/once")).json["once"]
    async with a_browser(server.rig.path.parent / "profile") as page:
        await page.open(f"{address_of(server)}/console/login#once={once}")
        await page.until(AT_START)
        yield page
        assert page.errors == []


def address_of(server: LiveServer) -> str:
    return f"http://127.0.0.1:{server.listener.port}"


async def on_paper(page: Page) -> None:
    """The page as it is printed for somebody who prefers the dark theme."""
    await page.prefer("dark")
    await page.resize(PAPER_WIDTH, 1_000)
    await page.emulate_print()
    await page.run("dispatchEvent(new Event('beforeprint'))")


@with_server
async def test_a_printed_approval_is_complete_and_says_who_printed_it_where_and_when(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waiting = await held(alice, "bob", "We promise it, " + "word for word, " * 200 + "to the end.")
    path = f"/console/approvals/{waiting['approval']}"

    async with console(server, await person(server, "ann")) as page:
        await page.go(f"{address_of(server)}{path}")
        assert await page.run(SHOWN.format(".print-head")) == 0
        on_screen = await page.run(SHOWN.format(NOT_ON_PAPER))
        await on_paper(page)

        assert (on_screen > 0, await page.run(SHOWN.format(NOT_ON_PAPER))) == (True, 0)
        assert await page.run(GROUND) == "rgb(255, 255, 255)"
        assert await page.run("getComputedStyle(document.body).color") == "rgb(28, 27, 25)"
        head = await page.run("document.querySelector('.print-head').innerText")
        assert f"127.0.0.1:{server.listener.port}{path}" in head
        assert "Printed by ann at 2" in head
        assert head.endswith(" UTC")
        # What is folded on the screen is on paper: the message as JSON.
        assert await page.run(SHOWN.format("main details pre")) > 0
        assert await page.run(CUT) == []
        # Times are exact, and have a zone.
        times = "[...document.querySelectorAll('main time')].map((time) => getComputedStyle(time, '::after').content)"
        assert [time for time in await page.run(times) if not time.endswith(' UTC"')] == []
        assert (await page.pdf()).startswith(b"%PDF")


@with_server
async def test_a_long_message_is_printed_from_the_first_page_on(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waiting = await held(alice, "bob", "We promise it, " + "word for word, " * 600 + "to the end.")
    # What is higher than half a page and does not break leaves the page before it empty.
    kept = """[...document.querySelectorAll('main *')].filter((element) =>
        element.offsetHeight > 480 && getComputedStyle(element).breakInside !== 'auto').length"""

    async with console(server, await person(server, "ann")) as page:
        await page.go(f"{address_of(server)}/console/approvals/{waiting['approval']}")
        await on_paper(page)

        assert await page.run("document.querySelector('.message').offsetHeight") > 960
        assert await page.run(kept) == 0


@with_server
async def test_a_printed_link_says_who_printed_it_and_until_when_it_works_but_not_its_secret(
    server: LiveServer,
) -> None:
    link = await a_link(server)

    async with a_browser(server.rig.path.parent / "profile") as page:
        await page.open("about:blank")
        await page.go(f"{address_of(server)}{link.path}")
        assert await page.run(SHOWN.format(".print-head")) == 0
        await on_paper(page)

        head = await page.run("document.querySelector('.print-head').innerText")
        assert f"127.0.0.1:{server.listener.port}/console/approvals/{link.approval}" in head
        assert "Printed by ann at 2" in head
        assert link.secret not in await page.run("document.documentElement.outerHTML")
        before = "getComputedStyle(document.querySelector('main > p time'), '::before').content"
        assert await page.run(before) == '"until "'
        await link.visitor.send(link.path, await link.form())
        await page.go(f"{address_of(server)}{link.path}")
        assert "Printed by ann at 2" in await page.run("document.querySelector('.print-head').innerText")


@with_server
async def test_lists_are_printed_without_a_cut_and_break_between_rows(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await tell(alice, LONG_NAME)
    await held(alice, "bob", "We promise it.")

    async with console(server, await admin_of(server)) as page:
        await page.emulate_print(on=False)
        for name in PAGES:
            await page.go(f"{address_of(server)}/console/{name}")
            await on_paper(page)
            assert (name, await page.run(CUT)) == (name, [])
            assert (name, await page.run(SHOWN.format(NOT_ON_PAPER))) == (name, 0)
        broken = "[...document.querySelectorAll('main tr')].map((row) => getComputedStyle(row).breakInside)"
        assert set(await page.run(broken)) <= {"avoid"}


@with_server
async def test_on_a_phone_no_page_and_no_table_is_wider_than_the_screen(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await held(alice, "bob", "We promise it.")

    async with console(server, await admin_of(server)) as page:
        await page.resize(PHONE_WIDTH, 844)
        for name in PAGES:
            await page.go(f"{address_of(server)}/console/{name}")
            wide = "[document.documentElement, ...document.querySelectorAll('.scroll:not(.matrix .scroll)')]"
            assert await page.run(f"{wide}.some((box) => box.scrollWidth > box.clientWidth)") is False, name
            # The page that is open is in sight in the menu.
            box = "document.querySelector('nav [aria-current]').getBoundingClientRect()"
            assert await page.run(f"{box}.left >= 0 && {box}.right <= innerWidth") is True, name

        await page.go(f"{address_of(server)}/console/agents")
        labels = "[...document.querySelectorAll('main tbody tr:first-child > *')].map((cell) => cell.dataset.label)"
        assert await page.run(labels) == ["Agent", "Presence", "Acts for", "Org unit", "Role", "Open requests"]


@with_server
async def test_a_matrix_that_is_wider_than_the_screen_says_that_it_scrolls(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await tell(alice, "bob")
    hint = SHOWN.format(".sideways")

    async with console(server, await admin_of(server)) as page:
        shown = {}
        for receivers in (1, 7):
            for number in range(receivers - 1):
                await tell(alice, f"{LONG_NAME[:12]}-{number}")
            for width in (PHONE_WIDTH, 1_920):
                await page.resize(width, 844)
                await page.go(f"{address_of(server)}/console/traffic")
                await page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                shown[receivers, width] = await page.run(hint)
        await page.resize(PHONE_WIDTH, 844)
        await page.until(f"{hint} === 1")
        await on_paper(page)

        assert shown == {(1, 390): 0, (1, 1_920): 0, (7, 390): 1, (7, 1_920): 1}
        assert await page.run(hint) == 0


@with_server
async def test_filters_wait_behind_a_switch_on_a_phone_and_are_open_when_one_is_set(server: LiveServer) -> None:
    await pair(server)

    async with console(server, await admin_of(server)) as page:
        shown = {}
        for width in (PHONE_WIDTH, 1_280):
            await page.resize(width, 844)
            for path in ("agents", "agents?status=active"):
                await page.go(f"{address_of(server)}/console/{path}")
                shown[width, path] = await page.run(SHOWN.format(".filters"))
        await page.resize(PHONE_WIDTH, 844)
        await page.go(f"{address_of(server)}/console/agents")
        await page.run("document.querySelector('.filters-label').click()")

        assert shown == {(390, "agents"): 0, (390, "agents?status=active"): 1, (1280, "agents"): 1,
                         (1280, "agents?status=active"): 1}  # fmt: skip
        assert await page.run(SHOWN.format(".filters")) == 1


@with_server
async def test_the_end_of_a_message_under_the_buttons_has_not_been_read(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waiting = await held(alice, "bob", "We promise it, " + "word for word, " * 400 + "to the end.")
    asleep = "document.querySelector('#decide button[value=approve]').disabled"

    async with console(server, await person(server, "ann")) as page:
        await page.resize(1_280, 800)
        await page.go(f"{address_of(server)}/console/approvals/{waiting['approval']}")
        # The end of the message is on the screen, but behind the bar.
        under = "document.querySelector('.message').getBoundingClientRect().bottom - innerHeight + 40"
        await page.run(f"scrollBy(0, {under})")
        await page.run("new Promise((done) => setTimeout(done, 800))")
        assert await page.run(asleep) is True
        assert await page.run("document.querySelector('#asleep').innerText") != ""

        await page.run("scrollTo(0, document.documentElement.scrollHeight)")
        await page.until(f"!({asleep})")


@with_server
async def test_what_has_the_focus_is_never_behind_the_menu_of_a_phone(server: LiveServer) -> None:
    alice, _ = await pair(server)
    for number in range(8):
        await held(alice, "bob", f"We promise {number}.")
    behind = """(() => {
        const box = document.activeElement.getBoundingClientRect(), y = box.bottom - 4;
        const above = document.elementFromPoint(box.left + Math.min(box.width / 2, 40), y);
        return document.activeElement.closest('main') && above?.closest('nav') !== null;
    })()"""

    async with console(server, await admin_of(server)) as page:
        await page.resize(PHONE_WIDTH, 700)
        await page.go(f"{address_of(server)}/console/audit")
        rows = await page.run("document.querySelectorAll('tbody.rows a').length")
        covered = []
        for _ in range(rows):
            await page.press("j")
            covered.append(await page.run(behind))

        assert (rows > 5, any(covered)) == (True, False)
