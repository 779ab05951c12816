"""A channel at a real browser: live, through a cut network, in a flood, by keyboard, on a phone, in twelve tabs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from parley.domain.channel.channel import Channel, Options
from parley.domain.directory.callers import DEFAULT_TENANT
from tests.conformance.ocip.governed import MESSAGES, pair, person
from tests.rigs.browser import Page, a_browser, needs_browser
from tests.rigs.team import CHANNEL, Client, LiveServer, with_server

pytestmark = [pytest.mark.slow, needs_browser]

PATH = f"/console/channels/{CHANNEL}"
LIVE = "document.documentElement.dataset.live === 'live'"
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
CATCH_STREAM = """
globalThis.EventSource = class extends EventSource {
  constructor(address) { super(address); globalThis.stream = this; }
};
0
"""
TEXTS = "[...document.querySelectorAll('#timeline .said')].map((text) => text.textContent)"
WIDER = "(log) => (log ? log.scrollWidth - log.clientWidth : 0)"
HOSTILE = "<img src=/nothing onerror=globalThis.hacked=1><script>globalThis.hacked=1</script> \u202e\u200b"


class Network:
    """Carries bytes to a server until it is cut."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._writers: list[asyncio.StreamWriter] = []
        self._is_cut = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @asynccontextmanager
    async def carrying(self) -> AsyncIterator[Network]:
        listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.cut()
            listener.close()

    def cut(self) -> None:
        """End every connection, and let none through."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def mend(self) -> None:
        self._is_cut = False

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        self._writers += [writer, back_writer]
        for source, target in ((reader, back_writer), (back_reader, writer)):
            task = asyncio.ensure_future(_pipe(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(65_536):
            target.write(piece)
            await target.drain()
    target.close()


@asynccontextmanager
async def channel_page(server: LiveServer, port: int = 0) -> AsyncIterator[Page]:
    """A browser of ann, for whom alice acts, on the channel; it ends without an error."""
    address = f"http://127.0.0.1:{port or server.listener.port}"
    once = (await (await person(server, "ann")).post("/sessions/once")).json["once"]
    async with a_browser(server.rig.path.parent / "profile") as page:
        await page.open(f"{address}/console/login#once={once}")
        await page.until("location.pathname === '/console/approvals' && document.readyState === 'complete'")
        await page.go(f"{address}{PATH}")
        await page.until(LIVE)
        yield page
        assert page.errors == []


async def say(agent: Client, *texts: str) -> None:
    for first in range(0, len(texts), 100):
        messages = [{"sender": "alice", "payload": {"text": text}} for text in texts[first : first + 100]]
        assert (await agent.post(f"/channels/{CHANNEL}/batch", {"messages": messages})).status == 201


@with_server
async def test_what_is_said_appears_and_waits_while_the_reader_is_elsewhere(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await say(alice, *[f"say-{n}" for n in range(60)])

    async with channel_page(server) as page:
        # The end is shown, as without script.
        assert await page.run("document.querySelector('#log').scrollTop") == 0
        asked = {"message_type": "request", "to": "bob", "payload": {"text": HOSTILE}}
        request = (await alice.post(MESSAGES, asked)).json
        await page.until(f"{TEXTS}.length === 61 && document.querySelector('.waits') !== null")
        await page.until("document.querySelector('#asks').textContent.includes('1 request waits')")
        await bob.post(f"{MESSAGES}/{request['id']}/reply", {"payload": {"text": "It is."}})
        await page.until("document.querySelector('.waits') === null")
        await page.until("!document.querySelector('#asks').textContent.includes('waits')")
        # Presence follows the streams of an agent.
        async with bob.events("/agents/bob/subscribe"):
            await page.until("document.querySelectorAll('.presence.on').length === 1")
        await page.until("document.querySelectorAll('.presence.on').length === 0")

        # Somebody who reads older messages is told how many are new; nothing moves.
        await page.run("document.querySelector('#log').scrollTop = -600")
        await page.run(TWO_FRAMES)  # the observer has looked
        await say(alice, *[f"new-{n}" for n in range(12)])
        await page.until("document.querySelector('#behind').textContent === '↓ 12 new'")
        assert await page.run(f"{TEXTS}.length") == 62
        await page.run("document.querySelector('#behind').click()")
        await page.until(f"{TEXTS}.at(-1) === 'new-11' && document.querySelector('#behind').hidden")
        assert await page.run("document.querySelector('#log').scrollTop") == 0
        assert await page.run("globalThis.hacked") is None

        # By keyboard: to the newest row, into it, and back.
        await page.press("k")
        assert await page.run("document.activeElement.closest('li').textContent.includes('new-11')")
        await page.press("Enter")
        await page.until("location.pathname.includes('/messages/') && document.readyState === 'complete'")
        await page.press("u")
        await page.until(f"location.pathname === {PATH!r} && document.readyState === 'complete'")


@with_server
async def test_nothing_is_lost_or_twice_when_the_network_is_cut(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await say(alice, "before")

    async with Network(server.listener.port).carrying() as network, channel_page(server, network.port) as page:
        await say(alice, "live")
        await page.until(f"{TEXTS}.at(-1) === 'live'")
        network.cut()
        await page.until("document.documentElement.dataset.live === 'lost'")
        missed = [f"missed-{n}" for n in range(25)]
        await say(alice, *missed)
        network.mend()
        await page.until(f"{TEXTS}.at(-1) === 'missed-24'")

        # A pause is such a cut, made by the reader.
        await page.press(".")
        await say(alice, "paused")
        await page.press(".")
        await page.until(f"{TEXTS}.at(-1) === 'paused'")
        assert await page.run(TEXTS) == ["before", "live", *missed, "paused"]
        page.errors.clear()  # the browser complains of the cut


@with_server
async def test_a_message_that_comes_twice_within_one_frame_is_shown_once(server: LiveServer) -> None:
    """What was said between rendering a page and following it comes in both ways."""
    alice, _ = await pair(server)
    await say(alice, "before")

    async with channel_page(server) as page:
        first = int(await page.run("document.querySelector('#timeline').dataset.last"))

        def batch(*seqs: int) -> str:
            rows = "".join([f'<li data-seq="{seq}"><p class="said">{seq}</p></li>' for seq in seqs])
            document = json.dumps({"rows": rows, "count": len(seqs), "last": seqs[-1], "asks": False})
            return f"stream.dispatchEvent(new MessageEvent('messages', {{data: {json.dumps(document)}}}));"

        await page.run(CATCH_STREAM)
        await page.press(".", ".")  # a pause: the page opens its next stream
        await page.until(f"globalThis.stream !== undefined && {LIVE}")
        one, two, three = first + 1, first + 2, first + 3
        await page.run(f"{batch(one)} {batch(one)} {batch(one, two)} {batch(two, three)} {TWO_FRAMES}")
        assert await page.run(TEXTS) == ["before", str(one), str(two), str(three)]

        # To somebody who reads older messages, none is counted twice.
        await page.run("document.querySelector('#log').style.height = '20px'")
        await page.run("document.querySelector('#log').scrollTop = -600")
        await page.run(TWO_FRAMES)  # the observer has looked
        await page.run(f"{batch(three + 1)} {batch(three + 1)} {TWO_FRAMES}")
        assert await page.run("document.querySelector('#behind').textContent") == "↓ 1 new"


@with_server
async def test_a_flood_leaves_the_newest_rows_and_says_what_went_by(server: LiveServer) -> None:
    alice, _ = await pair(server)
    channel = await server.rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    assert channel is not None
    await server.rig.put(replace(channel, options=Options(max_messages=20_000)))
    await say(alice, *[f"say-{n}" for n in range(60)])

    async with channel_page(server) as page:
        await page.run("document.querySelector('#log').scrollTop = -600")
        await page.run(TWO_FRAMES)  # the observer has looked
        flood = [f"flood-{n}" for n in range(10_000)]
        await say(alice, *flood[:2_000])
        await page.until("!document.querySelector('#skipped').hidden")
        assert await page.run(f"{TEXTS}.length") == 60
        await page.run("document.querySelector('#behind').click()")
        await say(alice, *flood[2_000:])
        await page.until(f"{TEXTS}.at(-1) === 'flood-9999'")

        assert await page.run(TEXTS) == flood[-500:]
        assert "messages went by faster than they can be read: load them" in await page.run(
            "document.querySelector('#skipped').textContent"
        )
        await page.run("document.querySelector('#skipped a').click()")
        await page.until("location.search.includes('since=60') && document.readyState === 'complete'")
        assert await page.run(TEXTS) == flood[:100]


@pytest.mark.parametrize("width", [1280, 390, 320])
@with_server
async def test_nothing_scrolls_sideways_whatever_is_said(server: LiveServer, width: int) -> None:
    alice, _ = await pair(server)
    body = {"text": HOSTILE + "x" * 64_000, "y" * 300: {"z" * 300: ["w" * 3_000]}}
    await alice.post(MESSAGES, {"payload": body, "metadata": {"conversation_id": "c" * 100, "note": "n" * 3_000}})
    message = (await alice.post(MESSAGES, {"payload": {"y" * 100: {"z" * 300: "w" * 900}, "n": 1}})).json
    thread = f"/console/threads/{'c' * 100}"

    async with channel_page(server) as page:
        for path in (PATH, "/console/channels", f"{PATH}/messages/{message['id']}", thread, "/console/agents/bob"):
            await page.resize(width, 800)
            await page.go(f"http://127.0.0.1:{server.listener.port}{path}")
            wide = await page.run("document.documentElement.scrollWidth")
            inner = await page.run(f"({WIDER})(document.querySelector('#log'))")
            assert (wide <= width, inner, await page.run("globalThis.hacked")) == (True, 0, None), path


@with_server
async def test_twelve_tabs_of_one_browser_all_show_what_is_said(server: LiveServer) -> None:
    alice, _ = await pair(server)

    async with channel_page(server) as page:
        for _ in range(11):
            await page.open(f"http://127.0.0.1:{server.listener.port}{PATH}")
        # The last tab has no stream of its own: it asks again every five seconds.
        await say(alice, "for all")
        await page.until(f"{TEXTS}.at(-1) === 'for all'")
        assert await page.run("fetch('/console/channels').then((answer) => answer.status)") == 200
