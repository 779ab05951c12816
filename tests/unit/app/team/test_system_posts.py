"""What the server itself says in a channel."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parley.app.team import system_posts
from parley.app.team.audit import retention
from parley.app.team.channels import posting, streams
from parley.app.team.channels.posting import Held
from parley.app.team.channels.streams import Followed
from parley.app.team.decisions import exchanges
from parley.app.team.work import sweep
from parley.domain.channel.channel import Channel, ChannelStatus, MemberPolicy, Options
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post, PostState
from parley.domain.directory.callers import DEFAULT_TENANT, SYSTEM, KeyKind
from parley.domain.exchange.approval import Approval, ApprovalStatus, Decision, decided
from parley.domain.message.message import Pattern
from parley.domain.record import expecting
from parley.domain.rules.policy import AppliesTo, CrossOrg
from parley.domain.store.changes import TeamChanges
from tests.rigs.governed import (
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
from tests.rigs.team import CHANNEL, Rig, with_rig
from tests.samples.governed import an_approval


@pytest.mark.parametrize(("to", "recipients"), [("*", None), ("bob", ("bob",))])
@with_rig
async def test_a_word_is_for_everyone_or_for_one_agent_alone(
    rig: Rig, to: str, recipients: tuple[str, ...] | None
) -> None:
    channel = await rig.channel()

    post = system_posts.spoken(rig.team, channel, b'{"event":"x"}', rig.at(), to=to)

    assert (post.sender, post.to, post.recipients) == ("system", to, recipients)
    assert (post.pattern, post.state, post.exchange_id) == (Pattern.NOTIFY, PostState.DELIVERED, "")
    assert (post.channel_id, post.intent_id, post.payload) == (channel.id, channel.intent_id, b'{"event":"x"}')


@with_rig
async def test_nothing_is_said_in_a_channel_that_is_closed_or_whose_time_ran_out(rig: Rig) -> None:
    await rig.intent()
    forever = await rig.channel()
    short = await rig.channel("chan_2", options=Options(ttl_seconds=60))
    closed = replace(forever, status=ChannelStatus.CLOSED)

    async def alive() -> list[bool]:
        return [await system_posts.is_alive(rig.team, one, rig.at()) for one in (forever, short, closed)]

    assert await alive() == [True, True, False]
    rig.clock.pass_by(minutes=1)
    assert await alive() == [True, False, False]


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
        await streams.is_visible(rig.team, rig.caller(agent), followed, FeedItem.of_post(word))
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

    changes = await system_posts.with_decisions(rig.team, TeamChanges(DEFAULT_TENANT), tuple(over), rig.at())

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
    assert not await streams.is_visible(rig.team, rig.caller("alice"), Followed(agent="alice"), FeedItem.of_post(word))


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
