"""One stream of several topics, which resumes in both logs and shows what its caller may see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parley.domain.agents.agent import AgentRecord
from parley.domain.errors.errors import Invalid
from parley.surfaces.http.routes.live import cursor_of, topics_of
from tests.conformance.ocip.governed import (
    admin_of,
    decide,
    held,
    pair,
    person,
    place,
    put_policy,
    said,
    shown,
)
from tests.rigs.team import CHANNEL, INTENT, Client, Events, LiveServer, Sent, with_server

pytestmark = pytest.mark.both_stores


def live(client: Client, *topics: str, after: str = "") -> Any:  # noqa: ANN401  # a context of `Events`
    cursor = f"&last_event_id={after}" if after else ""
    return client.events(f"/api/v1/live?topics={','.join(topics)}{cursor}")


async def until(events: Events, name: str) -> Sent:
    """The next event of this name."""
    while (sent := await events.next()).event != name:
        pass
    return sent


@with_server
async def test_an_approval_comes_as_a_summary_when_it_is_held_and_when_it_is_decided(server: LiveServer) -> None:
    alice, _ = await pair(server)
    ann = await person(server, "ann")
    async with live(ann, "approvals") as events:
        waits = await held(alice, "bob", "We promise it.")
        first = await until(events, "approval")
        await decide(ann, waits, "approve")
        while (last := await until(events, "approval")).json["status"] == "pending":
            pass

    assert (first.json["id"], first.json["status"], first.json["summary"]) == (
        waits["approval"],
        "pending",
        "We promise it.",
    )
    assert "payload" not in first.json
    assert first.json["decisions"] == ["approve", "reject", "answer"]
    assert (last.json["status"], last.json["decisions"]) == ("approved", [])


@with_server
async def test_one_who_decides_for_others_is_told_and_nobody_else(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "enabled: true\napprovers: [dee]")
    dee, eve = await person(server, "dee"), await person(server, "eve")
    async with live(dee, "approvals", "audit") as told, live(eve, "approvals", "exchanges", "audit") as untold:
        waits = await held(alice, "bob")

        assert (await until(told, "approval")).json["id"] == waits["approval"]
        assert await untold.silence()


@with_server
async def test_exchanges_messages_and_entries_come_on_one_stream(server: LiveServer) -> None:
    alice, _ = await pair(server)
    topics = ("exchanges", "audit", f"channel:{CHANNEL}", f"intent:{INTENT}")
    async with live(alice, *topics) as events:
        message = await said(alice, "bob", "How is it?")
        seen = [await events.next() for _ in range(3)]

    by_name = {sent.event: sent.json for sent in seen}
    assert by_name["channel_message"]["id"] == message["id"]
    assert by_name["exchange"]["exchangeId"] == message["metadata"]["ocip_ext"]["exchange_id"]
    assert (by_name["audit"]["side"], by_name["audit"]["document"]["message_id"]) == ("alice", message["id"])


@with_server
async def test_a_stream_that_broke_resumes_in_both_logs_without_gap_or_repeat(server: LiveServer) -> None:
    alice, bob = await pair(server)
    path = f"/channels/{CHANNEL}/messages"
    ids = [(await alice.post(path, {"payload": {"n": n}})).json["id"] for n in range(5)]
    topics = (f"channel:{CHANNEL}", "audit")
    async with live(bob, *topics, after="0.0") as events:
        first = [await events.next() for _ in range(2)]
    async with live(bob, *topics, after=first[-1].id) as events:
        rest = [await events.next() for _ in range(3)]
        await said(alice, "bob", "one under the rules")
        new = [await events.next() for _ in range(2)]
    async with live(bob, *topics, after=new[-1].id) as events:
        assert await events.silence()

    assert [sent.json["id"] for sent in (*first, *rest)] == ids
    assert [sent.event for sent in new] == ["channel_message", "audit"]


@with_server
async def test_what_a_caller_may_not_see_does_not_come(server: LiveServer) -> None:
    alice = await server.client("alice")
    carol = await server.client("carol")
    async with live(carol, f"channel:{CHANNEL}") as events:
        await alice.post(f"/channels/{CHANNEL}/messages", {"to": "bob", "payload": {"text": "for bob"}})
        await alice.post(f"/channels/{CHANNEL}/messages", {"to": "carol", "payload": {"text": "for carol"}})

        assert (await events.next()).json["payload"] == {"text": "for carol"}
    stranger = await server.client("zed", tenant="globex")
    for topics in ((f"channel:{CHANNEL}",), (f"intent:{INTENT}",), ("audit", f"channel:{CHANNEL}")):
        async with live(stranger, *topics) as none:
            assert none.status == 404
    async with live(
        await server.client("alice", tenant="globex"), "audit", "approvals", "exchanges", "agents"
    ) as quiet:
        await alice.post(f"/channels/{CHANNEL}/messages", {"payload": {}})
        assert await quiet.silence()


@with_server
async def test_agents_and_suspensions_come_as_they_change(server: LiveServer) -> None:
    await place(server, "bob", user_id="ben")
    admin = await admin_of(server)
    async with live(admin, "agents", "suspensions") as events:
        await (await server.client("bob")).post("/agents/bob/heartbeat", {})
        heard = await until(events, "agent")
        await admin.post("/suspensions", {"what": "agent", "name": "bob", "reason": "a test"})
        stopped = await until(events, "suspensions")
        await admin.delete("/suspensions?what=agent&name=bob")
        lifted = await until(events, "suspensions")

    assert (heard.json["agent_id"], heard.json["last_heartbeat_at"] is not None) == ("bob", True)
    assert [one["name"] for one in stopped.json] == ["bob"]
    assert lifted.json == []


@with_server
async def test_a_key_that_is_revoked_ends_the_stream(server: LiveServer) -> None:
    await pair(server)
    ann, admin = await person(server, "ann"), await admin_of(server)
    async with live(ann, "approvals") as events:
        await admin.delete("/keys/key_default_human_ann")

        assert (await events.next()).event == "revoked"
        with pytest.raises(EOFError):
            await events.next()


@with_server
async def test_a_person_in_a_seat_follows_until_the_agent_acts_for_somebody_else(server: LiveServer) -> None:
    await place(server, "bob", user_id="ben", org_unit="default")
    ben, alice = await person(server, "ben"), await server.client("alice")
    async with ben.events(f"/api/v1/live?topics=channel:{CHANNEL}&seat=bob") as events:
        await alice.post(f"/channels/{CHANNEL}/messages", {"to": "bob", "payload": {"text": "one"}})
        assert (await events.next()).json["payload"] == {"text": "one"}
        record = await server.rig.team.store.get(AgentRecord, "default", "bob")
        assert record is not None
        await server.rig.put(replace(record, attributes=replace(record.attributes, user_id="ann")))
        await alice.post(f"/channels/{CHANNEL}/messages", {"to": "bob", "payload": {"text": "two"}})

        assert (await events.next()).event == "revoked"


WRONG = ("", ",", "weather", "channel:", "Approvals", "stop", ",".join([f"channel:{n}" for n in range(21)]))


@pytest.mark.parametrize("topics", WRONG)
def test_a_wrong_list_of_topics_is_refused(topics: str) -> None:
    with pytest.raises(Invalid):
        topics_of(topics)


@pytest.mark.parametrize("text", ["7", "7.", ".7", "-1.0", "1.2.3", "1.x", "9" * 16 + ".0"])
def test_a_cursor_that_is_none_of_ours_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        cursor_of(text)


@with_server
async def test_a_stream_says_where_it_begins(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await said(alice, "bob")
    size = len((await shown(await admin_of(server), "/audit"))["entries"])
    async with live(alice, "audit", after=f"0.{size + 100}") as events:
        assert events.status == 200
        assert await events.silence()
