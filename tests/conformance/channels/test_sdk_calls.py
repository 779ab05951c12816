"""What the OpenIntent SDK relies on beyond the text: paths, errors, times, streams, the list that is held for ask()."""

from __future__ import annotations

import asyncio
import re

import pytest

from parley.app.team.channels import reading, streams
from parley.surfaces.http import api
from tests.conformance.channels.talk import CHANNELS, MESSAGES, created, heard, reply, request, send
from tests.rigs.team import CHANNEL, INTENT, Answer, LiveServer, with_server

MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3}|\.[0-9]{6})?\+00:00")


def times_in(document: object) -> list[str]:
    if isinstance(document, dict):
        own = [value for name, value in document.items() if name.endswith("_at") and value is not None]
        return own + [time for value in document.values() for time in times_in(value)]
    return [time for value in document for time in times_in(value)] if isinstance(document, list) else []


@pytest.mark.requirement("CHAN-SDK-BASE")
@pytest.mark.parametrize("base", ["/api/v1", "/v1"])
@with_server
async def test_everything_is_served_below_both_bases(server: LiveServer, base: str) -> None:
    alice = await server.client("alice")

    paths = ("/intents", f"/intents/{INTENT}", CHANNELS, f"/channels/{CHANNEL}", MESSAGES, "/agents", "/subscriptions")

    assert [(await alice.get(base + path)).status for path in paths] == [200] * len(paths)
    async with alice.events(f"{base}/intents/{INTENT}/subscribe") as events:
        assert events.status == 200


@pytest.mark.requirement("CHAN-SDK-HEADERS")
@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "wrong"}, {"X-API-Key": ""}])
@with_server
async def test_without_a_valid_key_nothing_is_answered(server: LiveServer, headers: dict[str, str]) -> None:
    nobody = server.with_key("")

    answer = await nobody.get(MESSAGES, headers=headers)

    assert (answer.status, answer.code) == (401, "unauthorized")


@pytest.mark.requirement("CHAN-SDK-ERRORS")
@with_server
async def test_every_refusal_is_json_with_the_fields_that_are_read(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    refusals: dict[int, Answer] = {
        400: await alice.get(MESSAGES, since="nonsense"),
        401: await server.with_key("wrong").get(MESSAGES),
        403: await bob.delete("/channels/chan_1"),
        404: await alice.get("/channels/none"),
        405: await alice.request("PUT", MESSAGES, {}),
        409: await alice.post(f"/intents/{INTENT}/state", {"patches": []}, {"If-Match": "9"}),
        415: await alice.request("POST", MESSAGES, b"x", {"Content-Type": "text/plain"}),
        422: await alice.post(MESSAGES, {"payload": 1}),
        428: await alice.post(f"/intents/{INTENT}/state", {"patches": []}),
    }

    for status, answer in refusals.items():
        assert answer.status == status
        assert answer.headers["content-type"] == "application/problem+json"
        found = answer.json
        assert {"detail", "message", "code", "errors"} <= set(found)
        assert found["message"] == found["detail"] != ""
        assert isinstance(found["errors"], list)
    assert refusals[409].json["current_version"] == 1
    assert refusals[422].json["errors"][0]["field"] == "payload"


@pytest.mark.requirement("CHAN-SDK-LETTERS")
@with_server
async def test_no_conflict_has_the_letters_that_mean_another_error(server: LiveServer) -> None:
    alice = await server.client("alice")
    word = "rel" + "eases"
    await created(alice, word)
    said = await send(alice)

    conflicts = [
        await alice.post(CHANNELS, {"name": word}),
        await alice.post(f"{MESSAGES}/{said['id']}/reply", {"payload": {}}),
        await alice.patch("/channels/chan_1", {"status": "closed"}),
        await alice.patch("/channels/chan_1", {"status": "open"}),
        await alice.post(MESSAGES, {"payload": {}}),
        await alice.post(f"/intents/{INTENT}/state", {"state": {}}, {"If-Match": "7"}),
    ]

    found = [one for one in conflicts if one.status == 409]
    assert len(found) == 5
    assert [one.body for one in found if b"lea" + b"se" in one.body.lower()] == []


@pytest.mark.requirement("CHAN-SDK-TIMES")
@with_server
async def test_every_time_has_its_offset_spelled_out(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    ends = "2026-03-13T15:00:00Z"
    said = await send(alice, to="bob", expires_at=ends)
    await bob.patch(f"{MESSAGES}/{said['id']}", {"status": "read"})
    await bob.post("/agents/register", {"agent_id": "bob"})
    await bob.post("/agents/bob/heartbeat", {})
    await alice.post(f"/intents/{INTENT}/events", {"event_type": "comment", "payload": {}})
    await alice.post(f"/intents/{INTENT}/agents", {"agent_id": "bob"})
    await alice.post(f"/intents/{INTENT}/acl/entries", {"principal_id": "bob", "expires_at": ends})
    await alice.post("/tasks", {"intent_id": INTENT, "name": "load"})
    await alice.patch("/channels/chan_1", {"status": "closed"})

    paths = (
        "/intents",
        CHANNELS,
        MESSAGES,
        f"/intents/{INTENT}/events",
        f"/intents/{INTENT}/agents",
        f"/intents/{INTENT}/acl",
        f"/intents/{INTENT}/tasks",
        "/agents",
    )
    for path in paths:
        times = times_in((await bob.get(path)).json)
        assert times, path
        assert [one for one in times if not MOMENT.fullmatch(one)] == [], path


@pytest.mark.requirement("CHAN-SDK-DISCOVERY")
@with_server
async def test_the_server_describes_itself_to_anybody(server: LiveServer) -> None:
    nobody = server.with_key("")

    answer = await nobody.get("/.well-known/openintent.json")

    assert answer.status == 200
    assert {"protocol", "version", "rfcUrls", "capabilities", "openApiUrl"} <= set(answer.json)
    assert {"channels", "messaging"} <= set(answer.json["capabilities"])
    assert (await nobody.get(answer.json["openApiUrl"])).status == 200


@pytest.mark.requirement("CHAN-SDK-INTENTS")
@with_server
async def test_intents_are_listed_in_an_object_page_by_page(server: LiveServer) -> None:
    for number in (2, 3):
        await server.rig.intent(f"intent_{number}")
    alice = await server.client("alice")

    first = (await alice.get("/intents", limit=2, offset=0)).json
    second = (await alice.get("/intents", limit=2, offset=2)).json

    assert [one["id"] for one in first["intents"]] == ["intent_1", "intent_2"]
    assert [one["id"] for one in second["intents"]] == ["intent_3"]


@pytest.mark.requirement("CHAN-SDK-BARE-LISTS")
@with_server
async def test_lists_of_agents_channels_and_messages_are_bare(server: LiveServer) -> None:
    bob = await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob", "capabilities": []})
    await send(bob)

    for path in ("/agents", CHANNELS, MESSAGES, f"/intents/{INTENT}/tasks", f"/intents/{INTENT}/agents"):
        found = (await bob.get(path)).json
        assert isinstance(found, list), path
    assert [one["agent_id"] for one in (await bob.get("/agents")).json] == ["bob"]


# ---------------------------------------------------------------- streams


@pytest.mark.requirement("CHAN-SUB-INTENT", "CHAN-SUB-AGENT", "CHAN-SUB-CHANNEL", "CHAN-SDK-PATHS")
@pytest.mark.parametrize(
    "path",
    [
        "/agents/bob/subscribe",
        "/intents/intent_1/subscribe",
        "/channels/chan_1/subscribe",
        "/subscribe/agents/bob",
        "/subscribe/intents/intent_1",
        "/subscribe/channels/chan_1",
    ],
)
@with_server
async def test_every_stream_brings_what_is_said_to_the_agent(server: LiveServer, path: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events(path) as events:
        said = await send(alice, "for bob", to="bob")
        pushed = await events.next()

    assert events.headers["content-type"] == "text/event-stream"
    assert (pushed.event.lower(), pushed.json["id"]) == ("channel_message", said["id"])


@pytest.mark.requirement("CHAN-SUB-AGENT")
@with_server
async def test_an_agent_follows_only_its_own_stream(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
    eve = await server.client("eve")

    async with eve.events("/agents/bob/subscribe") as events:
        assert events.status == 404


@pytest.mark.requirement("CHAN-SDK-UPPER")
@pytest.mark.parametrize(
    ("path", "name"), [("/agents/bob/subscribe", "AGENT_ASSIGNED"), ("/subscribe/agents/bob", "agent_assigned")]
)
@with_server
async def test_on_the_sdks_paths_events_have_the_sdks_names(server: LiveServer, path: str, name: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events(path) as events:
        await alice.post(f"/intents/{INTENT}/agents", {"agent_id": "bob"})
        assigned = await events.next()

    assert (assigned.event, assigned.json["intent_id"]) == (name, INTENT)


@pytest.mark.requirement("CHAN-SDK-HELLO")
@with_server
async def test_a_silent_stream_says_hello_and_ping_in_comments_only(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert streams.PING_SECONDS == 15.0
    monkeypatch.setattr(streams, "PING_SECONDS", 0.01)
    bob = await server.client("bob")
    connection = await bob.connect()

    status, _ = await connection.ask("GET", "/api/v1/agents/bob/subscribe", bob.headers, b"")
    hello, ping = await connection.chunk(), await connection.chunk()

    assert status == 200
    for piece in (hello, ping):
        assert piece.startswith(b":")
        assert b"data:" not in piece
        assert b"event:" not in piece


@pytest.mark.requirement("CHAN-SDK-RESUME")
@with_server
async def test_a_stream_goes_on_after_the_last_event_without_gap_or_repeat(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with bob.events("/agents/bob/subscribe") as events:
        await send(alice, "one", to="bob")
        first = await events.next()
    for text in ("two", "three"):
        await send(alice, text, to="bob")

    async with bob.events("/agents/bob/subscribe", last_event_id=first.id) as events:
        missed = [await events.next(), await events.next()]
        await send(alice, "four", to="bob")
        fresh = await events.next()
        silent = await events.silence()

    pushed = [first, *missed, fresh]
    assert [one.json["payload"]["text"] for one in pushed] == ["one", "two", "three", "four"]
    assert [int(one.id) for one in pushed] == sorted({int(one.id) for one in pushed})
    assert silent


@pytest.mark.requirement("CHAN-SDK-DELAY")
@pytest.mark.parametrize(
    ("path", "status"),
    [("/intents/none/subscribe", 404), ("/channels/none/subscribe", 404), ("/agents/x/subscribe", 401)],
)
@with_server
async def test_a_refused_stream_is_answered_late(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0 if seconds == 1.0 else seconds)  # others in this process rest, too

    monkeypatch.setattr("parley.surfaces.http.api.asyncio.sleep", noted)
    client = server.with_key("wrong") if status == 401 else await server.client("eve")

    async with client.events(path) as events:
        assert events.status == status

    assert slept.count(1.0) == 1


# ---------------------------------------------------------------- the list that ask() polls


@pytest.mark.requirement("CHAN-SDK-HOLD")
@with_server
async def test_the_plain_list_waits_for_the_answer_to_the_callers_request(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HOLD_SECONDS", 600.0)
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")

    polling = asyncio.create_task(alice.get(MESSAGES))
    done, _ = await asyncio.wait({polling}, timeout=0.2)
    assert not done
    answer = await reply(bob, asked)
    found = (await polling).json

    assert [one["id"] for one in found] == [asked["id"], answer["id"]]


@pytest.mark.requirement("CHAN-SDK-HOLD")
@with_server
async def test_the_plain_list_waits_for_nobody_else_and_not_for_ever(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reading.HOLD_SECONDS == 2.0
    monkeypatch.setattr(reading, "HOLD_SECONDS", 600.0)
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")

    assert await heard(bob) == ["well?"]
    bobs = (await bob.get(MESSAGES)).json
    paged = (await alice.get(MESSAGES, limit=10)).json
    after = (await alice.get(MESSAGES, since=asked["id"])).json
    monkeypatch.setattr(reading, "HOLD_SECONDS", 0.05)
    in_vain = (await alice.get(MESSAGES)).json

    assert [len(one) for one in (bobs, paged, after, in_vain)] == [1, 1, 0, 1]
