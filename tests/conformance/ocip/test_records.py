"""OCIP: both sides keep a record, and everybody knows who wrote a message."""

from __future__ import annotations

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.content.disclosure import DISCLOSURE
from parley.domain.errors.errors import Unavailable
from parley.domain.store.changes import Committed, TeamChanges
from tests.conformance.ocip.governed import (
    MESSAGES,
    admin_of,
    audit_of,
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
    tell,
)
from tests.rigs.behind_the_server import tables
from tests.rigs.team import LiveServer, with_server

LABEL = "Sent by an AI agent"
DATA = [{"source": "jira", "fields": ["text"], "classification": "public"}]


# ---------------------------------------------------------------- both sides


@pytest.mark.requirement("OCIP-9-BOTH", "GOV-LOG-SIDES")
@with_server
async def test_each_side_has_its_own_entry_in_its_own_chain(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    await reply(bob, asked)

    mine, yours = await audit_of(alice), await audit_of(bob)

    assert [(one["side"], one["seq"], one["role"]) for one in mine] == [
        ("alice", 1, "sender"),
        ("alice", 2, "receiver"),
    ]
    assert [(one["side"], one["seq"], one["role"]) for one in yours] == [("bob", 1, "receiver"), ("bob", 2, "sender")]
    for one, other in zip(mine, yours, strict=True):
        for name in ("exchange_id", "round", "classification", "content_digest", "message_id", "policy"):
            assert one[name] == other[name]
        assert one["prev_hash"] == other["prev_hash"] == "0" * 64 or one["prev_hash"] != other["prev_hash"]


@pytest.mark.requirement("OCIP-9-SENDER", "OCIP-9-SENDER-ACTION", "OCIP-9-SHARED")
@with_server
async def test_the_senders_entry_says_what_went_out(server: LiveServer) -> None:
    alice, _ = await pair(server)
    message = await said(alice, "bob", data=DATA)

    (entry,) = await audit_of(alice)

    assert entry["action"] == "agent_exchange"
    assert entry["exchange_id"] == ext_of(message)["exchange_id"]
    assert entry["conversation_id"] == envelope_of(message)["conversation_id"]
    assert (entry["classification"], entry["policy"]) == ("internal", ext_of(message)["policy_version"])
    assert entry["dataShared"] == [{"source": "jira", "fields": ["text"]}]
    assert entry["direction"] == "outgoing"


@pytest.mark.requirement("OCIP-9-RECEIVER", "OCIP-9-RECEIVER-ACTION", "OCIP-9-WITHHELD")
@with_server
async def test_the_receivers_entry_says_what_came_in_and_what_was_kept_back(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "on_over_classified: withhold")
    secret = {"source": "hr", "fields": ["salary"], "classification": "restricted", "description": "what she earns"}
    message = await said(alice, "bob", payload={"name": "Eva", "salary": 5}, data=[secret])

    (entry,) = await audit_of(bob)

    assert (entry["action"], entry["direction"], entry["side"]) == ("agent_exchange", "incoming", "bob")
    assert entry["exchange_id"] == ext_of(message)["exchange_id"]
    assert entry["conversation_id"] == envelope_of(message)["conversation_id"]
    assert (entry["classification"], entry["policy"]) == ("internal", ext_of(message)["policy_version"])
    assert entry["dataWithheld"] == [{"reason": "restricted is above internal", "description": "what she earns"}]


@pytest.mark.requirement("OCIP-9-FULL")
@with_server
async def test_a_conversation_can_be_followed_from_its_first_message_to_its_end(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", data=DATA)
    talk = envelope_of(asked)["conversation_id"]
    waiting = document(await reply(bob, asked, "I promise."))
    await decide(await person(server, "ben"), waiting, "approve")
    await alice.post(f"/exchanges/{ext_of(asked)['exchange_id']}/close")
    await said(alice, "bob")  # of another conversation

    told = await audit_of(await admin_of(server), conversation_id=talk)

    assert [(one["action"], one["side"], one.get("outcome") or one.get("decision")) for one in told] == [
        ("agent_exchange", "alice", "delivered"),
        ("agent_exchange", "bob", "delivered"),
        ("agent_exchange", "bob", "held"),
        ("approval_decided", "bob", "approved"),
        ("agent_exchange", "bob", "delivered"),
        ("agent_exchange", "alice", "delivered"),
        ("agent_exchange_ended", "alice", "resolved"),
        ("agent_exchange_ended", "bob", "resolved"),
    ]


@pytest.mark.requirement("GOV-LOG-FIELDS")
@with_server
async def test_an_entry_has_everything_that_the_answer_names(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await said(alice, "bob")

    (entry,) = await audit_of(alice)

    assert entry.keys() >= {
        "exchange_id",
        "conversation_id",
        "round",
        "role",
        "direction",
        "classification",
        "policy",
        "dataShared",
        "dataWithheld",
        "content_digest",
        "outcome",
        "actor",
    }
    assert "hello" not in str(entry)


@pytest.mark.both_stores
@pytest.mark.requirement("GOV-LOG-OTHERS")
@with_server
async def test_denied_held_and_expired_are_on_record(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await tell(alice, "bob", classification="restricted")
    await held(alice, "bob", "I promise.")
    await said(alice, "bob")
    server.rig.clock.pass_by(hours=25)
    await sweep(server.rig.team)

    outcomes = [one.get("outcome") or one["decision"] for one in await audit_of(alice)]

    assert outcomes[:4] == ["denied", "denied", "held", "delivered"]
    assert outcomes[4:] == ["expired", "expired", "expired"]


@pytest.mark.requirement("GOV-LOG-TRANSACTION", "GOV-ORDER-TRANSACTION")
@with_server
async def test_what_cannot_be_recorded_is_not_sent(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    store = server.rig.store
    commit = store.commit

    async def without_audit(changes: TeamChanges) -> Committed:
        if changes.audits:
            raise Unavailable("the audit log cannot be written")
        return await commit(changes)

    before = tables(server.rig)
    monkeypatch.setattr(store, "commit", without_audit)
    answer = await reply(bob, asked)

    assert answer.status == 503
    assert tables(server.rig) == before
    monkeypatch.undo()
    assert envelope_of(document(await reply(bob, asked)))["exchange_round"] == 2


# ---------------------------------------------------------------- who wrote it


@pytest.mark.requirement("OCIP-10-LABEL", "OCIP-10-GENERATED", "OCIP-10-RECIPIENTS", "GOV-DISCLOSURE-TWICE")
@with_server
async def test_what_an_agent_wrote_says_so_as_a_field_and_as_a_text(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await said(alice, "bob")

    (read,) = await inbox(bob)

    assert DISCLOSURE == LABEL
    assert read["metadata"]["disclosure"] == LABEL
    assert ext_of(read)["disclosure"] == {"ai": True, "label": LABEL}


@pytest.mark.requirement("OCIP-10-ASSISTED", "OCIP-10-RECIPIENTS", "GOV-DISCLOSURE-TWICE")
@with_server
async def test_what_a_human_only_approved_says_so_too(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await decide(await person(server, "ann"), await held(alice, "bob", "I promise."), "approve")

    (read,) = await inbox(bob)

    assert envelope_of(read)["message_type"] == "agent-assisted"
    assert (read["metadata"]["disclosure"], ext_of(read)["disclosure"]["label"]) == (LABEL, LABEL)


@pytest.mark.requirement("GOV-DISCLOSURE-HUMAN")
@with_server
async def test_what_a_human_wrote_says_nothing_of_the_kind(server: LiveServer) -> None:
    _, bob = await pair(server)
    forged = {"classification": "public", "disclosure": LABEL}
    ann = await person(server, "ann")
    await ann.post(MESSAGES, {"sender": "alice", "to": "bob", "payload": {"text": "hi"}, "metadata": forged})

    (read,) = await inbox(bob)

    assert envelope_of(read)["message_type"] == "human"
    assert "disclosure" not in read["metadata"]
    assert ext_of(read)["disclosure"] is None


@pytest.mark.requirement("GOV-DISCLOSURE-UNSCANNED", "GOV-DISCLOSURE-CONFIGURED")
@with_server
async def test_the_label_is_the_enterprises_to_choose_and_no_part_of_the_content(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, 'disclosure: "We promise: an agent wrote this, AKIAIOSFODNN7EXAMPLE."')

    await said(alice, "bob")

    (read,) = await inbox(bob)
    assert read["metadata"]["disclosure"] == "We promise: an agent wrote this, AKIAIOSFODNN7EXAMPLE."
    assert envelope_of(read)["classification"] == "internal"


@pytest.mark.requirement("OCIP-10-GENERATED")
@with_server
async def test_an_agent_cannot_leave_the_label_out(server: LiveServer) -> None:
    alice, bob = await pair(server)

    await said(alice, "bob", disclosure="A person wrote this.", ocip_ext={"disclosure": None})

    (read,) = await inbox(bob)
    assert read["metadata"]["disclosure"] == LABEL
    assert ext_of(read)["disclosure"] == {"ai": True, "label": LABEL}
