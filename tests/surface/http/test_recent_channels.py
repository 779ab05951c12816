"""The list of all channels over HTTP: last active first, for every reader what it may see."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import MESSAGES, person, place
from tests.rigs.team import CHANNEL, INTENT, LiveServer, with_server

Document = dict[str, Any]


def names(channels: list[Document]) -> list[str]:
    return [channel["name"] for channel in channels]


@pytest.mark.both_stores
@with_server
async def test_the_channel_that_spoke_last_comes_first_with_its_newest_message(server: LiveServer) -> None:
    rig = server.rig
    for name in ("one", "two", "three"):
        rig.clock.pass_by(seconds=60)
        await rig.channel(f"chan_{name}", label=name, options=Options(max_messages=1000))
    alice = await server.client("alice")
    rig.clock.pass_by(seconds=60)
    said = await alice.post("/channels/chan_one/messages", {"payload": {"text": "a\u202eb"}, "to": "bob"})

    listed = (await alice.get("/channels")).json

    assert names(listed) == ["one", "three", "two", CHANNEL]
    assert listed[0]["last_message"] == {
        "id": said.json["id"],
        "channel_id": "chan_one",
        "sender": "alice",
        "to": "bob",
        "message_type": "notify",
        "created_at": said.json["created_at"],
        "summary": "a\\u202eb",
    }
    assert (listed[0]["last_message_at"], listed[1]["last_message"]) == (said.json["created_at"], None)
    assert (await alice.get(f"/channels/{listed[1]['id']}")).json == {
        name: value for name, value in listed[1].items() if name not in ("last_message", "seat")
    }


@with_server
async def test_pages_follow_each_other_without_a_gap(server: LiveServer) -> None:
    for number in range(7):
        await server.rig.channel(f"chan_c{number}", label=f"c{number}")
    alice = await server.client("alice")
    seen: list[str] = []
    cursor: str | None = ""

    while cursor is not None:
        answer = await alice.get("/channels", limit=3, before=cursor)
        seen += names(answer.json)
        cursor = answer.headers.get("x-next-cursor")

    assert (len(seen), len(set(seen))) == (8, 8)
    assert (await alice.get("/channels", before="msg_1")).status == 400
    assert (await alice.get("/channels", limit=201)).status == 422


@with_server
async def test_filters_of_the_api(server: LiveServer) -> None:
    rig = server.rig
    await rig.channel("chan_9", "bob", label="ours", policy=MemberPolicy.EXPLICIT)
    await rig.channel("chan_2", label="gone", options=Options(ttl_seconds=60))
    rig.clock.pass_by(hours=1)
    since = rig.at()
    await rig.channel("chan_3", label="late")
    alice = await server.client("alice")

    assert names((await alice.get("/channels", status="closed")).json) == ["gone"]
    assert names((await alice.get("/channels", active_since=since)).json) == ["late"]
    assert "ours" in names((await alice.get("/channels", member="bob")).json)
    assert names((await alice.get("/channels", member="nobody-else")).json) == []
    assert names((await alice.get("/channels", intent_id="intent_9")).json) == []
    assert len((await alice.get("/channels", intent_id=INTENT)).json) == 4
    for wrong in ("status=ajar", "active_since=yesterday", "member=a%20b"):
        refusal = await alice.get(f"/channels?{wrong}")
        assert (refusal.status, refusal.json["errors"][0]["field"]) == (422, wrong.partition("=")[0])


@with_server
async def test_nobody_sees_a_channel_or_a_message_that_is_not_theirs(server: LiveServer) -> None:
    rig = server.rig
    await rig.channel("chan_9", "bob", label="secret", policy=MemberPolicy.EXPLICIT)
    alice, carol = await server.client("alice"), await server.client("carol")
    rig.clock.pass_by(seconds=1)
    await alice.post(f"/channels/{CHANNEL}/messages", {"payload": {"text": "for bob"}, "to": "bob"})

    admin = await server.client("", KeyKind.ADMIN)
    assert names((await carol.get("/channels")).json) == [CHANNEL]
    assert (await carol.get("/channels")).json[0]["last_message"] is None
    assert (await alice.get("/channels")).json[0]["last_message"]["summary"] == "for bob"
    assert {*names((await admin.get("/channels")).json)} == {CHANNEL, "secret"}
    assert (await admin.get("/channels", seat="carol")).json == (await carol.get("/channels")).json


@with_server
async def test_a_person_sees_what_an_agent_of_theirs_sees(server: LiveServer) -> None:
    alice = await place(server, "alice", user_id="ann")
    await place(server, "bob", user_id="ben")
    await alice.post(MESSAGES, {"payload": {"text": "hello"}, "to": "bob"})
    human = await person(server, "ann")

    assert (await human.get("/channels", seat="alice")).json == (await alice.get("/channels")).json
    assert (await human.get("/channels", seat="bob")).status == 403
