"""Lists of any length: complete, and never more in memory than a piece, however slowly they are taken."""

from __future__ import annotations

import asyncio

import pytest

from parley.app.team.channels import reading
from parley.surfaces.http import listing
from parley.surfaces.http.http1.connection import Connection
from parley.surfaces.http.route import Route
from parley.surfaces.http.server import all_routes
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, with_server

PLACE = f"/channels/{CHANNEL}/messages"
LONG = "x" * 60_000
# Lists of small things whose number a quota bounds, and pages that end when they are a lot: one body holds them.
SHORT = {
    "/tenants",
    "/sessions",
    "/keys",
    "/roles",
    "/queues",
    "/suspensions",
    "/subscriptions",
    "/subscriptions/{subscription_id}/attempts",
    "/policies/history",
    "/policies/revisions",
    "/channels",
    "/conversations",
    "/conversations/{conversation_id}/messages",
    "/checkpoints",
    "/intents/{intent_id}/channels",
    "/intents/{intent_id}/agents",
    "/audit/checkpoints",
    "/intents/{intent_id}/acl",
    "/intents/{intent_id}/access-requests",
}


async def _fill(alice: Client, count: int = 24) -> None:
    """More of everything than one piece holds."""
    for n in range(count):
        made = [
            await alice.post(PLACE, {"payload": {"word": "needle", "long": [LONG, LONG]}}),
            await alice.post(f"/intents/{INTENT}/events", {"event_type": "comment", "payload": {"long": [LONG, LONG]}}),
            await alice.post("/intents", {"title": "t", "state": {"long": [LONG, LONG]}}),
            await alice.post("/tasks", {"intent_id": INTENT, "name": "t", "input": {"long": LONG}}),
        ]
        assert [answer.status for answer in made] == [201] * 4, (n, [answer.body[:300] for answer in made])


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of everything that connections were given to write at once."""
    sizes: list[int] = []
    write = Connection.write

    def noted(self: Connection, data: bytes) -> None:
        sizes.append(len(data))
        write(self, data)

    monkeypatch.setattr(Connection, "write", noted)
    return sizes


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-12-BYTES")
@with_server
async def test_every_list_is_complete_and_goes_out_in_bounded_pieces(server: LiveServer, largest: list[int]) -> None:
    alice = await server.client("alice")
    await _fill(alice)
    largest.clear()

    messages = (await alice.get(PLACE)).json
    events = (await alice.get(f"/intents/{INTENT}/events", after=0)).json
    intents = (await alice.get("/intents", limit=1000)).json["intents"]
    tasks = (await alice.get(f"/intents/{INTENT}/tasks")).json
    found = (await alice.get("/messages/search", q="needle")).json

    assert [message["seq"] for message in messages] == list(range(1, 25))
    assert [event["sequence"] for event in events][-24:] == sorted(event["sequence"] for event in events)[-24:]
    assert len([event for event in events if event["event_type"] == "comment"]) == 24
    assert len(intents) >= 25
    assert len(tasks) == 24
    assert [message["seq"] for message in found] == list(range(24, 0, -1))
    assert sum(largest) > 10_000_000
    assert max(largest) < listing.PIECE_BYTES + 200_000


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-12-BYTES")
@with_server
async def test_a_page_with_a_limit_ends_where_it_is_a_lot_and_the_cursor_goes_on(server: LiveServer) -> None:
    alice = await server.client("alice")
    await _fill(alice)

    seen: list[int] = []
    pages = 0
    cursor = ""
    while True:
        answer = await alice.get(PLACE, limit=1000, since=cursor)
        if not answer.json:
            break
        pages += 1
        assert len(answer.body) < reading.PAGE_BYTES + 500_000 * 4
        seen += [message["seq"] for message in answer.json]
        cursor = answer.headers["x-next-cursor"]
        assert cursor == answer.json[-1]["id"]

    assert seen == list(range(1, 25))
    assert pages > 1


@pytest.mark.both_stores
@with_server
async def test_the_cursor_of_a_long_list_is_its_last_message(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await _fill(alice)
    hidden = (await alice.post(PLACE, {"to": "carol", "payload": {}})).json["id"]

    answer = await bob.get(PLACE)

    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.headers["x-next-cursor"] == answer.json[-1]["id"] != hidden
    assert (await bob.get(PLACE, since=answer.headers["x-next-cursor"])).json == []


@with_server
async def test_a_list_whose_messages_are_evicted_while_it_is_sent_does_not_look_complete(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAGE_BYTES", 100)
    monkeypatch.setattr(reading, "_FIRST_BATCH", 1)
    monkeypatch.setattr(reading, "_PIECE", 1)
    alice = await server.client("alice")
    small = await alice.post(f"/intents/{INTENT}/channels", {"name": "small", "options": {"max_messages": 5}})
    place = f"/channels/{small.json['id']}/messages"
    for _ in range(5):
        await alice.post(place, {"payload": {"long": [LONG] * 4}})
    page = await reading.page(server.rig.team, server.rig.caller("alice"), small.json["id"], reading.MessageFilter())
    for _ in range(5):
        await alice.post(place, {"payload": {}})

    assert page.rest is not None
    with pytest.raises(Exception, match="evicted"):
        [messages async for messages in page.rest]


@with_server
async def test_readers_that_take_nothing_cost_a_piece_each(server: LiveServer) -> None:
    # A68: eight requests for a long list that nobody reads
    alice = await server.client("alice")
    await _fill(alice, 60)
    connections = [await alice.connect() for _ in range(8)]
    for connection in connections:
        connection.reader._limit = 1  # type: ignore[attr-defined]  # it takes no more than the kernel does
        request = f"GET /api/v1{PLACE} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {alice.headers['X-API-Key']}\r\n\r\n"
        connection.writer.write(request.encode())
    await asyncio.sleep(1)

    shared = server.listener._shared
    held = [open_connection._transport.get_write_buffer_size() for open_connection in shared.connections]
    assert max(held) < listing.PIECE_BYTES + 200_000
    assert (await alice.get("/intents", limit=1)).status == 200


def _lists(route: Route) -> bool:
    answer = route.answers.get(200)
    return route.method == "GET" and not route.streams and "list" in str(answer).lower()


def test_every_route_that_lists_is_known_to_be_bounded() -> None:
    """A new list must either be sent in pieces, or be short by its quota."""
    streamed = {
        "/channels/{channel_id}/messages",
        "/channels/{channel_id}/search",
        "/messages/search",
        "/intents/{intent_id}/events",
        "/events",
        "/intents",
        "/intents/{intent_id}/tasks",
        "/agents",
        "/timers",
        "/dead",
        "/approvals",
        "/asks",
        "/exchanges",
    }
    listing_routes = {route.path for route in all_routes() if _lists(route)}

    assert listing_routes - streamed - SHORT == set()
