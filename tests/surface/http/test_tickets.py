"""Tickets: a stream for a browser, which sets no headers, without a key in the address."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest

from parley.domain.directory.callers import KeyKind
from tests.rigs.team import CHANNEL, Client, LiveServer, with_server

pytestmark = [pytest.mark.both_stores, pytest.mark.usefixtures("streams_refused_at_once")]

STREAM = f"/api/v1/channels/{CHANNEL}/subscribe"


async def _ticket(client: Client, path: str = STREAM) -> str:
    answer = await client.post("/streams/tickets", {"path": path})
    assert answer.status == 201
    return str(answer.json["ticket"])


@pytest.mark.requirement("CHAN-SUB-TICKET")
@with_server
async def test_a_ticket_opens_its_stream_without_a_key_once(server: LiveServer) -> None:
    bob, alice = await server.client("bob"), await server.client("alice")
    browser = server.with_key("")
    ticket = await _ticket(bob)

    async with browser.events(f"{STREAM}?ticket={ticket}") as events:
        assert events.status == 200
        said = await alice.post(f"/channels/{CHANNEL}/messages", {"payload": {}, "to": "bob"})
        assert (await events.next()).json["id"] == said.json["id"]
    async with browser.events(f"{STREAM}?ticket={ticket}") as again:
        assert again.status == 401


@with_server
async def test_of_many_that_use_a_ticket_at_once_one_gets_the_stream(server: LiveServer) -> None:
    browser = server.with_key("")
    ticket = await _ticket(await server.client("bob"))

    async def opened() -> int:
        async with browser.events(f"{STREAM}?ticket={ticket}") as events:
            return events.status

    assert sorted(await asyncio.gather(*[opened() for _ in range(5)])) == [200, 401, 401, 401, 401]


@pytest.mark.requirement("CHAN-SUB-TICKET")
@with_server
async def test_a_ticket_is_for_its_path_its_time_and_its_key(server: LiveServer) -> None:
    browser = server.with_key("")
    bob = await server.client("bob")

    async def status(ticket: str, path: str = STREAM) -> int:
        async with browser.events(f"{path}?ticket={ticket}") as events:
            return events.status

    other = await _ticket(bob, "/api/v1/agents/bob/subscribe")
    assert await status(other) == 401
    late = await _ticket(bob)
    server.rig.clock.pass_by(seconds=30)
    assert await status(late) == 401
    assert await status("pst_nonsense") == 401
    assert await status(quote(bob.headers["X-API-Key"])) == 401  # a key is no ticket
    revoked = await _ticket(bob)
    admin = await server.client(kind=KeyKind.ADMIN)
    assert (await admin.delete("/keys/key_default_agent_bob")).status == 200
    assert await status(revoked) == 401


@with_server
async def test_a_ticket_opens_streams_only(server: LiveServer) -> None:
    browser = server.with_key("")
    ticket = await _ticket(await server.client("bob"), f"/api/v1/channels/{CHANNEL}/messages")

    assert (await browser.get(f"/channels/{CHANNEL}/messages", ticket=ticket)).status == 401


@with_server
async def test_a_ticket_speaks_for_the_agent_that_its_key_named(server: LiveServer) -> None:
    service = await server.client(kind=KeyKind.SERVICE, speaks_as="bob")
    path = "/api/v1/agents/bob/subscribe"
    browser = server.with_key("")

    async with browser.events(f"{path}?ticket={await _ticket(service, path)}") as events:
        assert events.status == 200
    answer = await service.post("/streams/tickets", {"path": "agents/bob"})
    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "path")


@with_server
async def test_a_ticket_is_not_given_again_for_an_idempotency_key(server: LiveServer) -> None:
    bob = await server.client("bob")
    key = {"Idempotency-Key": "k"}

    first = await bob.post("/streams/tickets", {"path": STREAM}, key)
    again = await bob.post("/streams/tickets", {"path": STREAM}, key)

    assert first.status == 201
    assert again.status != 201 or again.json["ticket"] != first.json["ticket"]
