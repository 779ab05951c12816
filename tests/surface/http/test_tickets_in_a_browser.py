"""A real browser follows a stream with a ticket: on a page of the server's own, and never from another site."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.rigs.browser import Page, a_browser, needs_browser
from tests.rigs.team import CHANNEL, Client, LiveServer, with_server

pytestmark = [pytest.mark.slow, needs_browser]

STREAM = f"/api/v1/channels/{CHANNEL}/subscribe"
# Opens the stream; `heard` collects what it brings, `ended` is what the browser makes of an error.
FOLLOW = """
globalThis.heard = []; globalThis.ended = null; globalThis.source = new EventSource(%r);
new Promise(done => {
  source.addEventListener('channel_message', event => heard.push([event.lastEventId, JSON.parse(event.data).payload]));
  source.onopen = () => done('open');
  source.onerror = () => { ended = source.readyState; done('refused'); };
})
"""
HEARD = "new Promise(done => { const look = () => heard.length >= %d ? done(heard) : setTimeout(look, 20); look(); })"


async def ticket_of(client: Client) -> str:
    answer = await client.post("/streams/tickets", {"path": STREAM})
    assert answer.status == 201
    return str(answer.json["ticket"])


async def say(client: Client, text: str) -> None:
    answer = await client.post(f"/channels/{CHANNEL}/messages", {"payload": {"text": text}, "to": "bob"})
    assert answer.status == 201


async def heard(page: Page, number: int) -> list[Any]:
    messages: list[Any] = await page.run(HEARD % number)
    return messages


@pytest.mark.requirement("CHAN-SUB-TICKET-ORIGIN")
@with_server
async def test_a_page_of_the_server_follows_a_stream_and_goes_on_after_its_last_event(
    server: LiveServer,
) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with a_browser(server.rig.path.parent / "profile") as page:
        await page.open(f"http://127.0.0.1:{server.listener.port}/docs")

        assert await page.run(FOLLOW % f"{STREAM}?ticket={await ticket_of(bob)}") == "open"
        await say(alice, "one")
        ((last, payload),) = await heard(page, 1)
        assert payload == {"text": "one"}

        # The same address again: its ticket is used up, and the browser does not try for ever.
        await page.run("source.close()")
        used = f"{STREAM}?ticket={await ticket_of(bob)}"
        assert await page.run(FOLLOW % used) == "open"
        await page.run("source.close()")
        assert (await page.run(FOLLOW % used), await page.run("ended")) == ("refused", 2)

        # What came meanwhile is there, once, after the last event.
        await say(alice, "two")
        again = f"{STREAM}?ticket={await ticket_of(bob)}&last_event_id={last}"
        assert await page.run(FOLLOW % again) == "open"
        await say(alice, "three")
        assert [text["text"] for _, text in await heard(page, 2)] == ["two", "three"]


@pytest.mark.requirement("CHAN-SUB-TICKET-ORIGIN")
@with_server
async def test_a_page_of_another_site_gets_no_stream_even_with_a_ticket(server: LiveServer) -> None:
    bob = await server.client("bob")

    async def other_site(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    other = await asyncio.start_server(other_site, "127.0.0.1", 0)
    async with other, a_browser(server.rig.path.parent / "profile") as page:
        await page.open(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/")
        ticket = await ticket_of(bob)
        own = f"http://127.0.0.1:{server.listener.port}"

        assert (await page.run(FOLLOW % f"{own}{STREAM}?ticket={ticket}"), await page.run("ended")) == ("refused", 2)
        assert await page.run("heard.length") == 0

        # The other site did not even use the ticket up.
        await page.open(f"{own}/docs")
        assert await page.run(FOLLOW % f"{STREAM}?ticket={ticket}") == "open"
