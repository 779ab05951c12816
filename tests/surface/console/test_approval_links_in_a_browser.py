"""Somebody who opens a link to an approval from a mail: on a phone, with and without script, and on hostile sites."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest

from tests.conformance.ocip.governed import admin_of, audit_of, inbox, put_policy
from tests.rigs.approval_links import a_link
from tests.rigs.axe import findings
from tests.rigs.browser import Page, a_browser, needs_browser
from tests.rigs.team import LiveServer, with_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.slow, needs_browser]

LONG = "We promise. " + "All of it, to the last word. " * 400 + "And ten seats more."
CLICK = "document.querySelector('#decide button[value={}]').click()"
WHY = "document.querySelector('#asleep').innerText"
HAS = "document.body.innerText.includes({!r})"


@asynccontextmanager
async def phone(server: LiveServer) -> AsyncIterator[Page]:
    """A browser that has not signed in, as narrow as a phone."""
    async with a_browser(server.rig.path.parent / "profile") as page:
        await page.open("about:blank")
        await page.resize(390, 800)
        yield page


def address_of(server: LiveServer, path: str) -> str:
    return f"http://127.0.0.1:{server.listener.port}{path}"


@with_server
async def test_a_person_decides_on_a_phone_without_script(server: LiveServer) -> None:
    link = await a_link(server, LONG)

    async with phone(server) as page:
        await page.switch_scripts_off()
        await page.go(address_of(server, link.path))
        assert await page.run(HAS.format("And ten seats more.")) is True
        assert await page.run("document.documentElement.scrollWidth") <= 390
        assert await page.run("document.querySelector('button[value=approve]').disabled") is False
        assert await page.run(WHY) == ""
        await page.run("document.querySelector('#note').value = 'fine'")
        await page.run(CLICK.format("approve"))
        await page.until(HAS.format("Approved by ann"))
        assert page.errors == []

    assert [message["payload"] for message in await inbox(link.bob)] == [{"text": LONG}]
    (decided,) = await audit_of(await admin_of(server), action="approval_decided")
    assert (decided["via"], decided["note"]) == ("link", "fine")


@with_server
async def test_with_script_approve_sleeps_until_the_end_was_read_and_nothing_is_followed(server: LiveServer) -> None:
    link = await a_link(server, LONG)

    async with phone(server) as page:
        await page.go(address_of(server, link.path))
        await asyncio.sleep(0.6)  # longer than it takes to wake
        assert await page.run("document.querySelector('button[value=approve]').disabled") is True
        # It says why, also to those who hear the page or point at the button.
        assert await page.run(WHY) == "Scroll to the end of the message to approve it."
        assert await page.run("document.querySelector('#asleep').role") == "status"
        assert await page.run("document.querySelector('button[value=approve]').title") == await page.run(WHY)
        await page.run("document.querySelector('.message > div').scrollIntoView()")
        await page.until("!document.querySelector('button[value=approve]').disabled")
        assert await page.run(WHY) == ""
        assert await page.run("document.querySelector('button[value=approve]').title") == ""
        # No stream, no menu, and no address of the page in what it loads.
        assert await page.run("document.documentElement.dataset.live") is None
        loaded = await page.run("performance.getEntriesByType('resource').map((file) => new URL(file.name).pathname)")
        assert {path.split("/")[2] for path in loaded} == {"static"}
        assert await page.run("document.cookie") == ""
        await page.run(CLICK.format("reject"))
        await page.until(HAS.format("Rejected by ann"))
        assert await page.run("location.pathname") == link.path
        assert page.errors == []

    assert await inbox(link.bob) == []


@with_server
async def test_a_person_answers_by_link(server: LiveServer) -> None:
    link = await a_link(server)

    async with phone(server) as page:
        await page.go(address_of(server, link.path))
        await page.run("document.querySelector('#answering').open = true")
        await page.run("document.querySelector('#answer').value = 'Let us talk.'")
        await page.run(CLICK.format("answer"))
        await page.until(HAS.format("Answered by ann"))

    assert [message["payload"] for message in await inbox(link.bob)] == [{"text": "Let us talk."}]


@with_server
async def test_the_page_sends_its_origin_and_never_its_address(server: LiveServer) -> None:
    link = await a_link(server)
    heads: list[bytes] = []
    passing: list[asyncio.Task[None]] = []

    async def note_and_pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """In front of the server: what a proxy would log."""
        passing.append(cast("asyncio.Task[None]", asyncio.current_task()))
        to_server = await asyncio.open_connection("127.0.0.1", server.listener.port)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, noted: bool) -> None:
            while piece := await source.read(65_536):
                if noted:
                    heads.append(piece)
                target.write(piece)
            target.close()
            await target.wait_closed()

        await asyncio.gather(
            pump(reader, to_server[1], noted=True), pump(to_server[0], writer, noted=False), return_exceptions=True
        )

    proxy = await asyncio.start_server(note_and_pass_on, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    async with phone(server) as page:
        await page.go(f"http://127.0.0.1:{port}{link.path}")
        await page.run(CLICK.format("reject"))
        await page.until(HAS.format("Rejected by ann"))
        assert page.errors == []
    proxy.close()
    await asyncio.gather(*passing, return_exceptions=True)

    lines = b"".join(heads).decode("latin-1").split("\r\n")
    assert any(line == f"Origin: http://127.0.0.1:{port}" for line in lines)
    referrers = {line for line in lines if line.lower().startswith("referer:")}
    assert referrers == {f"Referer: http://127.0.0.1:{port}/"}


@with_server
async def test_another_port_can_neither_send_the_form_nor_frame_the_page(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()
    target = address_of(server, link.path)
    html = (
        f"<!doctype html><iframe src='{target}'></iframe><form method=post action='{target}'>"
        f"<input name=decision value=approve><input name=digest value='{form['digest']}'></form>"
    ).encode()

    async def serve_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(html)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + html)
        writer.close()

    site = await asyncio.start_server(serve_page, "127.0.0.1", 0)
    port = site.sockets[0].getsockname()[1]
    async with phone(server) as page:
        await page.go(f"http://127.0.0.1:{port}/")
        assert any("frame" in error.lower() for error in page.errors)
        await page.run("document.querySelector('form').submit()")
        await page.until(HAS.format("origin_forbidden"))
    site.close()

    assert await link.status() == "pending"


@with_server
async def test_a_short_message_never_says_to_scroll(server: LiveServer) -> None:
    link = await a_link(server)
    keep = "new MutationObserver((changes) => { window.said = changes.length; })"

    async with phone(server) as page:
        await page.go(address_of(server, link.path))
        await page.run(f"{keep}.observe(document.querySelector('#asleep'), {{childList: true}})")
        await page.until("!document.querySelector('button[value=approve]').disabled")

        assert await page.run("window.said ?? 0") == 0
        assert await page.run("document.querySelector('#asleep').offsetHeight") == 0


@with_server
async def test_the_buttons_are_at_the_bottom_of_a_phone_with_nothing_below_them(server: LiveServer) -> None:
    link = await a_link(server, LONG)
    bottom = "document.querySelector('#decide').getBoundingClientRect().bottom"

    async with phone(server) as page:
        for scheme in ("light", "dark"):
            await page.prefer(scheme)
            await page.go(address_of(server, link.path))
            for place in (0, 400):
                await page.run(f"scrollTo(0, {place})")
                assert await page.run(f"innerHeight - {bottom}") == 0, (scheme, place)
            # Below the card is only the margin of the page.
            await page.run("scrollTo(0, document.documentElement.scrollHeight)")
            assert 0 <= await page.run(f"innerHeight - {bottom}") <= 20


@with_server
async def test_axe_finds_nothing_in_any_state_of_the_page(server: LiveServer) -> None:
    link = await a_link(server, "We promise <b>ag\u200bree</b> to \u0430pple.")
    found: dict[str, list[str]] = {}

    async def look(page: Page, state: str, path: str) -> None:
        await page.go(address_of(server, path))
        found[state] = []
        for scheme, width in (("light", 1280), ("dark", 390), ("light", 320), ("dark", 1280)):
            await page.prefer(scheme)
            await page.resize(width, 900)
            assert await page.run("document.documentElement.scrollWidth") <= width, (state, width)
            found[state] += [f"{scheme} {width}: {line}" for line in await findings(page)]

    async with a_browser(server.rig.path.parent / "profile") as page:
        await page.open("about:blank", bypass_policy=True)
        await look(page, "waits", link.path)
        form = await link.form()
        await put_policy(server, "enabled: true\nmax_rounds: 2")
        await link.visitor.send(link.path, form)
        await look(page, "changed", link.path)
        fresh = (await link.ann.post(f"/approvals/{link.approval}/link")).json["path"]
        approval = (await link.ann.get(f"/approvals/{link.approval}")).json
        await link.ann.post(
            f"/approvals/{link.approval}/decision", {"decision": "reject", "digest": approval["digest"]}
        )
        await look(page, "decided", fresh)
        await look(page, "ended", "/console/a/pal_none")
        await page.run("document.querySelector('main').insertAdjacentHTML('beforeend', '<input>')")
        assert any(line.startswith("label: ") for line in await findings(page)), "axe finds nothing at all"

    assert found == {state: [] for state in ("waits", "changed", "decided", "ended")}
