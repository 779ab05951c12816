"""Servers that fail for a moment, and handlers that do what no handler should: the agent goes on, or ends well."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.wire.api.records.channels import ChannelMessage
from tests.fault.sdk.door import Door
from tests.rigs.team import CHANNEL, LiveServer, with_server
from tests.unit.sdk.agent.at_work import Ear, at_work, client_of, shift

pytestmark = pytest.mark.fault


def refused(status: int, document: bytes = b"") -> bytes:
    """What a server or a gateway says that has failed."""
    kind = b"application/problem+json" if document else b"text/plain"
    head = b"HTTP/1.1 %d No\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (status, kind, len(document))
    return head + document


FAILED = refused(500, b'{"code":"internal","detail":"The server failed"}')
NO_GATEWAY = refused(504)


@pytest.fixture
def ear() -> Iterator[Ear]:
    ear, log = Ear(), logging.getLogger("parley")
    log.addHandler(ear)
    yield ear
    log.removeHandler(ear)


@Agent("bob", drain=0.01)
class Bob(BaseAgent):
    """Answers, or does what it is told."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.stubborn = asyncio.Event()

    @on_message()
    async def handle(self, message: ChannelMessage) -> dict[str, Any]:
        match message.payload.get("do"):
            case "exit":
                sys.exit(3)
            case "stay":
                self.stubborn.set()
                while not self.released.is_set():
                    try:
                        await self.released.wait()
                    except asyncio.CancelledError:
                        continue
        return {"done": True}


@pytest.mark.parametrize("answer", [FAILED, NO_GATEWAY])
@pytest.mark.parametrize("path", [b"/reply", b"text/event-stream"])
@with_server
async def test_an_agent_outlives_a_server_that_fails_for_a_moment(
    server: LiveServer, path: bytes, answer: bytes, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.sdk.agent.runtime._RETRY_SECONDS", 0.01)
    monkeypatch.setattr("parley.sdk.protocol.following._PAUSE_MIN", 0.01)
    left = 2

    def refuse(head: bytes) -> bytes:
        nonlocal left
        if path not in head or not left:
            return b""
        left -= 1
        return answer

    alice = await client_of(server)
    async with Door(server.listener.port) as door, shift(server, Bob(), port=door.port):
        door.refuse = refuse
        if path != b"/reply":
            door.cut()
        said = await alice.ask(CHANNEL, None, "bob", {}, 20)
    await alice.close()

    assert said.payload == {"done": True}
    assert left == 0
    assert {"agent_answer_late", "agent_stream_broke"} & set(ear.actions)


@with_server
async def test_a_handler_that_calls_exit_has_failed_and_the_agent_goes_on(server: LiveServer) -> None:
    async with at_work(server, Bob()) as alice:
        failed = await alice.ask(CHANNEL, None, "bob", {"do": "exit"}, 20, check=False)
        answered = await alice.ask(CHANNEL, None, "bob", {}, 20)

    assert failed.error == "SystemExit: 3"
    assert answered.payload == {"done": True}


@with_server
async def test_a_handler_that_cannot_be_cancelled_keeps_no_agent_from_stopping(
    server: LiveServer, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.sdk.agent.runtime._CANCEL_SECONDS", 0.05)
    bob, alice = Bob(), await client_of(server)
    async with shift(server, bob) as work:
        await alice.send_message(CHANNEL, None, "bob", "notify", {"do": "stay"})
        await bob.stubborn.wait()
        work.stop.set()
        ended_with = await work.ended()
    bob.released.set()
    await alice.close()

    assert ended_with is None
    assert ear.actions.count("agent_handlers_stubborn") == 1


@with_server
async def test_an_agent_comes_to_work_although_the_server_died_while_it_registered(server: LiveServer) -> None:
    lost = refused(409, b'{"code":"stale","detail":"this was carried out, but its answer was lost"}')
    turned_away: set[bytes] = set()

    def refuse(head: bytes) -> bytes:
        line = head.partition(b"\r\n")[0]
        if not line.startswith(b"POST ") or line in turned_away:
            return b""
        turned_away.add(line)
        return lost

    alice = await client_of(server)
    async with Door(server.listener.port) as door:
        door.refuse = refuse
        async with shift(server, Bob(), port=door.port):
            door.refuse = lambda head: b""
            said = await alice.ask(CHANNEL, None, "bob", {}, 20)
    await alice.close()

    assert said.payload == {"done": True}
    assert len(turned_away) >= 2
