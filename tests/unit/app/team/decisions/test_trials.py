"""Trying the rules on real traffic: what was recorded is tried with what is still kept, and nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest

from parley.app.team.audit import retention
from parley.app.team.channels import channels, posting
from parley.app.team.decisions import trials
from parley.app.team.decisions.trials import Replayed
from parley.domain.agents.party import Party
from parley.domain.channel.channel import Options
from parley.domain.content.classification import Classification, ContentPattern, OnOver
from parley.domain.content.envelope import Purpose
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import CrossOrg, Fragment, PolicySnapshot
from parley.domain.rules.ruling import Proposal, Ruling
from parley.domain.rules.trial import Trial
from tests.rigs.governed import a_draft, answer, decide, held, place, put_policy, refusal, said, send, two_agents
from tests.rigs.team import INTENT, Rig, with_rig

ADMIN = Caller("default", "", KeyKind.ADMIN, "key_admin")
PARTNERS = ContentPattern("partner", "PN-####", Classification.CONFIDENTIAL)


async def under(rig: Rig, document: str = "enterprise/default", **keys: Any) -> PolicySnapshot:  # noqa: ANN401
    """What would be in force with this document."""
    fragment = Fragment(**{"enabled": True, **keys} if document.startswith("enterprise/") else keys)
    return await trials.proposed(rig.team, "default", {document: (repr(keys), fragment)})


async def again(rig: Rig, document: str = "enterprise/default", **keys: Any) -> list[tuple[str, str, str, str]]:  # noqa: ANN401
    found = await trials.replay(rig.team, ADMIN, await under(rig, document, **keys))
    return told(found)


def told(found: Replayed) -> list[tuple[str, str, str, str]]:
    return [(one.sender, one.receiver, one.was, one.now) for one in found.changes]


@with_rig
async def test_traffic_under_the_policy_that_it_was_sent_under_changes_nothing(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "mia", org_unit="sales", user_id="max")
    request = await said(rig, "alice", "bob")
    await answer(rig, "bob", request)
    approval = await held(rig, "alice", "bob")
    await decide(rig, "ann", approval)
    await refusal(send(rig, "alice", "mia"))
    await refusal(send(rig, "alice", "bob", classification="restricted"))
    await said(rig, "alice", "", "to all", pattern=Pattern.BROADCAST)

    found = await trials.replay(rig.team, ADMIN, await under(rig))

    assert (found.changes, found.messages, found.next) == ([], 7, None)
    # What was denied is kept nowhere.
    assert found.with_content == 5


@with_rig
async def test_a_stricter_document_denies_and_holds_what_was_delivered(rig: Rig) -> None:
    await two_agents(rig)
    await said(rig, "alice", "bob", "We ship it.")
    await decide(rig, "ann", await held(rig, "alice", "bob"))

    assert await again(rig, commitment_words=("ship",)) == [("alice", "bob", "allow", "hold")]
    assert await again(rig, exchange_types=()) == [
        ("alice", "bob", "allow", "deny"),
        ("alice", "bob", "hold", "deny"),
        ("alice", "bob", "allow", "deny"),
    ]
    assert await again(rig, "org/engineering", max_classification=Classification.PUBLIC) == (
        await again(rig, exchange_types=())
    )
    assert await again(rig, "org/sales", enabled=False) == []


@with_rig
async def test_a_looser_document_releases_what_was_denied_and_held(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "mia", org_unit="sales", user_id="max")
    await put_policy(rig, commitment_words=("ship",), patterns=(PARTNERS,), max_rounds=1)
    await refusal(send(rig, "alice", "mia", "hello"))
    await refusal(send(rig, "alice", "mia", "We promise it."))
    await held(rig, "alice", "bob", "We ship it.")
    await refusal(send(rig, "alice", "bob", "PN-1234"))
    request = await said(rig, "bob", "alice")
    await answer(rig, "alice", request)

    found = await again(rig, cross_org=CrossOrg.ALLOW, max_rounds=3)

    # Denied, it is known by the words that were found in it and no more: what it raised to, it stays.
    assert found == [
        ("alice", "mia", "deny", "allow"),
        ("alice", "mia", "deny", "hold"),
        ("alice", "bob", "hold", "allow"),
        ("alice", "bob", "hold", "allow"),
    ]


@with_rig
async def test_what_an_exchange_asked_for_itself_is_no_matter_of_the_document(rig: Rig) -> None:
    await two_agents(rig)
    request = await said(rig, "alice", "bob", max_rounds=1)
    await answer(rig, "bob", request)

    assert await again(rig, max_rounds=9) == []


@with_rig
async def test_withheld_data_is_blocked_where_the_document_blocks(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, on_over_classified=OnOver.WITHHOLD)
    items = [{"source": "crm", "fields": ["secret"], "classification": "restricted"}]
    await said(rig, "alice", "bob", {"text": "hello", "secret": "x"}, data=items)

    assert await again(rig, on_over_classified=OnOver.REDACT) == []
    assert await again(rig, on_over_classified=OnOver.BLOCK) == [("alice", "bob", "allow", "deny")]


ITEM = {"source": "the ship list", "fields": ["a"], "classification": "internal", "description": "what we ship"}
SECRET = {**ITEM, "source": "crm", "fields": ["secret"], "classification": "restricted"}


@pytest.mark.parametrize(
    "written",
    [
        {"data": [{**ITEM, "source": "ship list", "description": ""}]},
        {"data": [{**ITEM, "source": "crm", "fields": ["ship"], "description": ""}]},
        {"data": [{**ITEM, "source": "crm"}]},
        {"data": [SECRET]},
        {"conversation_id": "we-ship-it"},
        {"note": "We ship it."},
    ],
)
@with_rig
async def test_everything_that_was_judged_when_it_was_sent_is_judged_again(rig: Rig, written: dict[str, Any]) -> None:
    await two_agents(rig)
    await put_policy(rig, on_over_classified=OnOver.WITHHOLD)
    await said(rig, "alice", "bob", **written)
    words: dict[str, Any] = {"commitment_words": ("ship",), "on_over_classified": OnOver.WITHHOLD}

    assert await again(rig, **words) == [("alice", "bob", "allow", "hold")]
    assert await again(rig, on_over_classified=OnOver.WITHHOLD) == []

    await put_policy(rig, **words)
    name = f"{written.get('conversation_id', 'other')}-2"
    await held(rig, "alice", "bob", "hello", **{**written, "conversation_id": name})
    assert (await again(rig, **words))[1:] == []
    assert (await again(rig, on_over_classified=OnOver.WITHHOLD))[-1] == ("alice", "bob", "hold", "allow")


@with_rig
async def test_the_name_of_a_conversation_is_judged_until_a_message_was_delivered_under_it(rig: Rig) -> None:
    await two_agents(rig)
    request = await said(rig, "alice", "bob", conversation_id="we-ship-it")
    await answer(rig, "bob", request)
    await said(rig, "alice", "bob", conversation_id="ask-bob")
    await said(rig, "bob", "alice")

    assert await again(rig, commitment_words=("ship", "bob", "conv")) == [("alice", "bob", "allow", "hold")]


@with_rig
async def test_the_name_of_a_channel_is_judged_with_the_message_that_creates_it(rig: Rig) -> None:
    await two_agents(rig)
    for _ in range(2):
        await channels.post_by_name(
            rig.team,
            rig.caller("alice"),
            INTENT,
            "we-ship-it",
            a_draft("bob", "hello", exchange_type="information_query"),
        )

    assert await again(rig, commitment_words=("ship",)) == [("alice", "bob", "allow", "hold")]


@with_rig
async def test_of_a_broadcast_it_is_told_who_would_be_left_out(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "mia", org_unit="sales", user_id="max")
    await said(rig, "alice", "", "to all", pattern=Pattern.BROADCAST)

    assert await again(rig, cross_org=CrossOrg.ALLOW) == [("alice", "mia", "deny", "allow")]
    assert await again(rig, cross_org=CrossOrg.APPROVAL) == [("alice", "mia", "allow", "hold")]


@with_rig
async def test_what_was_erased_is_tried_by_what_was_found_in_it(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, commitment_words=("ship",))
    await said(rig, "alice", "bob", "We merge it.")
    await held(rig, "alice", "bob", "We ship it.")
    merge = ("merge", "ship")

    assert await again(rig, commitment_words=merge) == [("alice", "bob", "allow", "hold")]
    await retention.erase(rig.team, ADMIN, agent_id="alice")

    found = await trials.replay(rig.team, ADMIN, await under(rig, commitment_words=merge))
    assert (found.changes, found.messages, found.with_content) == ([], 2, 0)
    # The word of then is on record, and nobody can tell whether it would be one now.
    assert await again(rig) == []


@with_rig
async def test_what_a_channel_no_longer_keeps_is_tried_by_what_was_found_in_it(rig: Rig) -> None:
    await two_agents(rig)
    await rig.channel("chan_small", options=Options(max_messages=1))
    for text in ("We merge it.", "hello"):
        await posting.post(
            rig.team, rig.caller("alice"), "chan_small", a_draft("bob", text, exchange_type="information_query")
        )

    found = await trials.replay(rig.team, ADMIN, await under(rig, commitment_words=("merge",)))

    assert (found.messages, found.with_content, found.changes) == (2, 1, [])


@with_rig
async def test_a_tenant_sees_only_its_own(rig: Rig) -> None:
    await two_agents(rig)
    await said(rig, "alice", "bob")
    other = Caller("acme", "", KeyKind.ADMIN, "key_acme")

    found = await trials.replay(rig.team, other, await trials.proposed(rig.team, "acme", {}))
    explained = await trials.explain(rig.team, other, "alice", "bob", Trial(Party(""), Party("")))

    assert (found.messages, found.changes) == (0, [])
    assert explained.steps[0].result == "not registered, so of default"


@with_rig
async def test_a_long_replay_comes_in_pieces_that_are_the_whole(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_PAGE", 3)
    await two_agents(rig)
    for _ in range(7):
        await said(rig, "alice", "bob")
    snapshot = await under(rig, exchange_types=())

    pieces = [await trials.replay(rig.team, ADMIN, snapshot, most=3)]
    while pieces[-1].next is not None:
        pieces.append(await trials.replay(rig.team, ADMIN, snapshot, most=3, after=pieces[-1].next))

    whole = await trials.replay(rig.team, ADMIN, snapshot)
    assert [one.messages for one in pieces] == [3, 3, 1]
    assert [change for one in pieces for change in one.changes] == whole.changes
    assert len(whole.changes) == 7


@with_rig
async def test_only_what_was_sent_since_a_moment_is_tried(rig: Rig) -> None:
    await two_agents(rig)
    await said(rig, "alice", "bob")
    rig.clock.pass_by(hours=1)
    since = rig.at()
    await said(rig, "alice", "bob")

    found = await trials.replay(rig.team, ADMIN, await under(rig), since=since)

    assert found.messages == 1


@with_rig
async def test_nothing_is_written_by_trying(rig: Rig) -> None:
    await two_agents(rig)
    await said(rig, "alice", "bob")
    before = await rig.store.audit_size("default")

    await again(rig, exchange_types=())
    await trials.explain(rig.team, ADMIN, "alice", "bob", Trial(Party(""), Party("")))

    assert await rig.store.audit_size("default") == before
    assert (await trials.explain(rig.team, ADMIN, "alice", "bob", Trial(Party(""), Party("")))).word == "allow"


@with_rig
async def test_a_document_is_taken_away(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, "org/engineering", commitment_words=("ship",))
    await held(rig, "alice", "bob", "We ship it.")

    snapshot = await trials.proposed(rig.team, "default", {"org/engineering": ("", None)})

    assert told(await trials.replay(rig.team, ADMIN, snapshot)) == [("alice", "bob", "hold", "allow")]


@with_rig
async def test_a_message_is_explained_by_the_directory_and_what_is_in_force(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "mia", org_unit="sales", user_id="max", max_classification=Classification.PUBLIC)
    await put_policy(rig, cross_org=CrossOrg.ALLOW)
    trial = Trial(Party(""), Party(""), Purpose.INFORMATION_QUERY)

    denied = await trials.explain(rig.team, ADMIN, "alice", "mia", trial)

    assert (denied.code, denied.why) == (
        "classification_exceeded",
        "the message is internal; mia may know at most public",
    )
    found = {one.check: (one.value, one.source) for one in denied.steps}
    assert found["cross_org"] == ("allow", "enterprise/default")
    assert found["max_classification (receiver)"] == ("public", "directory")


@with_rig
async def test_rules_of_the_organisations_own_are_named_where_they_are_asked_besides(rig: Rig) -> None:
    class Silent:
        async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
            return ruling

    trial = Trial(Party(""), Party(""))
    without = await trials.explain(rig.team, ADMIN, "alice", "bob", trial)
    rig.team.governance.extension = Silent()
    besides = await trials.explain(rig.team, ADMIN, "alice", "bob", trial)

    assert [one.check for one in besides.steps if one not in without.steps] == ["own rules"]
