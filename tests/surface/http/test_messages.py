"""Messages over HTTP: post, answer, ask, list, acknowledge; once, in order, and only for those they are for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from parley.app.team.channels import reading
from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.times import stamp
from tests.rigs.team import CHANNEL, INTENT, Answer, Client, LiveServer, soon, with_query, with_server

PLACE = f"/channels/{CHANNEL}/messages"
ASK = f"/channels/{CHANNEL}/ask"
BATCH = f"/channels/{CHANNEL}/batch"
BY_NAME = f"/intents/{INTENT}/channels/talk/messages"


async def request(client: Client, to: str = "bob", **body: object) -> str:
    """The id of a request that was sent."""
    answer = await client.post(PLACE, {"message_type": "request", "to": to, "payload": {"q": 1}, **body})
    assert answer.status == 201, answer.body
    return str(answer.json["id"])


async def listed(client: Client, **query: str) -> list[int]:
    return [one["seq"] for one in (await client.request("GET", with_query(PLACE, query))).json]


def in_future(server: LiveServer, **span: float) -> str:
    return stamp(server.rig.clock.at + timedelta(**span))


# ---------------------------------------------------------------- post


@with_server
async def test_a_message_looks_as_the_specification_says(server: LiveServer) -> None:
    bob = await server.client("bob")
    payload = {"text": 'ü "quoted" \n \u2028', "n": [1, 2.5, None, True], "big": 2**63}

    sent = await bob.post(PLACE, {"payload": payload, "to": "alice", "metadata": {"k": "v"}})
    shown = await bob.get(f"{PLACE}/{sent.json['id']}")

    assert sent.status == 201
    assert sent.json == shown.json
    assert sent.json == {
        "id": sent.json["id"],
        "channel_id": CHANNEL,
        "sender": "bob",
        "to": "alice",
        "message_type": "notify",
        "correlation_id": None,
        "payload": payload,
        "metadata": {"k": "v"},
        "status": "delivered",
        "created_at": "2026-03-13T14:30:00.000000+00:00",
        "expires_at": None,
        "read_at": None,
        "seq": 1,
        "conversation_id": None,
        "disclosure": "Sent by an AI agent",
    }
    channel = (await bob.get(f"/channels/{CHANNEL}")).json
    assert (channel["message_count"], channel["last_message_at"]) == (1, sent.json["created_at"])


@with_server
async def test_the_sender_is_who_the_key_says(server: LiveServer) -> None:
    bob = await server.client("bob")

    assert (await bob.post(PLACE, {"sender": "bob"})).json["sender"] == "bob"
    for answer in (
        await bob.post(PLACE, {"sender": "alice"}),
        await bob.post(PLACE, {}, {"X-Agent-ID": "alice"}),
        await bob.post(BATCH, {"messages": [{"sender": "alice"}]}),
        await bob.post(ASK, {"sender": "alice", "to": "carol", "payload": {}}),
        await bob.post(BY_NAME, {"sender": "alice"}),
    ):
        assert (answer.status, answer.code) == (403, "sender_mismatch")
    assert await listed(bob) == [1]


@with_server
async def test_one_key_may_speak_for_a_fleet(server: LiveServer) -> None:
    fleet = await server.client(kind=KeyKind.SERVICE, speaks_as="runner")
    nameless = await server.client(kind=KeyKind.SERVICE)

    assert (await fleet.post(PLACE, {})).json["sender"] == "runner"
    assert (await fleet.post(PLACE, {"sender": "worker"})).json["sender"] == "worker"
    refused = await nameless.post(PLACE, {})
    assert (refused.status, refused.json["errors"][0]["field"]) == (422, "sender")
    assert (await fleet.post(PLACE, {"sender": "system"})).status == 422


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"message_type": "request"}, "to"),
        ({"message_type": "request", "to": "*"}, "to"),
        ({"message_type": "broadcast", "to": "bob"}, "to"),
        ({"message_type": "response", "to": "bob"}, "correlation_id"),
        ({"message_type": "notify", "correlation_id": "msg_1"}, "correlation_id"),
        ({"message_type": "shout"}, "message_type"),
        ({"payload": []}, "payload"),
        ({"payload": "text"}, "payload"),
        ({"metadata": []}, "metadata"),
        ({"to": 7}, "to"),
        ({"expires_at": "2026-03-13T14:29:59Z"}, "expires_at"),
        ({"expires_at": "2026-03-13T14:30:00Z"}, "expires_at"),
        ({"expires_at": "9999-12-31T23:59:59Z"}, "expires_at"),
        ({"expires_at": "2026-03-14T14:30:00"}, "expires_at"),
        ({"expires_at": "1e400"}, "expires_at"),
        ({"expires_at": 1_800_000_000}, "expires_at"),
        ({"seq": 7}, ""),
        ({"id": "msg_mine"}, ""),
        ({"created_at": "2026-03-13T14:30:00Z"}, ""),
        ({"status": "read"}, ""),
        ({"tenant_id": "other"}, ""),
    ],
)
@with_server
async def test_what_is_no_message_is_refused_with_its_field(
    server: LiveServer, body: dict[str, object], field: str
) -> None:
    alice = await server.client("alice")

    refused = await alice.post(PLACE, body)

    assert (refused.status, refused.json["errors"][0]["field"]) == (422, field)
    assert await listed(alice) == []


@pytest.mark.parametrize("to", ["a\r\nb", "role:", "role:a b", "a b", "system", "../x", "x" * 65, "role:" + "x" * 65])
@with_server
async def test_an_address_is_an_agent_a_role_or_everyone(server: LiveServer, to: str) -> None:
    alice = await server.client("alice")

    assert (await alice.post(PLACE, {"to": to})).status == 422


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b'{"to":"a","to":"b"}', 422, "duplicate_key"),
        (b'{"payload":{"x":{"a":1,"a":2}}}', 422, "duplicate_key"),
        (b'{"payload":{"\\u0061":1,"a":2}}', 422, "duplicate_key"),
        (b"", 400, "malformed"),
        (b"{", 400, "malformed"),
        (b'\xef\xbb\xbf{"payload":{}}', 400, "malformed"),
        (b'{"payload":{"x":"\xff"}}', 400, "malformed"),
        (b'{"payload":{"x":"\\ud800"}}', 400, "malformed"),
        (b'{"payload":{"x":"\\u0000"}}', 422, "invalid"),
        (b'{"payload":{"\\u0000":1}}', 422, "invalid"),
        (b'{"payload":{"x":"\\ufeff"}}', 422, "invalid"),
        (b'{"payload":{"x":1e400}}', 422, "invalid"),
        (b'{"payload":{"x":NaN}}', 400, "malformed"),
        (b'{"payload":{"x":' + b"1" * 21 + b"}}", 422, "invalid"),
        (b'{"payload":{"x":' + b"1" * 100_000 + b"}}", 422, "invalid"),
        (b"[" * 200_000, 422, "too_deep"),
        (b'{"payload":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}", 422, "too_deep"),
    ],
)
@with_server
async def test_json_that_means_two_things_or_nothing_is_refused(
    server: LiveServer, content: bytes, status: int, code: str
) -> None:
    alice = await server.client("alice")

    refused = await alice.post(PLACE, content, {"Content-Type": "application/json"})

    assert (refused.status, refused.code) == (status, code)
    assert await listed(alice) == []


@with_server
async def test_a_body_says_that_it_is_json(server: LiveServer) -> None:
    alice = await server.client("alice")

    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        refused = await alice.post(PLACE, b"{}", {"Content-Type": kind})
        assert (refused.status, refused.code) == (415, "unsupported_media_type")
    assert (await alice.post(PLACE, b"{}", {"Content-Type": "application/json; charset=utf-8"})).status == 201


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth > 1 else {}


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        ({"payload": nested(32)}, {"payload": nested(33)}),
        ({"payload": {str(n): 0 for n in range(1000)}}, {"payload": {str(n): 0 for n in range(1001)}}),
        ({"payload": {"x": "y" * 65_536}}, {"payload": {"x": "y" * 65_537}}),
        ({"payload": {"x": "ü" * 32_768}}, {"payload": {"x": "ü" * 32_769}}),
        ({"metadata": {"x": "y" * (16_384 - 8)}}, {"metadata": {"x": "y" * (16_384 - 7)}}),
        ({"payload": {"x": 10**20 - 1}}, {"payload": {"x": 10**20}}),
        ({"to": "x" * 64}, {"to": "x" * 65}),
    ],
    ids=["depth", "keys", "text", "text in bytes", "metadata", "digits", "name"],
)
@with_server
async def test_limits_hold_at_the_last_that_fits_and_at_the_first_that_does_not(
    server: LiveServer, fits: dict[str, object], too_much: dict[str, object]
) -> None:
    alice = await server.client("alice")

    assert (await alice.post(PLACE, fits)).status == 201
    assert (await alice.post(PLACE, too_much)).status == 422
    assert (await alice.post(BATCH, {"messages": [fits]})).status == 201


@with_server
async def test_a_body_is_at_most_so_long(server: LiveServer) -> None:
    alice = await server.client("alice")
    texts = {str(n): "y" * 50_000 for n in range(5)}
    room = 256 * 1024 - len(json.dumps({"payload": {**texts, "last": ""}}))

    fits = await alice.post(PLACE, {"payload": {**texts, "last": "y" * room}})
    too_much = await alice.post(PLACE, {"payload": {**texts, "last": "y" * (room + 1)}})

    assert fits.status == 201
    assert (too_much.status, too_much.code) == (413, "too_large")


@with_server
async def test_a_message_lives_at_most_thirty_days(server: LiveServer) -> None:
    alice = await server.client("alice")

    assert (await alice.post(PLACE, {"expires_at": in_future(server, days=30)})).status == 201
    assert (await alice.post(PLACE, {"expires_at": in_future(server, days=30, microseconds=1)})).status == 422


@with_server
async def test_a_directed_message_is_for_its_two_alone(server: LiveServer) -> None:
    alice, bob, carol = await server.client("alice"), await server.client("bob"), await server.client("carol")
    sent = await alice.post(PLACE, {"to": "bob", "payload": {"secret": 1}})

    hidden = await carol.get(f"{PLACE}/{sent.json['id']}")

    assert hidden == await carol.get(f"{PLACE}/msg_none")
    assert hidden.status == 404
    assert (await listed(carol), await listed(bob), await listed(alice)) == ([], [1], [1])
    assert (await carol.get(f"/channels/{CHANNEL}/search", q="secret")).json == []
    assert (await carol.get("/messages/search", q="secret")).json == []
    assert (await carol.patch(f"{PLACE}/{sent.json['id']}", {"status": "read"})).status == 404
    assert len((await bob.get("/messages/search", q="SECRET")).json) == 1


@with_server
async def test_outside_its_channel_a_message_does_not_exist(server: LiveServer) -> None:
    await server.rig.channel("chan_2")
    alice = await server.client("alice")
    asked = await request(alice)
    bob = await server.client("bob")
    foreign = await server.client("bob", tenant="other")

    assert (await bob.get(f"/channels/chan_2/messages/{asked}")).status == 404
    assert (await bob.post(f"/channels/chan_2/messages/{asked}/reply", {})).status == 404
    for path in (PLACE, f"{PLACE}/{asked}"):
        assert (await foreign.get(path)).body == (await foreign.get(path.replace(CHANNEL, "chan_none"))).body
    assert (await foreign.post(PLACE, {})).status == 404
    assert (await foreign.post(f"{PLACE}/{asked}/reply", {})).status == 404
    assert (await bob.post("/channels/chan_none/messages", {})).status == 404


@with_server
async def test_who_is_not_in_the_channel_cannot_be_written_to(server: LiveServer) -> None:
    await server.rig.intent("intent_2", policy=AccessPolicy.CLOSED, grants=(server.rig.grant("bob", Permission.READ),))
    await server.rig.channel("chan_2", intent_id="intent_2", policy=MemberPolicy.EXPLICIT)
    alice = await server.client("alice")

    refused = await alice.post("/channels/chan_2/messages", {"to": "bob"})

    assert (refused.status, refused.code) == (403, "not_member")


@with_server
async def test_a_message_to_a_role_that_nobody_holds_is_pending(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    sent = await alice.post(PLACE, {"to": "role:billing"})

    assert (sent.status, sent.json["status"], sent.json["to"]) == (201, "pending", "role:billing")
    assert await listed(bob) == []


# ---------------------------------------------------------------- by name, batches


@with_server
async def test_sixteen_first_messages_to_a_name_make_one_channel(server: LiveServer) -> None:
    clients = [await server.client(f"a{n}") for n in range(16)]

    answers = await asyncio.gather(*(one.post(BY_NAME, {"payload": {"n": n}}) for n, one in enumerate(clients)))

    assert {one.status for one in answers} == {201}
    assert len({one.json["channel_id"] for one in answers}) == 1
    assert sorted(one.json["seq"] for one in answers) == list(range(1, 17))
    names = [one["name"] for one in (await clients[0].get(f"/intents/{INTENT}/channels")).json]
    assert names.count("talk") == 1


@with_server
async def test_a_name_that_is_none_makes_no_channel(server: LiveServer) -> None:
    bob = await server.client("bob")

    for name in ("a%20b", "%0d%0ax", "x" * 65, ".."):
        refused = await bob.post(f"/intents/{INTENT}/channels/{name}/messages", {})
        assert refused.status in (400, 404, 422), name
    assert len((await bob.get(f"/intents/{INTENT}/channels")).json) == 1


@with_server
async def test_a_batch_is_posted_whole_or_not_at_all(server: LiveServer) -> None:
    bob = await server.client("bob")
    good = [{"payload": {"n": n}} for n in range(100)]

    sent = await bob.post(BATCH, {"messages": good})

    assert (sent.status, [one["seq"] for one in sent.json]) == (201, list(range(1, 101)))
    assert [one["payload"]["n"] for one in sent.json] == list(range(100))
    for wrong in ([*good, {}], [], [{}, {"message_type": "request"}], [{"sender": "bob"}, {}]):
        assert (await bob.post(BATCH, {"messages": wrong})).status == 422
    assert (await bob.get(f"/channels/{CHANNEL}")).json["message_count"] == 100


@with_server
async def test_a_batch_of_full_messages_is_within_its_limits(server: LiveServer) -> None:
    bob = await server.client("bob")
    messages = [{"payload": {str(k): 0 for k in range(100)}, "metadata": {"a": 1}} for _ in range(100)]

    assert (await bob.post(BATCH, {"messages": messages})).status == 201


# ---------------------------------------------------------------- list


@pytest.mark.both_stores
@with_server
async def test_pages_follow_each_other_by_the_cursor_in_the_header(server: LiveServer) -> None:
    bob = await server.client("bob")
    await bob.post(BATCH, {"messages": [{}] * 25})

    found: list[int] = []
    query = {"limit": "10"}
    while (page := await bob.request("GET", with_query(PLACE, query))).json:
        found += [one["seq"] for one in page.json]
        query["since"] = page.headers["x-next-cursor"]

    assert found == list(range(1, 26))
    assert "x-next-cursor" not in page.headers


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "1.5", "nan", "inf", "1_0", " 5", "1e3.", "9" * 400])
@with_server
async def test_a_page_has_between_one_and_a_thousand_messages(server: LiveServer, limit: str) -> None:
    bob = await server.client("bob")

    assert (await bob.get(PLACE, limit=limit)).status == 422
    assert (await bob.get(PLACE, limit=1)).status == (await bob.get(PLACE, limit=1000)).status == 200


@pytest.mark.both_stores
@pytest.mark.parametrize("since", ["x", "msg_none", "' OR 1=1 --", "-1", "../x", "9" * 400, "1;DROP TABLE post"])
@with_server
async def test_a_cursor_of_nowhere_is_refused(server: LiveServer, since: str) -> None:
    bob = await server.client("bob")
    await bob.post(PLACE, {})

    refused = await bob.get(PLACE, since=since)

    assert (refused.status, refused.code) == (400, "bad_cursor")
    assert await listed(bob) == [1]


@pytest.mark.parametrize(
    "query", ["to=a%20b", "wait=61", "wait=-1", "wait=x", "on_evicted=maybe", "since=%ff", "since=%00"]
)
@with_server
async def test_a_query_that_cannot_be_meant_is_refused(server: LiveServer, query: str) -> None:
    bob = await server.client("bob")

    assert (await bob.request("GET", f"{PLACE}?{query}")).status == 422


@pytest.mark.both_stores
@with_server
async def test_an_evicted_cursor_is_never_a_silent_jump(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(max_messages=3))
    bob, place = await server.client("bob"), "/channels/chan_2/messages"
    ids = [(await bob.post(place, {})).json["id"] for _ in range(6)]

    page = await bob.get(place, since=ids[0])
    strict = await bob.get(place, since=ids[0], on_evicted="error")

    assert ([one["seq"] for one in page.json], page.headers["x-cursor-evicted"]) == ([4, 5, 6], "oldest=4")
    assert (strict.status, strict.code, strict.json["oldest"]) == (410, "cursor_evicted", 4)
    assert (await bob.get(f"{place}/{ids[0]}")).status == 404
    assert (await bob.get("/channels/chan_2")).json["message_count"] == 6


@with_server
async def test_a_list_that_waits_is_answered_by_the_next_message(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    waiting = asyncio.create_task(bob.get(PLACE, since=0, wait=20))
    await soon(lambda: bool(server.rig.team.tail._listeners))

    await alice.post(PLACE, {"payload": {"n": 1}})

    assert [one["seq"] for one in (await waiting).json] == [1]
    assert (await bob.get(PLACE, since=1, wait=0.01)).json == []


@pytest.mark.both_stores
@with_server
async def test_what_has_expired_is_not_listed_and_says_so_by_its_id(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, expires_at=in_future(server, seconds=5))

    server.rig.clock.pass_by(seconds=5)

    assert await listed(bob) == []
    assert (await bob.get(f"{PLACE}/{asked}")).json["status"] == "expired"
    refused = await bob.post(f"{PLACE}/{asked}/reply", {})
    assert (refused.status, refused.code) == (409, "message_expired")


# ---------------------------------------------------------------- answers


@with_server
async def test_a_reply_is_addressed_by_its_request(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice)

    reply = await bob.post(f"{PLACE}/{asked}/reply", {"payload": {"answer": "v2"}})

    assert reply.status == 201
    assert {name: reply.json[name] for name in ("sender", "to", "message_type", "correlation_id")} == {
        "sender": "bob",
        "to": "alice",
        "message_type": "response",
        "correlation_id": asked,
    }


@with_server
async def test_a_reply_by_or_to_the_wrong_one_is_refused(server: LiveServer) -> None:
    await server.rig.channel("chan_2")
    alice, bob, carol = await server.client("alice"), await server.client("bob"), await server.client("carol")
    asked = await request(alice)
    told = (await alice.post(PLACE, {"to": "bob"})).json["id"]
    elsewhere = await alice.post("/channels/chan_2/messages", {"message_type": "request", "to": "bob"})

    def answers(client: Client, to: str) -> Awaitable[Answer]:
        return client.post(PLACE, {"message_type": "response", "correlation_id": to})

    for answer, status, code in (
        (await carol.post(f"{PLACE}/{asked}/reply", {}), 403, "not_addressee"),
        (await answers(carol, asked), 403, "not_addressee"),
        (await bob.post(f"{PLACE}/{told}/reply", {}), 409, "not_a_request"),
        (await bob.post(f"{PLACE}/msg_none/reply", {}), 404, "not_found"),
        (await answers(bob, elsewhere.json["id"]), 422, "bad_correlation"),
        (await answers(bob, "msg_none"), 422, "bad_correlation"),
    ):
        assert (answer.status, answer.code) == (status, code)
    assert (await answers(bob, asked)).status == 201


# ---------------------------------------------------------------- ask


async def asking(server: LiveServer, verb: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
    """An ask that waits."""
    before = len(server.rig.team.waits._by_request)
    task = asyncio.create_task(verb)
    await soon(lambda: task.done() or len(server.rig.team.waits._by_request) > before)
    return task


async def last_id(client: Client) -> str:
    """The request that was just asked; the one who waits is known a moment before it is there."""
    said: list[dict[str, Any]] = []

    async def there() -> bool:
        said[:] = (await client.get(PLACE, since=0)).json
        return bool(said) and said[-1]["message_type"] == "request"

    await soon(there)
    return str(said[-1]["id"])


@with_server
async def test_an_ask_is_answered_with_the_first_response(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    for verb in (
        alice.post(ASK, {"to": "bob", "payload": {"q": 1}, "timeout": 20}),
        alice.post(f"{PLACE}?wait=20", {"message_type": "request", "to": "bob", "payload": {"q": 1}}),
    ):
        ask = await asking(server, verb)
        asked = await last_id(bob)
        replied = await bob.post(f"{PLACE}/{asked}/reply", {"payload": {"a": 1}})
        answer = await ask
        assert (answer.status, answer.json) == (200, replied.json)
        assert answer.json["correlation_id"] == asked


@with_server
async def test_an_ask_that_nobody_answers_says_so_and_names_its_request(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    gave_up = await alice.post(ASK, {"to": "bob", "payload": {}, "timeout": 0.01})

    assert (gave_up.status, gave_up.code) == (504, "ask_timeout")
    assert gave_up.json["request_id"] == await last_id(bob)


@pytest.mark.parametrize("seconds", [0, -1, 3600.5, "x", None])
@with_server
async def test_an_ask_waits_at_most_an_hour(server: LiveServer, seconds: object) -> None:
    alice = await server.client("alice")

    assert (await alice.post(ASK, {"to": "bob", "payload": {}, "timeout": seconds})).status == 422
    assert (await alice.post(f"{PLACE}?wait=3601", {"message_type": "request", "to": "bob"})).status == 422
    assert (await alice.post(f"{PLACE}?wait=1", {"to": "bob"})).status == 422
    assert await listed(alice) == []


@with_server
async def test_agents_that_would_wait_for_each_other_are_refused_and_named(server: LiveServer) -> None:
    clients = {name: await server.client(name) for name in ("alice", "bob", "release-bot")}

    def asks(sender: str, to: str) -> Coroutine[Any, Any, Answer]:
        return clients[sender].post(ASK, {"to": to, "payload": {}, "timeout": 20})

    first = await asking(server, asks("alice", "bob"))
    refused = await asks("bob", "alice")
    second = await asking(server, asks("bob", "release-bot"))
    misread = await asks("release-bot", "alice")

    assert (refused.status, refused.code) == (409, "circular_wait")
    assert refused.json["agents"] == ["bob", "alice", "bob"]
    assert (misread.status, misread.code) == (409, "circular_wait")
    assert b"lease" not in misread.body

    async def both_are_said() -> bool:  # who waits is known a moment before it is written down
        return (await server.rig.store.tally(DEFAULT_TENANT, CHANNEL)).total == 2

    await soon(both_are_said)
    for task in (first, second):
        task.cancel()


@with_server
async def test_an_ask_in_a_channel_that_is_closed_meanwhile_ends(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("alice")
    await server.rig.agent("bob")
    ask = await asking(server, alice.post(ASK, {"to": "bob", "payload": {}, "timeout": 20}))
    await last_id(await server.client("bob"))

    await bob.patch(f"/channels/{CHANNEL}", {"status": "closed"})

    ended = await ask
    assert (ended.status, ended.code) == (409, "message_expired")


@with_server
async def test_who_goes_away_while_it_asks_waits_no_more(server: LiveServer) -> None:
    alice = await server.client("alice")
    ask = await asking(server, alice.post(ASK, {"to": "bob", "payload": {}, "timeout": 20}))

    ask.cancel()
    await alice.close()

    await soon(lambda: not server.rig.team.waits._by_request)


@with_server
async def test_the_sdks_way_of_asking_gets_its_answer_with_the_list(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HOLD_SECONDS", 600.0)  # it comes with the answer, or this test never ends
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice)
    polling = asyncio.create_task(alice.get(PLACE))
    await soon(lambda: bool(server.rig.team.tail._listeners))

    await bob.post(f"{PLACE}/{asked}/reply", {"payload": {"a": 1}})

    answer = (await polling).json
    assert [(one["message_type"], one["correlation_id"]) for one in answer] == [("request", None), ("response", asked)]


# ---------------------------------------------------------------- receipts


@with_server
async def test_each_reader_has_its_own_status(server: LiveServer) -> None:
    alice, bob, carol = await server.client("alice"), await server.client("bob"), await server.client("carol")
    sent = (await alice.post(PLACE, {})).json["id"]

    marked = await bob.patch(f"{PLACE}/{sent}", {"status": "read"})

    assert (marked.status, marked.json["status"], marked.json["read_at"]) == (200, "read", server.rig.at())
    assert (await bob.get(PLACE)).json[0]["status"] == "read"
    assert (await carol.get(PLACE)).json[0]["status"] == "delivered"


@pytest.mark.parametrize("field", ["payload", "sender", "seq", "to", "id", "created_at", "expires_at", "metadata"])
@with_server
async def test_a_message_never_changes(server: LiveServer, field: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    sent = await alice.post(PLACE, {"to": "bob", "payload": {"n": 1}})
    place = f"{PLACE}/{sent.json['id']}"

    refused = await bob.patch(place, {"status": "read", field: sent.json[field]})

    assert (refused.status, refused.code) == (422, "immutable_field")
    assert (await bob.get(place)).json == sent.json


@pytest.mark.parametrize(
    "body", [{}, {"status": "delivered"}, {"status": None}, [], "read", {"status": "read", "x": 1}]
)
@with_server
async def test_a_message_becomes_nothing_but_read(server: LiveServer, body: object) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    sent = (await alice.post(PLACE, {"to": "bob"})).json["id"]

    assert (await bob.patch(f"{PLACE}/{sent}", body)).status == 422
    assert (await bob.get(f"{PLACE}/{sent}")).json["status"] == "delivered"


@with_server
async def test_only_who_a_message_was_for_marks_it_as_read(server: LiveServer) -> None:
    alice = await server.client("alice")
    sent = (await alice.post(PLACE, {"to": "bob"})).json["id"]

    refused = await alice.patch(f"{PLACE}/{sent}", {"status": "read"})

    assert (refused.status, refused.code) == (403, "not_addressee")


@pytest.mark.parametrize("query", ["", "q=", "q=" + "x" * 201, "q=x&limit=0"])
@with_server
async def test_a_search_needs_a_text(server: LiveServer, query: str) -> None:
    alice = await server.client("alice")

    assert (await alice.request("GET", f"/messages/search?{query}")).status == 422


@with_server
async def test_messages_are_read_backwards_from_the_newest_or_from_one(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    path = f"/channels/{CHANNEL}/messages"
    ids = [(await alice.post(path, {"payload": {"n": n}})).json["id"] for n in range(5)]
    await alice.post(path, {"to": "carol", "payload": {"text": "not for bob"}})

    first = await bob.get(path, order="desc", limit=2)
    rest = await bob.get(path, before=first.headers["x-next-cursor"])
    by_number = await bob.get(path, before=3, limit=1)

    assert [one["id"] for one in (*first.json, *rest.json)] == ids[::-1]
    assert [one["seq"] for one in by_number.json] == [2]
    assert (await bob.get(path, before=ids[0])).json == []
    for query in ({"before": ids[1], "since": ids[0]}, {"order": "desc", "wait": 1}, {"before": 2, "order": "asc"}):
        assert (await bob.get(path, **query)).status == 422
    assert (await bob.get(path, before="msg_nothing")).code == "bad_cursor"
    assert (await bob.get(path, before="2026-03-13T14:30:00Z")).code == "bad_cursor"
