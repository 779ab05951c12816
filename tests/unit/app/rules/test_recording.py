from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from parley.app.rules.recording import delivered_entries
from parley.domain.content.classification import LEVELS, DataItem, OnOver
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.hashes import digest
from parley.domain.rules.policy import Commitments
from parley.domain.rules.ruling import rule
from parley.domain.rules.terms import Terms
from tests.rigs.governed import decide, entries, held, person, place, put_policy, refusal, said, send, two_agents
from tests.rigs.team import Rig, with_rig
from tests.samples.governed import TENANT, a_party, a_proposal, an_exchange
from tests.samples.messages import PROPERTY
from tests.unit.app.rules.fake_docket import FakeDocket, a_submission


@with_rig
async def test_both_sides_of_what_was_delivered_agree_in_everything_but_whose_side_it_is(rig: Rig) -> None:
    await two_agents(rig)
    label = await put_policy(rig)

    post = await said(rig, "alice", "bob", conversation_id="conv-1", classification="public")

    mine, other = await entries(rig)
    own = {"id", "side", "seq", "prev_hash", "role", "direction"}
    assert {key: value for key, value in mine.items() if key not in own} == {
        key: value for key, value in other.items() if key not in own
    }
    assert (mine["direction"], other["direction"]) == ("outgoing", "incoming")
    assert mine["action"] == "agent_exchange"
    assert mine["policy"] == label
    expected = {
        "exchange_id": post.exchange_id,
        "conversation_id": "conv-1",
        "round": 1,
        "max_rounds": 3,
        "classification": "public",
        "content_digest": digest(post.payload),
        "message_id": post.id,
        "outcome": "delivered",
        "sender": "alice",
        "to": "bob",
        "source_org": "engineering",
        "target_org": "engineering",
        "source_user": "ann",
        "origin": "agent-generated",
        "actor": "alice",
        "key": rig.caller("alice").key_id,
        "dataShared": [],
        "dataWithheld": [],
    }
    assert {key: mine[key] for key in expected} == expected


@with_rig
async def test_what_was_said_is_nowhere_in_the_log(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales")
    await put_policy(rig, on_over_classified=OnOver.REDACT)
    data = [{"source": "hr", "fields": ["text"], "classification": "restricted"}]

    await said(rig, "alice", "bob", "xyzzy one")
    await held(rig, "alice", "bob", "xyzzy promise")
    await refusal(send(rig, "alice", "carol", "xyzzy two"))
    await refusal(send(rig, "alice", "bob", "xyzzy three", ocip="xyzzy"))
    await said(rig, "alice", "bob", "xyzzy four", data=data)

    found = await entries(rig)
    assert len(found) == 2 + 1 + 2 + 1 + 2
    assert "xyzzy" not in str(found)


@with_rig
async def test_what_is_held_or_denied_is_on_the_senders_side_alone(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales")

    approval = await held(rig, "alice", "bob")
    await refusal(send(rig, "alice", "carol"))

    waits, denied = await entries(rig, action="agent_exchange")
    assert (waits["side"], waits["outcome"], waits["approval"], waits["keywords"]) == (
        "alice",
        "held",
        approval.id,
        ["promise"],
    )
    assert waits["reason"] == approval.reason
    assert (denied["side"], denied["outcome"], denied["code"], denied["receivers"]) == (
        "alice",
        "denied",
        "policy_denied",
        ["carol"],
    )


@with_rig
async def test_an_approved_message_names_its_approval_and_who_gave_it(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")

    await decide(rig, "ann", approval, note="fine")

    _, decided, mine, other = await entries(rig)
    assert (decided["action"], decided["actor"], decided["decision"], decided["note"]) == (
        "approval_decided",
        "ann",
        "approved",
        "fine",
    )
    assert decided["content_digest"] == mine["content_digest"] == other["content_digest"]
    for side in (mine, other):
        assert (side["approval"], side["approved_by"], side["origin"]) == (approval.id, "ann", "agent-assisted")


@with_rig
async def test_what_a_person_does_is_under_its_own_name(rig: Rig) -> None:
    await two_agents(rig)

    await said(rig, person("ann", "alice"), "bob")

    assert {(one["actor"], one["sender"], one["origin"]) for one in await entries(rig)} == {("ann", "alice", "human")}


SUBMISSIONS: list[dict[str, Any]] = [
    {},
    {"message_id": "msg_2", "to": "role:tester"},
    {"actor": "alice.h", "key": "key_2"},
    {"channel_id": "chan_1", "annotated": False},
    {"channel_id": "chan_1", "creates_channel": True},
    {"approval_id": "appr_1", "approved_by": "alice.h"},
]
PROPOSALS: list[dict[str, Any]] = [
    {},
    {"wishes": Wishes(purpose=Purpose.INFORMATION_QUERY, classification=LEVELS[0], conversation_id="conv-9")},
    {"wishes": Wishes(), "asks": False},
    {"body": {"text": "password: hunter22"}, "wishes": Wishes(classification=LEVELS[3])},
    {"exchange": an_exchange(version=1, current_round=1, max_rounds=7)},
    {"exchange": an_exchange(version=1, current_round=2, initiator="bob", responder="alice", hops=3)},
    {
        "exchange": an_exchange(version=1, requires_commitment=True, purpose=Purpose.COMMITMENT_REQUEST),
        "wishes": Wishes(),
    },
    {"wishes": Wishes(data=(DataItem("crm", ("rate",), LEVELS[0]),))},
]


@PROPERTY
@given(st.lists(st.tuples(st.sampled_from(SUBMISSIONS), st.sampled_from(PROPOSALS)), min_size=2, max_size=8))
def test_entries_by_kept_terms_say_what_entries_by_fresh_ones_do(
    messages: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    restricted: dict[str, Any] = {"max_classification": LEVELS[3]}
    sender, receivers = a_party("alice", **restricted), (a_party("bob", **restricted),)
    kept = Terms(TENANT, sender, receivers, FakeDocket(**restricted, commitments=Commitments.REPORT).book)

    for message, proposed in messages:
        submission = a_submission(sender=sender, receivers=receivers, **message)
        proposal = a_proposal(sender=sender, receivers=receivers, **proposed)
        trails = []
        for terms in (kept, None):
            docket = FakeDocket(**restricted, commitments=Commitments.REPORT)
            ruling = rule(proposal._replace(terms=terms), docket.book)
            entries = delivered_entries(docket, submission, ruling, f"of {submission.message_id}", {})
            trails.append([entry._replace(facts=dict(entry.facts)) for entry in entries])
        assert trails[0] == trails[1]
