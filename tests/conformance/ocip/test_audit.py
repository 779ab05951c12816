"""Governance: the audit log. Chains, one tree, signatures, and what they prove without the server."""

from __future__ import annotations

import hashlib
import json

import pytest
import rfc8785

from parley.app.team.audit import checkpoints as audit_checkpoints
from parley.domain.audit.checkpoint import AuditCheckpoint
from parley.domain.audit.entry import AGENT_EXCHANGE, COLUMNS
from parley.domain.audit.merkle import tree_root
from parley.domain.store.changes import TeamChanges
from parley.wire.proofs.audit_log import check_export, read_export
from parley.wire.proofs.audit_proof import check_proof
from parley.wire.proofs.reconcile import log_of, reconcile
from tests.conformance.ocip.governed import (
    Document,
    admin_of,
    envelope_of,
    inbox,
    pair,
    reply,
    said,
    shown,
    tell,
)
from tests.rigs.behind_the_server import Guarded, change
from tests.rigs.team import Client, LiveServer, live_server, open_rig, with_server
from tests.samples.audit import a_draft, verify

pytestmark = pytest.mark.both_stores


async def some_talk(server: LiveServer) -> tuple[Client, Client]:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", "zebra")
    await reply(bob, asked, "giraffe")
    await tell(alice, "bob", "I promise a lion.")
    return alice, bob


async def export_of(client: Client) -> list[bytes]:
    answer = await client.get("/audit/export")
    assert answer.status == 200, answer
    return answer.body.splitlines(keepends=True)


def documents(lines: list[bytes]) -> list[Document]:
    return [json.loads(document) for _, document in read_export(lines)[1]]


@pytest.mark.requirement("GOV-AUDIT-CHAIN")
@with_server
async def test_each_side_is_a_chain_of_hashes(server: LiveServer) -> None:
    await some_talk(server)
    entries = (await shown(await admin_of(server), "/audit", limit=1000))["entries"]

    heads: dict[str, tuple[int, str]] = {}
    for one in entries:
        seq, head = heads.get(one["side"], (0, "0" * 64))
        assert (one["document"]["seq"], one["document"]["prev_hash"]) == (seq + 1, head)
        hashed = hashlib.sha256(b"\x00" + rfc8785.dumps(one["document"])).hexdigest()
        assert one["entry_hash"] == hashed
        heads[one["side"]] = (seq + 1, hashed)

    assert set(heads) == {"alice", "bob", "@tenant"}
    assert [one["number"] for one in entries] == list(range(1, len(entries) + 1))


@pytest.mark.requirement("GOV-AUDIT-CANONICAL")
@with_server
async def test_what_is_hashed_is_the_canonical_json_of_rfc_8785(server: LiveServer) -> None:
    strange = 'a"b\\c/\u0000\u001f\u007f\u2028é\U0001f600\t\n'
    facts = {"note": strange, "z": [1, -5, True, False, {"y": "", "b": []}], "a": {}}
    draft = a_draft(1, "alice")._replace(facts=facts)
    await server.rig.store.commit(TeamChanges("default", audits=(draft,)))

    ((_, document),) = read_export(await export_of(await admin_of(server)))[1]

    assert document == rfc8785.dumps(json.loads(document))
    assert json.loads(document)["note"] == strange


@pytest.mark.requirement("GOV-AUDIT-CHAIN")
@with_server
async def test_entries_can_be_neither_changed_nor_deleted_in_the_store(server: LiveServer) -> None:
    await some_talk(server)

    for statement in (*[f"UPDATE audit SET {column} = '99'" for column in COLUMNS], "DELETE FROM audit"):
        with pytest.raises(Guarded, match="append-only"):
            change(server.rig, statement)


@pytest.mark.requirement("GOV-AUDIT-NO-CONTENT")
@with_server
async def test_content_stays_out_and_can_be_erased_while_proofs_stay_valid(server: LiveServer) -> None:
    alice, _ = await some_talk(server)
    admin = await admin_of(server)
    before = await export_of(admin)
    talk = envelope_of((await inbox(alice))[0])["conversation_id"]
    proof = (await admin.get("/audit/proof/3")).body

    erased = await admin.post("/audit/erasures", {"conversation_id": talk})

    assert (erased.status, erased.json["messages"]) == (201, 2)
    for word in (b"zebra", b"giraffe", b"lion"):
        assert word not in b"".join(before)
    assert b"zebra" not in json.dumps(await inbox(alice)).encode()
    after = check_export(await export_of(admin), verify)
    assert after.bad is None
    assert check_proof(proof, verify)[1] == ""


@pytest.mark.requirement("GOV-AUDIT-TREE")
@with_server
async def test_a_signed_checkpoint_covers_the_tree_of_all_entries(server: LiveServer) -> None:
    await some_talk(server)
    admin = await admin_of(server)
    entries = (await shown(admin, "/audit", limit=1000))["entries"]

    report = check_export(await export_of(admin), verify)

    checkpoint = await shown(admin, "/audit/checkpoints/latest")
    assert checkpoint["size"] == len(entries) == report.covered
    assert checkpoint["root"] == tree_root([bytes.fromhex(one["entry_hash"]) for one in entries]).hex()
    assert report.bad is None
    # RFC 6962, for two leaves: SHA-256(0x01 || leaf || leaf).
    two = [bytes.fromhex(one["entry_hash"]) for one in entries[:2]]
    assert tree_root(two) == hashlib.sha256(b"\x01" + two[0] + two[1]).digest()


@pytest.mark.requirement("GOV-AUDIT-DUE")
@with_server
async def test_a_checkpoint_comes_after_a_thousand_entries_or_some_seconds(server: LiveServer) -> None:
    rig = server.rig
    await pair(server)
    assert await audit_checkpoints.make_due(rig.team) == 1
    await said(await server.client("alice"), "bob")
    assert await audit_checkpoints.make_due(rig.team) == 0

    rig.clock.pass_by(seconds=5)
    assert await audit_checkpoints.make_due(rig.team) == 1
    drafts = tuple(a_draft(n, "alice")._replace(id=f"x{n}") for n in range(1, 1001))
    await rig.store.commit(TeamChanges("default", audits=drafts))
    assert await audit_checkpoints.make_due(rig.team) == 1


class Outside:
    """Where checkpoints are kept that the owner of the database does not reach."""

    def __init__(self) -> None:
        self.kept: list[AuditCheckpoint] = []

    async def covered(self, tenant: str) -> int:
        return max((one.size for one in self.kept if one.tenant_id == tenant), default=0)

    async def append(self, checkpoints: object) -> None:
        self.kept += checkpoints  # type: ignore[arg-type]


@pytest.mark.requirement("GOV-AUDIT-OUTSIDE")
@with_server
async def test_who_writes_a_whole_new_log_does_not_fit_the_checkpoints_outside(
    server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = Outside()
    server.rig.team.audit.archive = outside
    alice, _ = await some_talk(server)
    await audit_checkpoints.make_due(server.rig.team)
    await said(alice, "bob", "and more")
    assert check_export(await export_of(await admin_of(server)), verify, outside=outside.kept).bad is None

    # Whoever owns the machine has the key, too: another log, as well made as the first.
    async with open_rig(tmp_path_factory.mktemp("forged")) as rig, live_server(rig) as other:
        await rig.intent()
        await rig.channel()
        forger, _ = await pair(other)
        for _ in range(9):
            await said(forger, "bob", "something else")
        forged = await export_of(await admin_of(other))

    assert check_export(forged, verify).bad is None
    report = check_export(forged, verify, outside=outside.kept)
    assert report.bad is not None
    assert "is not what the checkpoint" in report.bad.why


@pytest.mark.requirement("GOV-AUDIT-VERIFY")
@with_server
async def test_an_export_is_checked_without_the_server_and_the_first_bad_entry_is_named(server: LiveServer) -> None:
    await some_talk(server)
    lines = await export_of(await admin_of(server))
    await server.stop()
    assert check_export(lines, verify).bad is None
    entries = [n for n, line in enumerate(lines) if line.startswith(b'{"number":')]

    for n in entries:
        number = json.loads(lines[n])["number"]
        changed = [*lines[:n], lines[n].replace(b'"action":"', b'"action":"x'), *lines[n + 1 :]]
        removed = [*lines[:n], *lines[n + 1 :]]
        for spoilt in (changed, removed):
            report = check_export(spoilt, verify)
            assert report.bad is not None
            assert report.bad.number == number


@pytest.mark.requirement("GOV-AUDIT-PROVE")
@with_server
async def test_a_proof_shows_that_an_entry_is_in_and_fits_no_other(server: LiveServer) -> None:
    await some_talk(server)
    admin = await admin_of(server)
    await export_of(admin)

    proofs = [(await admin.get(f"/audit/proof/{number}")).body for number in (3, 4)]

    assert [check_proof(one, verify)[1] for one in proofs] == ["", ""]
    mixed = {**json.loads(proofs[0]), "path": json.loads(proofs[1])["path"]}
    assert check_proof(json.dumps(mixed).encode(), verify)[1] != ""
    spoilt = proofs[0].replace(b'"outcome":"delivered"', b'"outcome":"denied"')
    assert spoilt != proofs[0]
    assert check_proof(spoilt, verify)[1] != ""


@pytest.mark.requirement("GOV-AUDIT-RECONCILE")
@with_server
async def test_two_sides_logs_are_paired_and_what_one_lacks_is_shown(server: LiveServer) -> None:
    alice, bob = await some_talk(server)
    logs = {}
    for name, client in (("alice", alice), ("bob", bob)):
        header, found = read_export(await export_of(client))
        logs[name] = (found, header.sides)
    mine, yours = log_of("alice", *logs["alice"]), log_of("bob", *logs["bob"])

    assert reconcile(mine, yours) == (2, [])
    for lacking in range(2):
        kept = [one for n, one in enumerate(logs["bob"][0]) if n != lacking]
        same, lacks = reconcile(mine, log_of("bob", kept, ["bob"]))
        assert same == 1
        assert [(one.kind, one.round, one.why) for one in lacks] == [("missing", lacking + 1, "bob lacks it")]
    assert {one["action"] for one in documents(await export_of(alice))} == {AGENT_EXCHANGE}
