"""Governance: what a human decides, about what exactly, and how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.directory.callers import KeyKind
from parley.domain.exchange.approval import Approval, content_digest
from tests.conformance.ocip.governed import (
    admin_of,
    audit_of,
    decide,
    envelope_of,
    exchange_of,
    ext_of,
    held,
    inbox,
    pair,
    person,
    put_policy,
    refused,
    shown,
)
from tests.rigs.team import LiveServer, with_server

pytestmark = pytest.mark.both_stores


@pytest.mark.requirement("GOV-APPROVAL-DURABLE")
@with_server
async def test_what_waits_is_there_after_a_restart_and_can_be_decided(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waiting = await held(alice, "bob", "I promise.")

    await server.restart()

    approved = await decide(await person(server, "ann"), waiting, "approve")
    assert approved.json["status"] == "approved"
    assert len(await inbox(await server.client("bob"))) == 1


@pytest.mark.requirement("GOV-APPROVAL-DIGEST")
@with_server
async def test_an_approval_is_bound_to_every_byte_that_would_be_sent(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    waiting = await held(alice, "bob", "I promise.")
    kept = await server.rig.store.get(Approval, "default", waiting["approval"])
    assert kept is not None
    assert kept.draft is not None

    assert waiting["digest"] == content_digest(kept.draft, "alice", "internal", kept.policy_version)
    others = [
        replace(kept.draft, payload='{"text":"I promise!"}'),
        replace(kept.draft, to="carol"),
        replace(kept.draft, metadata="{}"),
        replace(kept.draft, in_reply_to="msg_1"),
    ]
    assert waiting["digest"] not in {content_digest(one, "alice", "internal", kept.policy_version) for one in others}
    for digest in ("", "0" * 64, waiting["digest"].upper()):
        answer = await decide(ann, {**waiting, "digest": digest}, "approve")
        assert refused(answer) == (409, "approval_stale")
    assert await inbox(bob) == []


@pytest.mark.requirement("GOV-APPROVAL-POLICY")
@with_server
async def test_under_another_policy_the_human_has_to_look_again(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    waiting = await held(alice, "bob", "I promise.")
    label = await put_policy(server, "max_rounds: 2")

    stale = await decide(ann, waiting, "approve")

    assert refused(stale) == (409, "approval_stale")
    again = await shown(ann, f"/approvals/{waiting['approval']}")
    assert (again["digest"], again["policy_version"]) == (stale.json["digest"], label)
    assert await inbox(bob) == []
    assert (await decide(ann, again, "approve")).status == 200
    assert ext_of((await inbox(bob))[0])["policy_version"] == label


@pytest.mark.requirement("GOV-APPROVAL-ONCE")
@pytest.mark.parametrize("first", ["approve", "reject"])
@with_server
async def test_an_approval_is_used_once(server: LiveServer, first: str) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    waiting = await held(alice, "bob", "I promise.")
    await decide(ann, waiting, first)
    delivered = await inbox(bob)

    for decision in ("approve", "reject", "answer"):
        answer = await decide(ann, waiting, decision, answer="no")
        assert refused(answer) == (409, "approval_decided")

    assert await inbox(bob) == delivered
    assert len(delivered) == (1 if first == "approve" else 0)


@pytest.mark.requirement("GOV-APPROVAL-EXPIRY")
@pytest.mark.parametrize("swept", [False, True])
@with_server
async def test_who_does_not_decide_in_time_has_denied(server: LiveServer, swept: bool) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "approval_hours: 1")
    ann = await person(server, "ann")
    waiting = await held(alice, "bob", "I promise.")
    server.rig.clock.pass_by(hours=1)
    if swept:
        await sweep(server.rig.team)

    assert refused(await decide(ann, waiting, "approve")) == (409, "approval_decided")

    await sweep(server.rig.team)
    assert (await shown(ann, f"/approvals/{waiting['approval']}"))["status"] == "expired"
    assert (await exchange_of(alice, waiting))["outcome"] == "denied"
    assert await inbox(bob) == []


@pytest.mark.requirement("GOV-APPROVAL-APPROVER")
@with_server
async def test_the_human_whom_the_agent_acts_for_decides_and_no_other(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waiting = await held(alice, "bob", "I promise.")

    assert (await alice.get(f"/approvals/{waiting['approval']}")).status == 200  # whose message it is may look
    for user in ("ben", "eve"):
        assert refused(await decide(await person(server, user), waiting, "approve")) == (404, "not_found")
    assert (await decide(await person(server, "ann"), waiting, "approve")).json["decided_by"] == "ann"


@pytest.mark.requirement("GOV-APPROVAL-DELEGATE")
@with_server
async def test_a_policy_names_others_who_may_decide(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "approvers: [grace]")
    waiting = await held(alice, "bob", "I promise.")

    approved = await decide(await person(server, "grace"), waiting, "approve")

    assert (approved.status, approved.json["decided_by"]) == (200, "grace")
    assert ext_of((await inbox(bob))[0])["approval"]["by"] == "grace"


@pytest.mark.requirement("GOV-APPROVAL-NO-AGENT")
@pytest.mark.parametrize("kind", [KeyKind.AGENT, KeyKind.SERVICE, KeyKind.ADMIN])
@with_server
async def test_no_key_but_a_humans_decides(server: LiveServer, kind: KeyKind) -> None:
    alice, bob = await pair(server)
    waiting = await held(alice, "bob", "I promise.")
    caller = await server.client("alice" if kind is KeyKind.AGENT else "", kind)

    for decision in ("approve", "reject", "answer"):
        assert refused(await decide(caller, waiting, decision, answer="x")) == (403, "human_required")

    assert await inbox(bob) == []


@pytest.mark.requirement("GOV-APPROVAL-RELEASED")
@with_server
async def test_what_was_approved_goes_out_once_as_agent_assisted_and_byte_by_byte(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    waiting = await held(alice, "bob", payload={"text": "I promise.", "n": [1, {"x": None}]})
    seen = await shown(ann, f"/approvals/{waiting['approval']}")

    approved = await decide(ann, seen, "approve", note="fine with me")

    (read,) = await inbox(bob)
    assert (read["id"], read["sender"], read["payload"]) == (approved.json["message_id"], "alice", seen["payload"])
    assert envelope_of(read)["message_type"] == "agent-assisted"
    assert ext_of(read)["approval"] == {"id": waiting["approval"], "by": "ann"}
    decided = next(one for one in await audit_of(await admin_of(server)) if one["action"] == "approval_decided")
    assert (decided["actor"], decided["decision"], decided["digest"]) == ("ann", "approved", seen["digest"])
    assert decided["note"] == "fine with me"
    delivered = next(one for one in await audit_of(alice) if one.get("outcome") == "delivered")
    assert delivered["content_digest"] == decided["content_digest"]
    assert (delivered["approval"], delivered["approved_by"]) == (waiting["approval"], "ann")


@pytest.mark.requirement("GOV-APPROVAL-REJECTED")
@with_server
async def test_what_was_rejected_is_denied(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waiting = await held(alice, "bob", "I promise.")

    rejected = await decide(await person(server, "ann"), waiting, "reject", note="no")

    assert rejected.json["status"] == "rejected"
    exchange = await exchange_of(alice, waiting)
    assert (exchange["outcome"], exchange["ended_by"]) == ("denied", "ann")
    assert await inbox(bob) == []


@pytest.mark.requirement("GOV-ORDER-HELD")
@with_server
async def test_what_is_held_is_on_no_way_to_be_read_by_its_receiver(server: LiveServer) -> None:
    alice, bob = await pair(server)
    async with bob.events("/subscribe/agents/bob") as events:
        waiting = await held(alice, "bob", "I promise: a-needle.", conversation_id="a-needle-too")

        assert await events.silence(0.1)
    paths = [
        "/channels/chan_1/messages",
        "/messages/search?q=needle",
        "/exchanges",
        f"/exchanges/{waiting['exchange_id']}",
        "/approvals",
        f"/approvals/{waiting['approval']}",
        "/audit",
        "/audit/export",
        "/intents/intent_1/events",
        "/channels/chan_1",
    ]
    for client in (bob, await person(server, "ben")):
        for path in paths:
            answer = await client.get(path)
            assert b"needle" not in answer.body, path
