from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parley.app.team.audit import retention
from parley.app.team.channels import posting, streams
from parley.app.team.channels.posting import Held
from parley.app.team.channels.streams import Followed
from parley.app.team.decisions import exchanges
from parley.app.team.rules import holding
from parley.app.team.work import sweep
from parley.domain.channel.channel import Channel, ChannelStatus, MemberPolicy, Options
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post
from parley.domain.directory.callers import DEFAULT_TENANT, SYSTEM, KeyKind
from parley.domain.exchange.approval import Approval, ApprovalStatus, Decision, content_digest, decided
from parley.domain.exchange.exchange import escalated
from parley.domain.hashes import digest
from parley.domain.message.message import Pattern
from parley.domain.record import expecting
from parley.domain.rules.policy import AppliesTo, CrossOrg
from parley.domain.store.changes import Spend, TeamChanges
from tests.governed_rig import (
    a_draft,
    decide,
    entries,
    exchange_of,
    held,
    person,
    place,
    put_policy,
    refusal,
    said,
    send,
    two_agents,
    waiting,
)
from tests.governed_samples import a_held_draft, an_approval, an_exchange
from tests.team_rig import CHANNEL, Rig, with_rig


@with_rig
async def test_an_approval_is_bound_to_everything_that_would_be_sent(rig: Rig) -> None:
    await two_agents(rig)
    label = await put_policy(rig)

    approval = await held(rig, "alice", "bob", "We promise it.", classification="public", note="beside it")

    assert approval.draft is not None
    assert (approval.draft.pattern, approval.draft.to, approval.policy_version) == ("request", "bob", label)
    assert "beside it" in approval.draft.metadata
    assert approval.digest == content_digest(approval.draft, "alice", "public", label)


@with_rig
async def test_nobody_decides_longer_than_the_policy_or_the_exchange_or_the_message_lasts(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, approval_hours=2)

    by_policy = await held(rig, "alice", "bob")
    by_exchange = await held(rig, "alice", "bob", expires_at="2026-03-13T15:00:00Z")

    assert by_policy.expires_at == "2026-03-13T16:30:00.000000+00:00"
    assert by_exchange.expires_at == "2026-03-13T15:00:00.000000+00:00"


@with_rig
async def test_what_is_over_with_its_exchange_is_closed_and_what_was_decided_stays(rig: Rig) -> None:
    await two_agents(rig)
    first = await held(rig, "alice", "bob", conversation_id="conv-1")
    second = await held(rig, "bob", "alice", conversation_id="conv-1")
    exchange = await exchange_of(rig, first)

    all_of_it = await holding.closing(rig.team, exchange, "ann")
    but_one = await holding.closing(rig.team, exchange, "ann", but=first.id)
    unknown = await holding.closing(rig.team, escalated(an_exchange(), "appr_none"), "ann")

    assert [(one.id, one.status, one.decided_by) for one in all_of_it.approvals] == [
        (first.id, ApprovalStatus.CLOSED, "ann"),
        (second.id, ApprovalStatus.CLOSED, "ann"),
    ]
    assert [one.key for one in all_of_it.spends] == ["approvals/alice", "approvals/bob"]
    assert [(one.side, one.action, one.facts["decision"]) for one in all_of_it.audits] == [
        ("alice", "approval_decided", "closed"),
        ("bob", "approval_decided", "closed"),
    ]
    assert [one.id for one in but_one.approvals] == [second.id]
    assert unknown == ((), (), ())


def test_only_what_took_a_place_in_the_queue_leaves_one() -> None:
    assert holding.left_queue(an_approval()) == (Spend("approvals/alice", 0, amount=-1),)
    assert holding.left_queue(an_approval(unique="loop/conv-1")) == ()


def test_the_digest_of_the_payload_is_that_of_its_delivery() -> None:
    assert holding.payload_digest(a_held_draft(payload="{}")) == digest(b"{}")


@with_rig
async def test_of_what_there_is_only_one_it_is_found_decided_or_not(rig: Rig) -> None:
    await rig.put(an_approval(unique="loop/conv-1"))

    pending = await holding.only_one(rig.team, DEFAULT_TENANT, "loop/conv-1")
    assert pending is not None
    await rig.put(replace(pending, status=ApprovalStatus.REJECTED))
    decided = await holding.only_one(rig.team, DEFAULT_TENANT, "loop/conv-1")

    assert decided is not None
    assert (pending.status, decided.status) == (ApprovalStatus.PENDING, ApprovalStatus.REJECTED)
    assert await holding.only_one(rig.team, DEFAULT_TENANT, "loop/conv-2") is None


@with_rig
async def test_an_escalation_of_a_limit_releases_nothing_and_shows_what_was_tried(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "dora")
    await put_policy(rig, pair_budget=1)
    await said(rig, "alice", "bob")

    refused = await refusal(send(rig, "alice", "bob", "and more", pattern=Pattern.NOTIFY))

    approval = await waiting(rig, an_approval(id=str(refused.facts["approval"])))
    assert approval.draft is not None
    assert (approval.draft.payload, approval.agent, approval.user) == ('{"text":"and more"}', "alice", "ann")
    assert approval.name.startswith("pair_budget/alice,bob/")


# ---------------------------------------------------------------- the agent learns what became of it


async def words(rig: Rig) -> list[Post]:
    """What the server said."""
    found = [item.post for item in await rig.store.feed(DEFAULT_TENANT, 0) if item.post]
    return [one for one in found if one.sender == SYSTEM]


async def told(rig: Rig) -> list[tuple[str, dict[str, Any]]]:
    """To whom, and what."""
    return [(one.to, json.loads(one.payload)) for one in await words(rig)]


def a_word(approval: Approval, status: str, message_id: str | None = None, note: str | None = None) -> tuple[str, Any]:
    says = {"approval_id": approval.id, "status": status, "message_id": message_id, "note": note}
    return approval.agent, {"event": "approval_decided", **says}


@pytest.mark.parametrize(
    ("decision", "status", "goes_out"),
    [
        (Decision.APPROVE, "approved", True),
        (Decision.ANSWER, "answered", True),
        (Decision.REJECT, "rejected", False),
    ],
)
@with_rig
async def test_the_agent_is_told_what_a_person_decided(
    rig: Rig, decision: Decision, status: str, goes_out: bool
) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    commits = await commits_of(rig)

    done = await decide(rig, "ann", approval, decision, note="as we said")

    assert await told(rig) == [a_word(approval, status, done.message_id or None, "as we said")]
    assert bool(done.message_id) == goes_out
    assert len(commits) == 1


async def commits_of(rig: Rig) -> list[int]:
    """Where each commit from now on leads."""
    found: list[int] = []
    rig.store.watch(lambda _, committed: found.append(committed.position))
    return found


@with_rig
async def test_nobody_but_the_agent_sees_what_it_was_told(rig: Rig) -> None:
    await two_agents(rig)
    await decide(rig, "ann", await held(rig, "alice", "bob"), Decision.REJECT)
    (word,) = await words(rig)

    shown = [
        await streams.shows(rig.team, rig.caller(agent), followed, FeedItem.of_post(word))
        for agent in ("alice", "bob")
        for followed in (Followed(agent=agent), Followed(channel_id=CHANNEL))
    ]

    assert (word.recipients, word.pattern, shown) == (("alice",), Pattern.NOTIFY, [True, True, False, False])


@with_rig
async def test_what_is_told_is_no_part_of_the_exchange_its_record_or_the_log(rig: Rig) -> None:
    await two_agents(rig)
    await rig.put(replace(await channel_of(rig), options=Options(audit=True)))
    approval = await held(rig, "alice", "bob")

    await decide(rig, "ann", approval, Decision.APPROVE)

    exchange = await exchange_of(rig, approval)
    (word,) = await words(rig)
    assert (exchange.current_round, len(exchange.transcript)) == (1, 1)
    assert word.id not in json.dumps(await entries(rig))
    events = [item.event.document for item in await rig.store.feed(DEFAULT_TENANT, 0) if item.event]
    assert len(events) == 1
    assert word.id.encode() not in events[0]


async def channel_of(rig: Rig) -> Channel:
    found = await rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    assert found is not None
    return found


@with_rig
async def test_the_agent_is_told_that_nobody_decided_in_time(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, approval_hours=1)
    approval = await held(rig, "alice", "bob")
    rig.clock.pass_by(hours=1)

    await sweep.sweep(rig.team)
    await sweep.sweep(rig.team)

    assert await told(rig) == [a_word(approval, "expired")]


@with_rig
async def test_each_agent_is_told_that_what_it_wanted_to_say_is_over_with_the_exchange(rig: Rig) -> None:
    await two_agents(rig)
    first = await held(rig, "alice", "bob", conversation_id="conv-1")
    second = await held(rig, "bob", "alice", conversation_id="conv-1")
    third = await held(rig, "alice", "bob", conversation_id="conv-2")

    await decide(rig, "ann", first, Decision.REJECT)
    await exchanges.close(rig.team, person("ann"), third.exchange_id, "enough")

    assert await told(rig) == [a_word(first, "rejected"), a_word(second, "closed"), a_word(third, "closed")]


@with_rig
async def test_the_agent_is_told_when_its_release_turns_out_to_be_denied(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales")
    await put_policy(rig, cross_org=CrossOrg.APPROVAL)
    approval = await held(rig, "alice", "carol", "hello")
    await put_policy(rig, cross_org=CrossOrg.DENY)
    await refusal(decide(rig, "ann", approval))
    assert await told(rig) == []

    await refusal(decide(rig, "ann", await waiting(rig, approval)))

    assert await told(rig) == [a_word(approval, "closed")]


@with_rig
async def test_who_ends_an_exchange_by_a_message_gets_that_message_back_and_no_other(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, applies_to=AppliesTo.ALL)
    first, last = (
        a_draft("bob", text, pattern=Pattern.NOTIFY, conversation_id="conv-1")
        for text in ("We promise it.", "It is done.")
    )
    waits = await posting.post(rig.team, rig.caller("alice"), CHANNEL, first)
    assert isinstance(waits, Held)

    (post,) = await posting.post_all(rig.team, rig.caller("alice"), CHANNEL, (last,))

    assert post.payload == b'{"text":"It is done."}'
    assert await told(rig) == [a_word(waits.approval, "closed")]


@with_rig
async def test_the_agent_is_told_that_what_another_was_denied_ended_it(rig: Rig) -> None:
    await two_agents(rig)
    await said(rig, "alice", "bob", conversation_id="conv-1")
    waits = await held(rig, "bob", "alice", conversation_id="conv-1")

    await refusal(send(rig, "alice", "bob", classification="restricted", conversation_id="conv-1"))

    assert await told(rig) == [a_word(waits, "closed")]


@with_rig
async def test_a_limit_that_a_person_looked_at_is_told_to_whom_it_stopped(rig: Rig) -> None:
    await two_agents(rig)
    await put_policy(rig, pair_budget=1)
    await said(rig, "alice", "bob")
    refused = await refusal(send(rig, "alice", "bob", "more"))
    limit = await waiting(rig, an_approval(id=str(refused.facts["approval"])))

    done = await decide(rig, "ann", limit, Decision.ANSWER)

    assert await told(rig) == [a_word(limit, "answered", done.message_id)]


@pytest.mark.parametrize("gone", [False, True])
@with_rig
async def test_where_the_channel_is_closed_or_gone_nothing_is_said(rig: Rig, gone: bool) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    channel = await channel_of(rig)
    over = replace(channel, status=ChannelStatus.CLOSED)
    await rig.store.commit(
        TeamChanges(DEFAULT_TENANT, drops=(channel,)) if gone else TeamChanges(DEFAULT_TENANT, puts=(over,))
    )

    done = await decide(rig, "ann", approval, Decision.REJECT)

    assert done.status is ApprovalStatus.REJECTED
    assert await words(rig) == []


@with_rig
async def test_a_word_depends_on_its_channel_being_as_it_was_seen(rig: Rig) -> None:
    await two_agents(rig)
    over = [decided(await held(rig, "alice", "bob"), ApprovalStatus.REJECTED, "ann", rig.at(), "") for _ in range(2)]

    changes = await holding.told(rig.team, TeamChanges(DEFAULT_TENANT), *over)

    assert changes.expects == (expecting(await channel_of(rig)),)
    assert len(changes.posts) == 2


@with_rig
async def test_an_agent_that_is_no_longer_a_member_is_told_nothing_that_it_could_read(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    channel = replace(await channel_of(rig), policy=MemberPolicy.EXPLICIT, members=(), created_by="bob")
    await rig.put(channel)

    await decide(rig, "ann", approval, Decision.REJECT)

    (word,) = await words(rig)
    assert not await streams.shows(rig.team, rig.caller("alice"), Followed(agent="alice"), FeedItem.of_post(word))


@pytest.mark.both_stores
@pytest.mark.parametrize("names", [{"conversation_id": "conv-1"}, {"agent_id": "alice"}])
@with_rig
async def test_what_a_person_wrote_is_erased_with_what_it_is_about(rig: Rig, names: dict[str, str]) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob", conversation_id="conv-1")
    await decide(rig, "ann", approval, Decision.REJECT, note="not about Globex")

    await retention.erase(rig.team, rig.caller(kind=KeyKind.ADMIN), **names)

    (word,) = await words(rig)
    assert word.erased
    assert b"Globex" not in word.payload


@with_rig
async def test_the_agent_is_told_that_what_waited_was_erased(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob", conversation_id="conv-1")

    await retention.erase(rig.team, rig.caller(kind=KeyKind.ADMIN), conversation_id="conv-1")

    assert await told(rig) == [a_word(approval, "closed")]
