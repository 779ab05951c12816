"""What Parley answers where RFC-0021 is open: decisions 12 to 19."""

from __future__ import annotations

import asyncio

import pytest

from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.callers import KeyKind
from tests.conformance.channels.talk import (
    CHANNELS,
    MESSAGES,
    Document,
    channel,
    created,
    heard,
    later,
    listed,
    messages_of,
    reply,
    request,
    send,
    shown,
)
from tests.rigs.team import LiveServer, with_query, with_server

# ---------------------------------------------------------------- 12 the cursor


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-12-ID", "CHAN-12-POSITION", "CHAN-12-TIME")
@pytest.mark.parametrize("cursor", ["id", "seq", "created_at"])
@with_server
async def test_each_kind_of_cursor_gives_what_comes_after_it(server: LiveServer, cursor: str) -> None:
    alice = await server.client("alice")
    said = []
    for text in ("one", "two", "three"):
        server.rig.clock.pass_by(seconds=1)
        said.append(await send(alice, text))

    found = [await heard(alice, since=one[cursor]) for one in said]

    assert found == [["two", "three"], ["three"], []]


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-12-MALFORMED")
@pytest.mark.parametrize("since", ["msg_none", "-1", "1.5", "yesterday", "' OR 1=1", "9" * 40, "٣", "2026-99-99"])
@with_server
async def test_a_malformed_cursor_is_refused(server: LiveServer, since: str) -> None:
    alice = await server.client("alice")
    await send(alice)

    answer = await alice.get(MESSAGES, since=since)

    assert (answer.status, answer.code) == (400, "bad_cursor")


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-12-FOREIGN")
@pytest.mark.parametrize("kept", [1000, 1])
@with_server
async def test_a_cursor_of_another_channel_is_refused(server: LiveServer, kept: int) -> None:
    await server.rig.channel("chan_2", options=Options(max_messages=kept))
    alice = await server.client("alice")
    foreign = await send(alice)
    for text in ("one", "two"):
        await send(alice, text, messages_of("chan_2"))

    answer = await alice.get(messages_of("chan_2"), since=foreign["id"])

    assert (answer.status, answer.code) == (400, "bad_cursor")


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-12-EVICTED")
@pytest.mark.parametrize("cursor", ["id", "seq"])
@with_server
async def test_an_evicted_cursor_goes_on_with_the_oldest_and_says_so(server: LiveServer, cursor: str) -> None:
    await server.rig.channel("chan_2", options=Options(max_messages=3))
    alice = await server.client("alice")
    path = messages_of("chan_2")
    said = [await send(alice, str(number), path) for number in range(1, 7)]

    evicted = await alice.get(path, since=said[0][cursor])
    kept = await alice.get(path, since=said[3][cursor])
    strict = await alice.get(path, since=said[0][cursor], on_evicted="error")

    assert [one["payload"]["text"] for one in evicted.json] == ["4", "5", "6"]
    assert evicted.headers["x-cursor-evicted"] == "oldest=4"
    assert [one["payload"]["text"] for one in kept.json] == ["5", "6"]
    assert "x-cursor-evicted" not in kept.headers
    assert (strict.status, strict.code, strict.json["oldest"]) == (410, "cursor_evicted", 4)


@pytest.mark.requirement("CHAN-12-LIMIT")
@pytest.mark.parametrize(("limit", "status"), [("1", 200), ("1000", 200), ("0", 422), ("1001", 422), ("x", 422)])
@with_server
async def test_a_page_has_one_to_a_thousand_messages(server: LiveServer, limit: str, status: int) -> None:
    alice = await server.client("alice")
    for text in ("one", "two"):
        await send(alice, text)

    answer = await alice.get(MESSAGES, limit=limit)

    assert answer.status == status
    if status == 200:
        assert len(answer.json) == min(int(limit), 2)


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-12-NEXT")
@with_server
async def test_pages_follow_the_cursor_in_the_header_without_gap_or_repeat(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    for number in range(10):
        await send(alice, str(number), to="carol" if number % 3 == 0 else "bob")
    pages: list[list[Document]] = []
    query: dict[str, object] = {}

    while True:
        answer = await bob.get(with_query(MESSAGES, {"limit": 2, **query}))
        assert isinstance(answer.json, list)
        if not answer.json:
            break
        pages.append(answer.json)
        query = {"since": answer.headers["x-next-cursor"]}

    found = [one["payload"]["text"] for page in pages for one in page]
    assert found == ["1", "2", "4", "5", "7", "8"]
    assert [len(page) for page in pages] == [2, 2, 2]


# ---------------------------------------------------------------- 13 the filter


@pytest.mark.requirement("CHAN-13-FILTER")
@with_server
async def test_the_filter_shows_what_an_agent_may_see(server: LiveServer) -> None:
    await server.rig.role("data", "bob")
    alice, bob = await server.client("alice"), await server.client("bob")
    await send(alice, "direct", to="bob")
    await send(alice, "other", to="carol")
    await send(alice, "role", to="role:data")
    await send(alice, "other role", to="role:none")
    await send(alice, "all")

    assert await heard(bob, to="bob") == ["direct", "role", "all"]
    assert await heard(alice, to="bob") == ["direct", "role", "all"]
    assert await heard(alice, to="carol") == ["other", "all"]


@pytest.mark.requirement("CHAN-13-FILTER", "CHAN-13-THIRD-LIST")
@with_server
async def test_the_filter_shows_nobody_more_than_it_may_see_itself(server: LiveServer) -> None:
    alice, carol = await server.client("alice"), await server.client("carol")
    await send(alice, "for bob", to="bob")
    await send(alice, "all")

    assert await heard(carol, to="bob") == ["all"]
    assert await heard(carol) == ["all"]


@pytest.mark.requirement("CHAN-13-THIRD-LIST", "CHAN-13-THIRD-GET", "CHAN-13-THIRD-STREAM")
@pytest.mark.parametrize("to", ["bob", "role:data"])
@with_server
async def test_a_directed_message_is_invisible_to_third_members(server: LiveServer, to: str) -> None:
    await server.rig.role("data", "bob")
    await server.rig.channel("chan_2", "bob", "carol", policy=MemberPolicy.EXPLICIT)
    alice, carol = await server.client("alice"), await server.client("carol")
    path = messages_of("chan_2")
    nowhere = (await carol.get(f"{path}/msg_none")).body

    streams = ("/subscribe/channels/chan_2", "/subscribe/intents/intent_1", "/subscribe/agents/carol")
    async with carol.events(streams[0]) as one, carol.events(streams[1]) as two, carol.events(streams[2]) as three:
        said = await send(alice, "between us", path, to=to)
        await send(alice, "all", path)
        pushed = [(await events.next()).json["payload"]["text"] for events in (one, two, three)]

    got = await carol.get(f"{path}/{said['id']}")
    assert (got.status, got.body) == (404, nowhere)
    assert await heard(carol, path) == ["all"]
    assert pushed == ["all"] * 3
    # Nor does it show when the stream catches up from the beginning.
    async with carol.events(streams[0], last_event_id="0") as events:
        assert (await events.next()).json["payload"]["text"] == "all"


# ---------------------------------------------------------------- 14 expiry


@pytest.mark.requirement("CHAN-14-PAST")
@pytest.mark.parametrize(
    ("offset", "status"), [(-60, 422), (0, 422), (1, 201), (30 * 86400, 201), (30 * 86400 + 1, 422)]
)
@with_server
async def test_a_message_expires_in_the_future(server: LiveServer, offset: int, status: int) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"payload": {}, "expires_at": later(server, seconds=offset)})

    assert answer.status == status
    if status == 422:
        assert answer.json["errors"][0]["field"] == "expires_at"


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-14-LIST", "CHAN-14-STREAM", "CHAN-14-GET")
@with_server
async def test_an_expired_message_is_only_found_by_its_id(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, "short-lived", to="bob", expires_at=later(server, seconds=5))
    await send(alice, "lasting", to="bob")

    server.rig.clock.pass_by(seconds=5)

    assert await heard(bob) == ["lasting"]
    assert await heard(alice) == ["lasting"]
    async with bob.events("/subscribe/channels/chan_1", last_event_id="0") as events:
        assert (await events.next()).json["payload"]["text"] == "lasting"
        assert await events.silence()
    assert [(await shown(one, said))["status"] for one in (alice, bob)] == ["expired"] * 2
    assert (await alice.get("/messages/search", q="short-lived")).json == []


@pytest.mark.requirement("CHAN-14-REPLY")
@with_server
async def test_an_expired_request_is_not_answered(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob", expires_at=later(server, seconds=5))
    server.rig.clock.pass_by(seconds=5)

    replied = await bob.post(f"{MESSAGES}/{asked['id']}/reply", {"payload": {}})
    body = {"message_type": "response", "correlation_id": asked["id"], "payload": {}}
    posted = await bob.post(MESSAGES, body)

    assert [(one.status, one.code) for one in (replied, posted)] == [(409, "message_expired")] * 2
    assert (await channel(alice))["message_count"] == 1


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-14-RESPONSE-WINS")
@with_server
async def test_a_response_that_lands_before_expiry_wins(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob", expires_at=later(server, seconds=5))
    server.rig.clock.pass_by(seconds=4.9)
    answer = await reply(bob, asked)

    server.rig.clock.pass_by(seconds=60)

    assert (await shown(alice, asked))["status"] == "delivered"
    assert [one["id"] for one in await listed(alice)] == [asked["id"], answer["id"]]


# ---------------------------------------------------------------- 15 eviction, 16 time to live


@pytest.mark.requirement("CHAN-15-LAST", "CHAN-15-COUNT", "CHAN-15-GONE")
@with_server
async def test_six_messages_where_three_are_kept(server: LiveServer) -> None:
    alice = await server.client("alice")
    room = await created(alice, "room", options={"max_messages": 3})
    path = messages_of(room["id"])

    said = [await send(alice, str(number), path) for number in range(1, 7)]

    assert await heard(alice, path) == ["4", "5", "6"]
    assert (await channel(alice, room["id"]))["message_count"] == 6
    assert [(await alice.get(f"{path}/{one['id']}")).status for one in said] == [404] * 3 + [200] * 3
    await server.restart()
    alice = await server.client("alice")
    assert await heard(alice, path) == ["4", "5", "6"]


@pytest.mark.requirement("CHAN-16-LAST", "CHAN-16-CREATION", "CHAN-16-MOMENT")
@pytest.mark.parametrize("speaks", [True, False])
@with_server
async def test_a_channels_time_runs_out_after_its_last_message_or_its_creation(
    server: LiveServer, speaks: bool
) -> None:
    alice = await server.client("alice")
    room = await created(alice, "room", options={"ttl_seconds": 60})
    if speaks:
        server.rig.clock.pass_by(seconds=30)
        await send(alice, path=messages_of(room["id"]))
    end = later(server, seconds=60)

    server.rig.clock.pass_by(seconds=59.999)
    before = await channel(alice, room["id"])
    server.rig.clock.pass_by(hours=5)
    after = await channel(alice, room["id"])

    assert (before["status"], before["closed_at"]) == ("open", None)
    assert (after["status"], after["closed_at"]) == ("closed", end)
    assert (await alice.get(CHANNELS)).json[-1] in (after, await channel(alice))
    assert (await alice.post(messages_of(room["id"]), {"payload": {}})).code == "channel_closed"


# ---------------------------------------------------------------- 17 reserved names, 18 the sender


@pytest.mark.requirement("CHAN-17-RESERVED")
@with_server
async def test_nobody_is_called_system_or_like_a_role(server: LiveServer) -> None:
    admin, alice = await server.client("", KeyKind.ADMIN), await server.client("alice")
    service = await server.client("", KeyKind.SERVICE)

    for name in ("system", "role:data"):
        tried = [
            await service.post(MESSAGES, {"sender": name, "payload": {}}),
            await service.post(MESSAGES, {"payload": {}}, {"X-Agent-ID": name}),
            await service.post("/agents/register", {"agent_id": name}),
            await alice.post(CHANNELS, {"name": "room", "members": [name]}),
            await alice.post(f"/intents/{'intent_1'}/agents", {"agent_id": name}),
            await admin.post("/keys", {"kind": "agent", "agent_id": name}),
        ]
        assert [one.status for one in tried] == [422] * len(tried), name
    assert (await alice.post(MESSAGES, {"to": "system", "payload": {}})).status == 422
    assert await listed(alice) == []


@pytest.mark.requirement("CHAN-18-CREDENTIAL")
@with_server
async def test_the_sender_is_the_agent_of_the_key(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    left_out = await send(alice)
    said_so = await send(alice, sender="alice")
    answer = await reply(bob, await request(alice, "bob"))

    assert (left_out["sender"], said_so["sender"], answer["sender"]) == ("alice", "alice", "bob")


@pytest.mark.requirement("CHAN-18-MISMATCH")
@with_server
async def test_no_key_speaks_for_another_agent(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")

    tried = [
        await alice.post(MESSAGES, {"sender": "bob", "payload": {}}),
        await alice.post(f"{MESSAGES}/{asked['id']}/reply", {"sender": "bob", "payload": {}}),
        await alice.post(f"{CHANNELS}/new/messages", {"sender": "bob", "payload": {}}),
        await alice.post("/channels/chan_1/ask", {"sender": "bob", "to": "alice", "payload": {}}),
        await alice.post("/channels/chan_1/batch", {"messages": [{"sender": "bob", "payload": {}}]}),
        await alice.post(MESSAGES, {"payload": {}}, {"X-Agent-ID": "bob"}),
        await alice.get(MESSAGES, headers={"X-Agent-ID": "bob"}),
    ]

    assert [(one.status, one.code) for one in tried] == [(403, "sender_mismatch")] * len(tried)
    assert [one["id"] for one in await listed(bob)] == [asked["id"]]


@pytest.mark.requirement("CHAN-18-SERVICE", "CHAN-18-HEADER", "CHAN-SDK-HEADERS")
@with_server
async def test_a_service_key_speaks_for_the_agents_of_its_tenant(server: LiveServer) -> None:
    await server.rig.tenant("other")
    service = await server.client("", KeyKind.SERVICE)
    as_bob = await server.client("", KeyKind.SERVICE, speaks_as="bob")
    stranger = await server.client("", KeyKind.SERVICE, "other", speaks_as="alice")

    by_body = await send(service, sender="alice", to="bob")
    by_header = await send(as_bob, to="alice")
    by_both = await as_bob.post(MESSAGES, {"sender": "carol", "payload": {}})
    nobody = await service.post(MESSAGES, {"payload": {}})

    assert (by_body["sender"], by_header["sender"], by_both.json["sender"]) == ("alice", "bob", "carol")
    assert (nobody.status, nobody.json["errors"][0]["field"]) == (422, "sender")
    # The named speaker sees what that agent sees.
    assert [one["id"] for one in await listed(as_bob)] == [by_body["id"], by_header["id"], by_both.json["id"]]
    assert (await stranger.get(MESSAGES)).status == 404


# ---------------------------------------------------------------- 19 idempotency


@pytest.mark.requirement("CHAN-19-SAME")
@pytest.mark.parametrize("path", [MESSAGES, f"{CHANNELS}/new/messages", "reply"])
@with_server
async def test_the_same_key_and_body_give_the_same_answer_and_one_message(server: LiveServer, path: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")
    place = f"{MESSAGES}/{asked['id']}/reply" if path == "reply" else path
    headers = {"Idempotency-Key": "once"}

    first = await bob.post(place, {"payload": {"n": 1}}, headers)
    server.rig.clock.pass_by(seconds=1)
    again = await bob.post(place, {"payload": {"n": 1}}, headers)
    await server.restart()
    alice, bob = await server.client("alice"), await server.client("bob")
    after = await bob.post(place, {"payload": {"n": 1}}, headers)

    assert first.status == 201
    assert [(one.status, one.json) for one in (again, after)] == [(201, first.json)] * 2
    found = await listed(alice, messages_of(first.json["channel_id"]))
    assert [one["id"] for one in found if one["sender"] == "bob"] == [first.json["id"]]


@pytest.mark.requirement("CHAN-19-SAME")
@with_server
async def test_parallel_tries_with_one_key_make_one_message(server: LiveServer) -> None:
    clients = [await server.client("alice") for _ in range(8)]

    answers = await asyncio.gather(
        *(one.post(MESSAGES, {"payload": {}}, {"Idempotency-Key": "once"}) for one in clients)
    )

    assert {one.status for one in answers} == {201}
    assert len({one.json["id"] for one in answers}) == 1
    assert len(await listed(clients[0])) == 1


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-19-SAME")
@with_server
async def test_a_channel_is_created_once_with_one_key(server: LiveServer) -> None:
    alice = await server.client("alice")
    headers = {"Idempotency-Key": "room"}

    answers = [await alice.post(CHANNELS, {"name": "room"}, headers) for _ in range(2)]
    without = await alice.post(CHANNELS, {"name": "room"})

    assert [one.status for one in answers] == [201, 201]
    assert answers[0].json == answers[1].json
    assert without.status == 409


@pytest.mark.requirement("CHAN-19-OTHER")
@with_server
async def test_the_same_key_with_another_body_is_refused(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    headers = {"Idempotency-Key": "once"}

    await alice.post(MESSAGES, {"payload": {"n": 1}}, headers)
    other = await alice.post(MESSAGES, {"payload": {"n": 2}}, headers)
    another_agent = await bob.post(MESSAGES, {"payload": {"n": 2}}, headers)

    assert (other.status, other.code) == (422, "idempotency_mismatch")
    assert another_agent.status == 201
    assert [one["payload"] for one in await listed(alice)] == [{"n": 1}, {"n": 2}]
