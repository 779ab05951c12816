"""Attacks on those who decide, on the record of what happened, and on the walls around a tenant."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.rules import PolicyUnavailable
from parley.domain.rules.ruling import Proposal, Ruling
from parley.domain.store.changes import AuditQuery
from parley.wire.proofs.audit_log import check_export
from tests.conformance.ocip.governed import (
    MESSAGES,
    Document,
    admin_of,
    audit_of,
    by_parties,
    decide,
    document,
    envelope_of,
    ext_of,
    held,
    inbox,
    pair,
    person,
    put_policy,
    reply,
    said,
    shown,
    tell,
)
from tests.rigs.behind_the_server import Guarded, change, tables
from tests.rigs.team import LiveServer, live_server, with_server
from tests.samples.audit import verify
from tests.surface.http.attack import refusal

# ---------------------------------------------------------------- to decide what is not one's own to decide


@pytest.mark.both_stores
@with_server
async def test_an_approval_is_for_what_was_shown_and_for_once(server: LiveServer) -> None:
    # A35
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    first, second = await held(alice, "bob", "I promise one."), await held(alice, "bob", "I promise two.")

    # The digest of one is no approval of another.
    assert refusal(await decide(ann, {**second, "digest": first["digest"]}, "approve")) == (409, "approval_stale")
    await put_policy(server, "max_rounds: 2")
    assert refusal(await decide(ann, first, "approve")) == (409, "approval_stale")
    again = await shown(ann, f"/approvals/{first['approval']}")
    answers = await asyncio.gather(
        *[decide(one, again, "approve") for one in [await person(server, "ann") for _ in range(8)]]
    )

    assert Counter(one.status for one in answers) == {200: 1, 409: 7}
    assert [one["payload"]["text"] for one in await inbox(bob)] == ["I promise one."]
    assert refusal(await decide(ann, again, "approve")) == (409, "approval_decided")


@with_server
async def test_only_a_person_decides_and_with_four_eyes_another_one(server: LiveServer) -> None:
    # A36
    alice, bob = await pair(server)
    ann, grace = await person(server, "ann"), await person(server, "grace")
    await put_policy(server, "self_approval: false\napprovers: [grace]")
    waiting = await held(alice, "bob", "I promise.")
    before = tables(server.rig)

    for kind in (KeyKind.AGENT, KeyKind.SERVICE, KeyKind.ADMIN):
        for agent in ("alice", "ann"):
            caller = await server.client(agent if kind is KeyKind.AGENT else "", kind, speaks_as=agent)
            assert refusal(await decide(caller, waiting, "approve")) == (403, "human_required")
    assert refusal(await decide(ann, waiting, "approve")) == (403, "self_approval")

    changed = {name for name, rows in tables(server.rig).items() if rows != before[name]}
    assert changed <= {"record"}  # the keys that were made
    assert (await decide(grace, waiting, "approve")).status == 200
    assert len(await inbox(bob)) == 1


@with_server
async def test_an_agents_key_cannot_become_a_persons(server: LiveServer) -> None:
    # A36
    alice, _ = await pair(server)
    waiting = await held(alice, "bob", "I promise.")
    ann = await person(server, "ann")

    made = await alice.post("/keys", {"kind": "human", "user_id": "ann"})
    seated = await ann.post(
        f"/approvals/{waiting['approval']}/decision", {"decision": "approve", "digest": "x"}, {"X-Agent-ID": "bob"}
    )

    assert made.status == 403
    assert refusal(seated) == (403, "sender_mismatch")


@with_server
async def test_who_floods_the_people_fills_only_its_own_queue_and_silence_is_a_no(server: LiveServer) -> None:
    # A73
    alice, bob = await pair(server)
    await put_policy(server, "open_approvals: 3\napproval_hours: 1")

    answers = [await tell(alice, "bob", f"I promise {n}.") for n in range(6)]

    assert [one.status for one in answers] == [202] * 3 + [429] * 3
    assert {refusal(one) for one in answers[3:]} == {(429, "approval_queue_full")}
    assert "retry-after" in answers[3].headers
    assert (await tell(bob, "alice", "I promise.")).status == 202
    assert (await tell(alice, "bob", "Good morning.")).status == 201
    server.rig.clock.pass_by(hours=1)
    await sweep(server.rig.team)
    ann = await person(server, "ann")
    assert {one["status"] for one in (await ann.get("/approvals")).json} == {"expired"}
    assert [one["payload"]["text"] for one in by_parties(await inbox(bob))] == ["Good morning."]
    assert (await tell(alice, "bob", "I promise again.")).status == 202


HIDDEN = {
    "zero-width": "\u200b",
    "bidi": "\u202e",
    "isolate": "\u2066",
    "tag": "\U000e0041",
    "soft-hyphen": "\u00ad",
    "filler": "\u3164",
    "variation": "\ufe0f",
}


@pytest.mark.parametrize("sign", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("place_", ["payload", "key", "metadata", "escaped"])
@with_server
async def test_nothing_is_hidden_from_who_approves(server: LiveServer, sign: str, place_: str) -> None:
    # A57
    alice, _ = await pair(server)
    text = f"I promise.{sign}And pay."
    payload: Document = {"text": text} if place_ in ("payload", "escaped") else {text: "I promise."}
    if place_ == "metadata":
        payload = {"text": "I promise."}
    metadata = {"classification": "public", **({"note": text} if place_ == "metadata" else {})}
    body = {"to": "bob", "payload": payload, "metadata": metadata}
    spelled = json.dumps(body, ensure_ascii=place_ == "escaped").encode()
    waiting = document(await alice.post(MESSAGES, spelled))

    seen = await shown(await person(server, "ann"), f"/approvals/{waiting['approval']}")

    found = [one for one in seen["hidden_characters"] if one["code_point"] == f"U+{ord(sign):04X}"]
    assert len(found) == 1
    assert found[0]["where"] == ("metadata" if place_ == "metadata" else "payload")
    if place_ != "metadata":
        assert sign not in seen["visible_text"]
        assert f"⟨U+{ord(sign):04X}⟩" in seen["visible_text"]


# ---------------------------------------------------------------- to change what happened


@with_server
async def test_who_changes_the_log_in_its_store_is_found_out_entry_by_entry(server: LiveServer) -> None:
    # A37
    alice, bob = await pair(server)
    first = await said(alice, "bob")
    await reply(bob, first)
    admin = await admin_of(server)
    assert check_export((await admin.get("/audit/export")).body.splitlines(keepends=True), verify).bad is None
    await server.stop()
    await server.rig.store.close()
    fourth = "WHERE (place & 1099511627775) = 4"
    for what, *values in (
        ("UPDATE audit SET document = ?", b"{}"),
        ("DELETE FROM audit",),
        ("UPDATE audit SET side = 'x'",),
    ):
        with pytest.raises(Guarded, match="append-only"):
            change(server.rig, f"{what} {fourth}", *values)
    # Whoever owns the store takes its guards away.
    await server.rig.reopen()
    document = (await server.rig.store.audits("default", AuditQuery(after=3, limit=1)))[0].document
    forged = document.replace(b"delivered", b"denied")
    assert change(server.rig, f"UPDATE audit SET document = ? {fourth}", forged, guards=False) == 1
    async with live_server(server.rig) as again:
        lines = (await (await admin_of(again)).get("/audit/export")).body.splitlines(keepends=True)

    report = check_export(lines, verify)

    assert report.bad is not None
    assert (report.bad.number, report.bad.side) == (4, "bob")


@with_server
async def test_every_entry_has_somebody_who_did_it(server: LiveServer) -> None:
    # A42
    alice, bob = await pair(server)
    ann, admin = await person(server, "ann"), await admin_of(server)
    fleet = await server.client(kind=KeyKind.SERVICE, speaks_as="alice")
    first = await said(alice, "bob")
    await tell(fleet, "bob")
    await tell(alice, "bob@elsewhere")
    await tell(alice, "bob", classification="restricted")
    await decide(ann, await held(alice, "bob", "I promise."), "approve")
    await decide(ann, await held(alice, "bob", "I promise."), "reject")
    await put_policy(server, "max_rounds: 2")
    await admin.post("/suspensions", {"what": "agent", "name": "carol"})
    await admin.request("DELETE", "/suspensions?what=agent&name=carol")
    await alice.post(f"/exchanges/{ext_of(first)['exchange_id']}/close")
    await admin.post("/audit/erasures", {"agent_id": "bob"})
    await held(bob, "alice", "I promise.")
    server.rig.clock.pass_by(hours=25)
    await sweep(server.rig.team)

    entries = await audit_of(admin)

    assert len({one["action"] for one in entries}) >= 7
    assert [one for one in entries if not one["actor"]] == []
    # Two who share the name of an agent are told apart by their keys.
    keys = {one["key"] for one in entries if one.get("role") == "sender" and one["side"] == "alice"}
    assert keys >= {"key_default_agent_alice", "key_default_service_nobody"}
    assert {one["actor"] for one in entries if one["action"] == "approval_decided"} == {"ann", "system"}
    ruled = [one for one in entries if one["action"] in ("policy_changed", "suspended", "suspension_lifted")]
    assert {one["actor"] for one in ruled} == {"admin:key_default_admin_nobody"}


# ---------------------------------------------------------------- to go where nobody goes


@with_server
async def test_no_way_leads_into_another_tenant(server: LiveServer) -> None:
    # A84
    rig = server.rig
    alice, _ = await pair(server)
    await rig.tenant("globex-inc")
    await rig.agent("zoe", tenant="globex-inc")
    await rig.role("crew", "zoe", tenant="globex-inc")
    await rig.intent("intent_g", tenant="globex-inc", created_by="zoe")
    await rig.channel("chan_g", "zoe", intent_id="intent_g", tenant="globex-inc", created_by="zoe")
    await put_policy(server, "cross_org: true\napplies_to: annotated")
    await put_policy(server, "cross_org: true", tenant="globex-inc")
    admin, foreign = await admin_of(server), await server.client("zoe", tenant="globex-inc")
    blocked = (403, "cross_enterprise_blocked")
    before = tables(rig)

    for caller in (alice, admin, await person(server, "ann")):
        for to in ("zoe@globex-inc", "role:crew@globex-inc", "*@globex-inc", "nobody@globex-inc", "zoe@nowhere"):
            for path in (MESSAGES, "/intents/intent_1/channels/new/messages"):
                assert refusal(await caller.post(path, {"sender": "alice", "to": to, "payload": {}})) == blocked
        assert refusal(await caller.post("/channels/chan_g/messages", {"sender": "alice", "payload": {}})) == (
            404,
            "not_found",
        )
    registered = await admin.post("/agents/register", {"agent_id": "alice", "tenant_id": "globex-inc"})
    assert refusal(registered) == blocked
    hooked = await alice.post("/subscriptions", {"intent_id": "intent_g", "webhook_url": "https://example.com/hook"})
    assert hooked.status in (404, 422)
    # Where nothing is, the answer is the same to the last byte.
    there, nowhere = await tell(alice, "zoe@globex-inc"), await tell(alice, "zoe@nowhere")
    assert (there.status, there.body) == (nowhere.status, nowhere.body)

    assert await inbox(foreign, "/channels/chan_g/messages") == []
    changed = {name for name, rows in tables(rig).items() if rows != before[name]}
    assert changed <= {"audit", "tenant", "record"}  # its own tenant's log, and the key that was made
    assert await rig.store.audit_size("globex-inc") == 1  # its own policy


class Broken:
    """Rules of an organisation that fail."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        raise self.error


@with_server
async def test_what_cannot_be_judged_is_not_delivered(server: LiveServer) -> None:
    # A85
    alice, bob = await pair(server)
    first = await said(alice, "bob", "first")
    unavailable = (503, "policy_unavailable")

    server.rig.team.governance.extension = Broken(PolicyUnavailable("the rules cannot be asked"))
    down = await tell(alice, "bob", conversation_id=envelope_of(first)["conversation_id"])
    server.rig.team.governance.extension = None
    await (await admin_of(server)).delete("/policies/enterprise/default")
    missing = await tell(alice, "bob")
    assert [(one.status, one.code) for one in (down, missing)] == [unavailable] * 2
    await put_policy(server, "enabled: true")
    unknown = await tell(alice, "bob", classification="cosmic")
    assert refusal(unknown) == (422, "envelope_invalid")
    data = [{"source": "x", "fields": ["text"], "classification": "cosmic"}]
    assert refusal(await tell(alice, "bob", data=data)) == (403, "classification_exceeded")

    assert [one["payload"]["text"] for one in await inbox(bob)] == ["first"]
    codes = [one.get("code") for one in await audit_of(alice, action="agent_exchange")]
    assert codes == [None, "policy_unavailable", "policy_unavailable", "envelope_invalid", "classification_exceeded"]
    assert envelope_of(document(await reply(bob, first)))["exchange_round"] == 2
