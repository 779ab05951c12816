"""The event log over HTTP, as the OpenIntent SDK calls it."""

from __future__ import annotations

import hashlib
import json

import pytest
import rfc8785

from parley.domain.channel.channel import Options
from parley.domain.channel.event import RESERVED
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from tests.rigs.behind_the_server import change
from tests.rigs.team import INTENT, LiveServer, with_server

pytestmark = pytest.mark.both_stores

EVENTS = f"/intents/{INTENT}/events"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@with_server
async def test_an_event_is_written_and_shown_at_its_place(server: LiveServer) -> None:
    alice = await server.client("alice")
    body = {"event_type": "comment", "actor": "alice", "payload": {"n": 1}, "trace_id": TRACE, "parent_event_id": "evt"}

    made = await alice.post(EVENTS, body)
    shown = await alice.get(f"{EVENTS}/{made.json['id']}")

    assert made.status == 201
    assert made.json.items() >= {**body, "intent_id": INTENT, "sequence": 1, "previous_event_hash": None}.items()
    assert shown.json == made.json


@with_server
async def test_anyone_can_check_the_hash_of_an_event(server: LiveServer) -> None:
    alice = await server.client("alice")

    event = (await alice.post(EVENTS, {"event_type": "comment", "payload": {"ü": 1.0, "a": [2**60]}})).json

    import base64

    stated = event.pop("event_hash")
    event["payload"]["a"] = [float(2**60)]
    digest = hashlib.sha256(rfc8785.dumps(event)).digest()
    assert stated == "sha256:" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@with_server
async def test_the_actor_is_who_the_key_says(server: LiveServer) -> None:
    bob = await server.client("bob")
    fleet = await server.client(kind=KeyKind.SERVICE, speaks_as="carol")

    refused = await bob.post(EVENTS, {"event_type": "comment", "actor": "alice"})
    made = await fleet.post(EVENTS, {"event_type": "comment"})

    assert (refused.status, refused.code) == (403, "sender_mismatch")
    assert made.json["actor"] == "carol"


@with_server
@pytest.mark.parametrize("event_type", sorted(RESERVED))
async def test_what_the_server_says_itself_nobody_else_can_say(server: LiveServer, event_type: str) -> None:
    alice = await server.client("alice")

    answer = await alice.post(EVENTS, {"event_type": event_type, "payload": {}})

    assert (answer.status, answer.json["errors"][0]["code"]) == (422, "reserved")
    assert (await alice.get(EVENTS)).json == []


@with_server
async def test_the_log_is_listed_in_its_order(server: LiveServer) -> None:
    alice = await server.client("alice")
    for number in range(5):
        await alice.post(EVENTS, {"event_type": "comment" if number % 2 else "decision_recorded", "payload": {}})

    last = await alice.get(EVENTS, limit=2)
    first = await alice.get(EVENTS, limit=2, after=0)
    following = await alice.get(EVENTS, limit=2, after=first.headers["x-next-cursor"])
    comments = await alice.get(EVENTS, event_type="comment")

    assert [one["sequence"] for one in last.json] == [4, 5]
    assert [one["sequence"] for one in first.json] == [1, 2]
    assert [one["sequence"] for one in following.json] == [3, 4]
    assert [one["sequence"] for one in comments.json] == [2, 4]


@with_server
@pytest.mark.parametrize("offset", ["+00:00", "Z", ""])
async def test_the_log_is_listed_from_a_moment_on(server: LiveServer, offset: str) -> None:
    alice = await server.client("alice")
    await alice.post(EVENTS, {"event_type": "comment"})
    server.rig.clock.pass_by(seconds=60)
    moment = server.rig.clock.at.replace(tzinfo=None).isoformat() + offset
    await alice.post(EVENTS, {"event_type": "comment"})

    found = await alice.get(EVENTS, limit=100, since=moment)

    assert [one["sequence"] for one in found.json] == [2]


@with_server
async def test_a_moment_that_is_none_is_refused(server: LiveServer) -> None:
    alice = await server.client("alice")

    assert (await alice.get(EVENTS, since="yesterday")).status == 422


@with_server
async def test_a_trace_is_followed_over_all_intents_that_one_may_see(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await server.rig.intent("intent_2", "alice", policy=AccessPolicy.CLOSED)
    parent = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    await alice.post(EVENTS, {"event_type": "comment", "payload": {}}, parent)
    await alice.post(f"/intents/{INTENT}/state", {"patches": []}, {**parent, "If-Match": "1"})
    await alice.post("/intents/intent_2/events", {"event_type": "comment", "trace_id": TRACE})
    await alice.post(EVENTS, {"event_type": "comment", "payload": {}})

    hers = await alice.get("/events", trace_id=TRACE)
    his = await bob.get("/events", trace_id=TRACE)
    nobodys = await alice.get("/events")

    assert [one["event_type"] for one in hers.json] == ["comment", "state_patched", "comment"]
    assert {one["trace_id"] for one in hers.json} == {TRACE}
    assert [one["intent_id"] for one in his.json] == [INTENT, INTENT]
    assert nobodys.status == 422


@with_server
@pytest.mark.parametrize(
    "header", ["", "nonsense", f"00-{'0' * 32}-b7ad6b7169203331-01", f"ff-{TRACE}-b7ad6b7169203331-01"]
)
async def test_a_traceparent_that_means_nothing_is_passed_over(server: LiveServer, header: str) -> None:
    alice = await server.client("alice")

    made = await alice.post(EVENTS, {"event_type": "comment"}, {"traceparent": header})

    assert made.status == 201
    assert "trace_id" not in made.json


@with_server
async def test_a_whole_log_is_valid(server: LiveServer) -> None:
    alice = await server.client("alice")
    await alice.post(EVENTS, {"event_type": "comment"})
    await alice.post(f"/intents/{INTENT}/agents", {"agent_id": "bob"})

    verified = (await alice.get(f"{EVENTS}/verify")).json

    assert verified == {
        "intent_id": INTENT,
        "valid": True,
        "chain_valid": True,
        "event_count": 2,
        "first_sequence": 1,
        "last_sequence": 2,
        "breaks": [],
    }


@with_server
async def test_a_log_that_was_tampered_with_is_found_out(server: LiveServer) -> None:
    alice = await server.client("alice")
    for _ in range(3):
        await alice.post(EVENTS, {"event_type": "comment", "payload": {"paid": "no"}})
    document = (await server.rig.store.events("default", INTENT))[1].document.replace(b"no", b"ok")
    assert change(server.rig, "UPDATE event SET document = ? WHERE sequence = 2", document, guards=False) == 1

    verified = (await alice.get(f"{EVENTS}/verify")).json

    assert verified["valid"] is verified["chain_valid"] is False
    assert [one["sequence"] for one in verified["breaks"]] == [2]


@with_server
async def test_for_a_fleet_of_the_sdk_an_audited_message_has_the_sdks_name(server: LiveServer) -> None:
    await server.rig.channel("chan_audit", options=Options(audit=True))
    alice = await server.client("alice")
    sent = {"payload": {"event_type": "channel_message"}}
    await alice.post("/channels/chan_audit/messages", sent)
    ours = (await alice.get(EVENTS, event_type="channel.message")).json

    server.rig.team.sdk_event_names = True
    theirs = (await alice.get(EVENTS, event_type="channel_message")).json
    unreadable = await alice.post(EVENTS, {"event_type": "our.own"})

    assert [one["event_type"] for one in ours] == ["channel_message"]
    assert theirs == [{**ours[0], "event_type": "channel.message"}]
    assert theirs[0]["payload"]["payload"] == sent["payload"]
    assert (await alice.get(f"{EVENTS}/verify")).json["valid"] is True
    assert unreadable.status == 422


@with_server
async def test_an_event_of_another_intent_is_not_found_here(server: LiveServer) -> None:
    await server.rig.intent("intent_2", "alice")
    alice = await server.client("alice")
    other = (await alice.post("/intents/intent_2/events", {"event_type": "comment"})).json["id"]

    assert (await alice.get(f"{EVENTS}/{other}")).status == 404


@with_server
async def test_who_may_not_see_the_intent_sees_nothing_of_its_log(server: LiveServer) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED)
    alice, mallory = await server.client("alice"), await server.client("mallory")
    event = (await alice.post(EVENTS, {"event_type": "comment", "trace_id": TRACE})).json["id"]

    answers = [
        await mallory.post(EVENTS, {"event_type": "comment"}),
        await mallory.get(EVENTS),
        await mallory.get(f"{EVENTS}/verify"),
        await mallory.get(f"{EVENTS}/{event}"),
    ]

    assert [answer.status for answer in answers] == [404] * 4
    assert (await mallory.get("/events", trace_id=TRACE)).body == b"[]"


@with_server
async def test_every_change_of_an_intent_is_told_by_its_log(server: LiveServer) -> None:
    alice = await server.client("alice")
    intent = (await alice.post("/intents", {"title": "T", "state": {"a": 1}})).json["id"]
    patch = {"op": "set", "path": "b", "value": 2}
    await alice.post(f"/intents/{intent}/state", {"patches": [patch]}, {"If-Match": "1"})
    await alice.post(f"/intents/{intent}/agents", {"agent_id": "bob"})
    await alice.delete(f"/intents/{intent}/agents/bob")
    await alice.post(f"/intents/{intent}/status", {"status": "active", "reason": "go"}, {"If-Match": "2"})

    log = (await alice.get(f"/intents/{intent}/events")).json

    assert [(one["event_type"], json.dumps(one["payload"], sort_keys=True)) for one in log] == [
        (name, json.dumps(payload, sort_keys=True))
        for name, payload in (
            ("intent_created", {"title": "T"}),
            ("state_patched", {"patches": [patch], "version": 2, "state": {"a": 1, "b": 2}, "old_state": {"a": 1}}),
            ("agent_assigned", {"agent_id": "bob", "role": "worker"}),
            ("agent_unassigned", {"agent_id": "bob"}),
            ("status_changed", {"status": "active", "old_status": "draft", "version": 3, "reason": "go"}),
        )
    ]
    assert {one["actor"] for one in log} == {"alice"}


@with_server
async def test_an_audited_message_is_part_of_the_trace_that_it_was_sent_in(server: LiveServer) -> None:
    await server.rig.channel("chan_audit", options=Options(audit=True))
    alice = await server.client("alice")
    own = "b" * 32
    parent = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}

    await alice.post("/channels/chan_audit/messages", {"payload": {}}, parent)
    await alice.post("/channels/chan_audit/messages", {"payload": {}, "metadata": {"trace_id": own}}, parent)

    assert [one["trace_id"] for one in (await alice.get(EVENTS)).json] == [TRACE, own]
