"""The audit log over HTTP: what a key sees, what can be taken along and checked, and what is erased."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from parley.domain.audit.entry import TENANT_SIDE
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.store.changes import TeamChanges
from parley.wire.proofs.audit_log import check_export
from parley.wire.proofs.audit_proof import check_proof
from tests.conformance.ocip.governed import pair, person
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.samples.audit import a_draft, signer, verify

KEY = frozenset({signer().public_key.hex()})


async def write(server: LiveServer, *sides: str, tenant: str = DEFAULT_TENANT, **changes: Any) -> None:  # noqa: ANN401
    store = server.rig.store
    size = await store.audit_size(tenant)
    drafts = tuple(
        a_draft(size + n, side)._replace(id=f"aud_{tenant}_{size + n}", **changes) for n, side in enumerate(sides, 1)
    )
    await store.commit(TeamChanges(tenant, audits=drafts))


@with_server
async def test_a_page_has_the_documents_that_are_hashed_and_says_where_the_next_begins(server: LiveServer) -> None:
    await write(server, "alice", "bob", "alice")
    admin = await server.client(kind=KeyKind.ADMIN)

    first = (await admin.get("/audit", limit=2)).json
    second = (await admin.get("/audit", limit=2, after=first["next"])).json

    assert [one["number"] for one in first["entries"] + second["entries"]] == [1, 2, 3]
    assert (first["next"], second["next"]) == (2, None)
    entry = first["entries"][0]
    assert (entry["side"], entry["seq"], entry["id"], entry["exchange_id"]) == ("alice", 1, "aud_default_1", "ex_0")
    assert entry["document"]["outcome"] == "delivered"


@with_server
async def test_a_key_sees_what_it_may_and_other_tenants_never(server: LiveServer) -> None:
    await server.rig.tenant("acme")
    await write(server, "alice", "bob", TENANT_SIDE)
    await write(server, "alice", "eve", tenant="acme")

    async def seen(*who: Any, **query: Any) -> list[str]:  # noqa: ANN401
        client = await server.client(*who)
        return [one["id"] for one in (await client.get("/audit", **query)).json["entries"]]

    assert await seen("alice") == ["aud_default_1"]
    assert await seen("alice", side="bob") == []
    assert await seen("", KeyKind.ADMIN, side="bob") == ["aud_default_2"]
    assert await seen("", KeyKind.ADMIN, agent="bob") == ["aud_default_2"]
    assert await seen("", KeyKind.SERVICE, "acme") == ["aud_acme_1", "aud_acme_2"]
    assert await seen("eve") == []


@pytest.mark.parametrize(
    "query", [{"after": "x"}, {"after": -1}, {"limit": 0}, {"limit": 5000}, {"since": "yesterday"}, {"until": "1e9"}]
)
@with_server
async def test_what_makes_no_sense_is_refused(server: LiveServer, query: dict[str, Any]) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)

    assert (await admin.get("/audit", **query)).status == 422


@with_server
async def test_filters_are_texts_and_never_a_part_of_a_statement(server: LiveServer) -> None:
    await write(server, "alice")
    admin = await server.client(kind=KeyKind.ADMIN)
    evil = "x' OR '1'='1"

    for name in ("side", "exchange_id", "conversation_id", "action", "outcome"):
        query: dict[str, Any] = {name: evil}
        assert (await admin.get("/audit", **query)).json["entries"] == []
    assert (await admin.get("/audit", outcome="delivered", action="agent_exchange")).json["entries"] != []


@with_server
async def test_an_export_stands_for_itself(server: LiveServer) -> None:
    await write(server, *("alice", "bob") * 600)
    admin = await server.client(kind=KeyKind.ADMIN)

    answer = await admin.get("/audit/export")

    lines = answer.body.splitlines(keepends=True)
    report = check_export(lines, verify, trusted=KEY)
    assert answer.headers["content-type"] == "application/jsonl"
    assert (report.bad, report.entries, report.covered, report.hidden) == (None, 1200, 1200, 0)
    assert json.loads(lines[0])["sides"] is None


@with_server
async def test_an_export_of_an_empty_log_is_whole(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)

    report = check_export((await admin.get("/audit/export")).body.splitlines(keepends=True), verify)

    assert (report.bad, report.entries) == (None, 0)


@with_server
async def test_an_agents_export_has_the_others_only_as_hashes(server: LiveServer) -> None:
    await write(server, "alice", "bob", "carol", "alice")
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)

    own = (await alice.get("/audit/export")).body
    same = (await admin.get("/audit/export", side="alice")).body
    none = (await alice.get("/audit/export", side="bob")).body

    report = check_export(own.splitlines(keepends=True), verify, trusted=KEY)
    assert (report.bad, report.entries, report.hidden, report.sides) == (None, 4, 2, 1)
    assert own == same
    assert b"bob" not in own
    assert b"carol" not in own
    assert check_export(none.splitlines(keepends=True), verify).hidden == 4


@with_server
async def test_checkpoints_come_with_the_key_that_checks_them(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)
    assert (await admin.get("/audit/checkpoints/latest")).status == 404
    for _ in range(2):
        await write(server, "alice")
        await admin.get("/audit/export")

    listed = (await admin.get("/audit/checkpoints")).json
    later = (await admin.get("/audit/checkpoints", after=1)).json
    one = (await admin.get("/audit/checkpoints/1")).json
    latest = (await admin.get("/audit/checkpoints/latest")).json

    assert listed["public_key"] in KEY
    assert listed["key_id"] == one["key_id"]
    assert [one["size"] for one in listed["checkpoints"]] == [1, 2]
    assert [one["size"] for one in later["checkpoints"]] == [2]
    assert (one, latest) == (listed["checkpoints"][0], listed["checkpoints"][1])
    assert [(await admin.get(f"/audit/checkpoints/{name}")).status for name in ("3", "x", "0", "-1")] == [404] * 4


@with_server
async def test_an_entry_is_proved_to_those_who_may_see_it(server: LiveServer) -> None:
    await write(server, *("alice", "bob") * 10)
    alice = await server.client("alice")

    answer = await alice.get("/audit/proof/aud_default_7")

    proof, why = check_proof(answer.body, verify, KEY)
    assert (answer.status, proof.entry.number, why) == (200, 7, "")
    refusals = [await alice.get(f"/audit/proof/{name}") for name in ("aud_default_8", "8", "aud_default_99", "99")]
    assert {one.status for one in refusals} == {404}
    assert len({one.json["detail"] for one in refusals}) == 1


@with_server
async def test_only_an_admin_erases(server: LiveServer) -> None:
    await server.rig.say("alice", "a secret")
    body = {"agent_id": "alice"}

    refused = [await (await server.client("alice", kind)).post("/audit/erasures", body) for kind in list(KeyKind)[:3]]
    admin = await server.client(kind=KeyKind.ADMIN)
    done = await admin.post("/audit/erasures", body)

    assert {one.status for one in refused} == {403}
    assert (done.status, done.json["messages"]) == (201, 1)
    shown = (await admin.get(f"/channels/{CHANNEL}/messages")).json
    assert [(one["payload"], one["metadata"]["erased"]) for one in shown] == [({}, True)]
    told = (await admin.get("/audit", action="content_erased")).json["entries"]
    assert [(one["id"], one["side"]) for one in told] == [(done.json["entry_id"], TENANT_SIDE)]


@pytest.mark.parametrize("body", [{}, {"agent_id": "a", "conversation_id": "c"}, {"agent_id": ""}, {"other": "x"}])
@with_server
async def test_an_erasure_names_one_thing(server: LiveServer, body: dict[str, str]) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)

    assert (await admin.post("/audit/erasures", body)).status == 422


@pytest.mark.both_stores
@with_server
async def test_what_was_erased_does_not_come_back_from_a_stream(server: LiveServer) -> None:
    alice = await server.client("alice")
    await server.rig.say("alice", "a secret")
    async with alice.events(f"/channels/{CHANNEL}/subscribe", "0") as events:
        before = (await events.next()).json
    admin = await server.client(kind=KeyKind.ADMIN)
    await admin.post("/audit/erasures", {"agent_id": "alice"})

    async with alice.events(f"/channels/{CHANNEL}/subscribe", "0") as events:
        after = (await events.next()).json

    assert (before["payload"], after["payload"]) == ({"text": "a secret"}, {})


@with_server
async def test_a_server_with_another_key_goes_on_where_the_old_one_ended(server: LiveServer) -> None:
    await write(server, "alice")
    admin = await server.client(kind=KeyKind.ADMIN)
    await admin.get("/audit/export")

    server.rig.team.audit.signer = signer(2)
    without_news = (await admin.get("/audit/export")).body.splitlines(keepends=True)
    await write(server, "bob")
    with_news = (await admin.get("/audit/export")).body.splitlines(keepends=True)

    assert check_export(without_news, verify, trusted=KEY).bad is None
    assert len(check_export(with_news, verify).keys) == 2
    assert check_export(with_news, verify).bad is None
    assert check_export(with_news, verify, trusted=KEY).bad is not None


# ---------------------------------------------------------------- stored answers


async def erased(server: LiveServer, **which: str) -> None:
    done = await (await server.client(kind=KeyKind.ADMIN)).post("/audit/erasures", which)
    assert done.status == 201, done


@pytest.mark.requirement("GOV-ERASE-ANSWERS")
@pytest.mark.both_stores
@with_server
async def test_what_was_erased_does_not_come_back_from_a_repeated_request(server: LiveServer) -> None:
    alice, key = await server.client("alice"), {"Idempotency-Key": "k1"}
    place, batch = f"/channels/{CHANNEL}/messages", f"/channels/{CHANNEL}/batch"
    message, several = (
        {"payload": {"text": "a secret"}},
        {"messages": [{"payload": {"text": f"secret {n}"}} for n in (1, 2)]},
    )
    first = [await alice.post(place, message, key), await alice.post(batch, several, key)]
    # The answers are stored: it is not only that none is there.
    assert [one.body for one in [await alice.post(place, message, key), await alice.post(batch, several, key)]] == [
        one.body for one in first
    ]

    await erased(server, agent_id="alice")
    again = [await alice.post(place, message, key), await alice.post(batch, several, key)]

    assert [one.status for one in again] == [201, 201]
    assert again[0].json["id"] == first[0].json["id"]
    assert [one["id"] for one in again[1].json] == [one["id"] for one in first[1].json]
    assert all(b"secret" not in one.body for one in again)


@pytest.mark.both_stores
@with_server
async def test_the_answer_of_an_ask_is_erased_with_what_was_answered(server: LiveServer) -> None:
    alice, bob, key = await server.client("alice"), await server.client("bob"), {"Idempotency-Key": "k1"}
    ask, body = f"/channels/{CHANNEL}/ask", {"to": "bob", "payload": {"text": "what is it?"}, "timeout": 30}
    asking = asyncio.ensure_future(alice.post(ask, body, key))

    requests: list[Any] = []

    async def asked() -> bool:
        requests.extend((await bob.get(f"/channels/{CHANNEL}/messages")).json)
        return bool(requests)

    await soon(asked)
    request = requests[0]
    await bob.post(f"/channels/{CHANNEL}/messages/{request['id']}/reply", {"payload": {"text": "a secret"}})
    assert b"a secret" in (await asking).body
    assert b"a secret" in (await alice.post(ask, body, key)).body

    await erased(server, agent_id="bob")
    again = await alice.post(ask, body, key)

    assert (again.status, again.json["payload"]) == (200, {})


@pytest.mark.both_stores
@with_server
async def test_a_held_message_and_its_decision_are_not_told_again_after_an_erasure(server: LiveServer) -> None:
    alice, _ = await pair(server)
    ann, key = await person(server, "ann"), {"Idempotency-Key": "k1"}
    place = f"/channels/{CHANNEL}/messages"
    body = {
        "to": "bob",
        "payload": {"text": "I promise the moon"},
        "metadata": {"exchange_type": "information_query", "conversation_id": "c1"},
    }
    held = await alice.post(place, body, key)
    decision = {"decision": "approve", "digest": held.json["digest"], "note": "the moon is fine"}
    decided = await ann.post(f"/approvals/{held.json['approval']}/decision", decision, key)
    closed = await alice.post(f"/exchanges/{held.json['exchange_id']}/close", {}, key)
    assert (held.status, decided.status, closed.status) == (202, 200, 200), (held, decided, closed)

    await erased(server, conversation_id="c1")
    again = [
        await alice.post(place, body, key),
        await ann.post(f"/approvals/{held.json['approval']}/decision", decision, key),
        await alice.post(f"/exchanges/{held.json['exchange_id']}/close", {}, key),
    ]

    assert [one.status for one in again] == [202, 200, 200], again
    assert [one for one in again if b"moon" in one.body] == []


@with_server
async def test_an_export_of_a_day_has_its_entries_and_only_hashes_of_the_others(server: LiveServer) -> None:
    days = ("2026-03-12", "2026-03-13", "2026-03-14")
    for day in days:
        await write(server, "alice", "bob", at=f"{day}T12:00:00.000000+00:00")
    admin = await server.client(kind=KeyKind.ADMIN)
    period: dict[str, Any] = {"since": "2026-03-13T00:00:00Z", "until": "2026-03-14T00:00:00Z"}

    lines = (await admin.get("/audit/export", **period)).body.splitlines(keepends=True)
    listed = (await admin.get("/audit", **period)).json["entries"]

    shown = [json.loads(line)["document"]["at"][:10] for line in lines if b'"document"' in line]
    assert shown == ["2026-03-13"] * 2
    assert [one["number"] for one in listed] == [3, 4]
    report = check_export(lines, verify, trusted=KEY)
    assert (report.bad, report.entries, report.hidden) == (None, 6, 4)
    # A changed entry of the day is found, as in a whole export.
    forged = [line.replace(b'"delivered"', b'"denied"') for line in lines]
    assert check_export(forged, verify, trusted=KEY).bad is not None
