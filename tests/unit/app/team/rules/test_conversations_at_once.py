"""Messages in one conversation at the same moment: on one node or on several, like those before or decided."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext

import pytest

from parley.app.team.channels import posting
from parley.app.team.rules import governing
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import Invalid
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import AppliesTo
from parley.domain.store.changes import AuditQuery
from tests.rigs.dialogues import BACK, BEGUN, KNOWN, deliver, exchange_of, said
from tests.rigs.governed import put_policy
from tests.rigs.remembered import (
    Message,
    govern,
)
from tests.rigs.team import CHANNEL, Rig, before_the_commit, with_rig


@pytest.mark.both_stores
@with_rig
async def test_of_two_that_open_a_conversation_at_once_the_second_finds_the_exchange_of_the_first(rig: Rig) -> None:
    await govern(rig)
    for message in KNOWN:
        await deliver(rig, message)

    # One like those before, and one like none before: it is decided.
    posts = await asyncio.gather(deliver(rig, BEGUN), deliver(rig, said("alice", "bob", "four", "We decided it.")))

    exchange = await exchange_of(rig, "four")
    assert exchange is not None
    assert {post.exchange_id for post in posts} == {exchange.id}
    assert exchange.current_round == 2


async def _round_of(rig: Rig, message: Message) -> int | None:
    """In which round a message is delivered; None when it is held."""
    outcome = await posting.post(rig.team, rig.caller(message.sender), message.channel_id, message.draft)
    return None if isinstance(outcome, posting.Held) else _round(outcome)


def _round(post: Post) -> int:
    return int(json.loads(post.metadata)["ocip"]["exchange_round"])


@pytest.mark.both_stores
@pytest.mark.parametrize("address", ["role:tester", "*"])
@with_rig
async def test_a_message_to_several_leaves_no_more_rounds_to_one_that_is_under_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """By a role, or everyone, nobody gets more rounds than a conversation has."""
    await govern(rig)
    await rig.role("tester", "bob", "carol")
    for message in (*KNOWN, BEGUN, BACK):
        await deliver(rig, message)
    rounds: list[int | None] = []

    async def say_to_several(rig: Rig) -> None:
        rounds.append(await _round_of(rig, said("alice", address, "four")))

    before_the_commit(rig, monkeypatch, say_to_several)
    # The lock is of one node.
    monkeypatch.setattr(governing, "lock_conversation", lambda *_: nullcontext())
    rounds.append(await _round_of(rig, BEGUN))

    assert rounds == [3, None]


@pytest.mark.both_stores
@with_rig
async def test_an_answer_takes_no_round_that_a_message_to_several_took(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    await rig.role("tester", "carol")
    request = await deliver(rig, BEGUN._replace(metadata={**BEGUN.metadata, "max_rounds": 2}, pattern=Pattern.REQUEST))
    rounds: list[int | None] = []

    async def say_to_several(rig: Rig) -> None:
        rounds.append(await _round_of(rig, said("bob", "role:tester", "four")))

    before_the_commit(rig, monkeypatch, say_to_several)
    answer = PostDraft(Pattern.RESPONSE, b'{"text":"Fine."}', "")
    outcome = await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, answer)

    assert rounds == [2]
    assert isinstance(outcome, posting.Held)


async def _ask_back(rig: Rig, conversation: str) -> Post:
    """Bob asks alice in a conversation that she has begun."""
    await deliver(rig, said("alice", "bob", conversation))
    return await deliver(rig, said("bob", "alice", conversation)._replace(pattern=Pattern.REQUEST))


@pytest.mark.both_stores
@pytest.mark.parametrize("answers", [False, True])
@with_rig
async def test_what_an_agent_is_told_in_a_conversation_counts_in_all_that_it_says_after_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """It is one hop further on, whether it is decided or like those before."""
    await govern(rig)
    answer = PostDraft(Pattern.RESPONSE, b'{"text":"Fine."}', "")
    for message in KNOWN:
        await deliver(rig, message)
    asked = [await _ask_back(rig, conversation) for conversation in ("five", "six", "seven", "four")]
    for request in asked[:3]:
        await posting.reply(rig.team, rig.caller("alice"), CHANNEL, request.id, answer)
    told: list[Post] = []

    async def tell_alice(rig: Rig) -> None:
        told.append(await deliver(rig, said("carol", "alice", "four")))

    before_the_commit(rig, monkeypatch, tell_alice)
    # The lock is of one node, and messages like those before do not wait for it.
    monkeypatch.setattr(governing, "lock_conversation", lambda *_: nullcontext())
    if answers:
        after = await posting.reply(rig.team, rig.caller("alice"), CHANNEL, asked[3].id, answer)
    else:
        after = await deliver(rig, BEGUN)

    assert isinstance(after, Post)
    assert after.seq == told[0].seq + 1
    trail = await rig.store.audits(DEFAULT_TENANT, AuditQuery(limit=1000))
    entries = [json.loads(entry.document) for entry in trail]
    assert [entry["hops"] for entry in entries if entry.get("message_id") == after.id] == [2, 2]


@pytest.mark.both_stores
@with_rig
async def test_of_two_first_messages_at_once_one_takes_the_second_round(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    await rig.role("tester", "carol")
    rounds: list[int | None] = []

    async def say_to_several(rig: Rig) -> None:
        rounds.append(await _round_of(rig, said("alice", "role:tester", "four")))

    before_the_commit(rig, monkeypatch, say_to_several)
    monkeypatch.setattr(governing, "lock_conversation", lambda *_: nullcontext())
    rounds.append(await _round_of(rig, BEGUN))

    assert rounds == [1, 2]


@pytest.mark.both_stores
@pytest.mark.parametrize("policy", [AppliesTo.ALL, AppliesTo.ANNOTATED])
@with_rig
async def test_a_node_that_missed_how_a_conversation_began_finds_it_after_the_first_try(
    rig: Rig, policy: AppliesTo
) -> None:
    await govern(rig)
    await put_policy(rig, applies_to=policy)
    first = await deliver(rig, said("bob", "alice", "four"))
    rig.team.governance._conversations[DEFAULT_TENANT, "four"] = ()

    outcome = await posting.post(rig.team, rig.caller("alice"), CHANNEL, UNASKED._replace(text="Thanks.").draft)

    assert isinstance(outcome, Post)
    assert (outcome.exchange_id, _round(outcome)) == (first.exchange_id, 2)


@pytest.mark.both_stores
@with_rig
async def test_nobody_opens_an_exchange_in_a_conversation_of_a_batch_that_is_under_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _ready_for_annotated(rig)
    await deliver(rig, said("alice", "carol", "four"))
    names = ("five", "four", "five")
    drafts = [UNASKED._replace(metadata={"conversation_id": name}).draft for name in names]
    are_locked: list[bool] = []

    async def look_at_locks(rig: Rig) -> None:
        are_locked.extend([rig.team.governance.lock(DEFAULT_TENANT, name).locked() for name in names])

    before_the_commit(rig, monkeypatch, look_at_locks)
    posts = await posting.post_all(rig.team, rig.caller("alice"), CHANNEL, drafts)

    assert [post.exchange_id for post in posts] == ["", "", ""]
    assert are_locked == [True, True, True]


async def _ready_for_annotated(rig: Rig) -> None:
    """Only messages that ask for something are governed, and those that go on with an exchange."""
    await govern(rig)
    await put_policy(rig, applies_to=AppliesTo.ANNOTATED)
    for message in KNOWN:
        await deliver(rig, message)


UNASKED = Message("alice", "bob", {"conversation_id": "four"}, "We promise it.")


@pytest.mark.sqlite_only
@with_rig
async def test_a_message_that_is_not_governed_is_decided_again_when_its_conversation_is_opened_meanwhile(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _ready_for_annotated(rig)
    before_the_commit(rig, monkeypatch, lambda rig: deliver(rig, BEGUN))

    outcome = await posting.post(rig.team, rig.caller("alice"), CHANNEL, UNASKED.draft)

    assert isinstance(outcome, posting.Held)
    exchange = await exchange_of(rig, "four")
    assert exchange is not None
    assert outcome.approval.exchange_id == exchange.id


@pytest.mark.sqlite_only
@with_rig
async def test_each_conversation_that_a_batch_names_is_looked_at_in_its_commit(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _ready_for_annotated(rig)
    drafts = [UNASKED._replace(metadata={"conversation_id": name}).draft for name in ("four", "five")]
    before_the_commit(rig, monkeypatch, lambda rig: deliver(rig, BEGUN))

    with pytest.raises(Invalid, match="one by one"):
        await posting.post_all(rig.team, rig.caller("alice"), CHANNEL, drafts)


@pytest.mark.both_stores
@with_rig
async def test_a_message_in_a_conversation_without_an_exchange_is_not_governed_where_nobody_asks(rig: Rig) -> None:
    await _ready_for_annotated(rig)

    posts = [await deliver(rig, UNASKED) for _ in range(3)]

    assert {post.exchange_id for post in posts} == {""}
