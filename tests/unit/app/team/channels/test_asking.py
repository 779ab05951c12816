"""Asking: a request, and the wait for its first answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from parley.app.team.channels import posting
from parley.app.team.channels.asking import ask, resume_ask
from parley.app.team.channels.posting import Held
from parley.app.team.rules.suspensions import suspend
from parley.domain.channel.channel import Channel, closed
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Invalid
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import (
    AskTimeout,
    CircularWait,
    MessageExpired,
    Unauthorized,
)
from parley.domain.message.message import Pattern
from parley.domain.rules.suspension import Stopped
from parley.domain.store.changes import TeamChanges
from parley.domain.times import stamp
from tests.rigs.node import two_nodes
from tests.rigs.team import (
    CHANNEL,
    PATIENCE,
    Rig,
    in_loop,
    refusal,
    soon,
    with_rig,
)

pytestmark = pytest.mark.both_stores

NOTE = PostDraft(Pattern.NOTIFY, b"{}")
QUESTION = PostDraft(Pattern.REQUEST, b'{"q":1}', "bob")
REPLY = PostDraft(Pattern.NOTIFY, b'{"a":1}')


async def asking(rig: Rig, sender: str, to: str, seconds: float = PATIENCE) -> asyncio.Task[Post | Held]:
    """An ask that has been posted and waits."""
    before = (await rig.store.tally(DEFAULT_TENANT, CHANNEL)).total
    draft = PostDraft(Pattern.REQUEST, b"{}", to)
    task = asyncio.create_task(ask(rig.team, rig.caller(sender), CHANNEL, draft, seconds))

    async def posted() -> bool:
        return (await rig.store.tally(DEFAULT_TENANT, CHANNEL)).total > before or task.done()

    await soon(posted)
    return task


async def last_request(rig: Rig, to: str) -> Post:
    found = [item.post for item in await rig.store.feed("default", 0) if item.post and item.post.to == to]
    return found[-1]


@with_rig
async def test_an_ask_returns_the_first_answer(rig: Rig) -> None:
    await rig.open_channel()
    await rig.role("billing", "bob", "carol")
    ask = await asking(rig, "alice", "role:billing")
    request = await last_request(rig, "role:billing")

    first = await posting.reply(rig.team, rig.caller("carol"), CHANNEL, request.id, REPLY)
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY)

    assert await ask == first


@with_rig
async def test_an_ask_gives_up_in_time_and_its_request_expires_with_it(rig: Rig) -> None:
    await rig.open_channel()

    with pytest.raises(AskTimeout) as gave_up:
        await ask(rig.team, rig.caller("alice"), CHANNEL, QUESTION, 0.01)

    request = await last_request(rig, "bob")
    assert gave_up.value.facts["request_id"] == request.id
    assert request.expires_at == stamp(rig.clock.at + timedelta(seconds=0.01))


@with_rig
async def test_the_patience_of_an_ask_counts_from_when_it_is_posted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.open_channel()
    decide = posting.decide

    async def slowly(*args: Any, **options: Any) -> posting.PendingCommit:  # noqa: ANN401
        decision = await decide(*args, **options)
        rig.clock.pass_by(seconds=1)
        return decision

    monkeypatch.setattr(posting, "decide", slowly)

    with pytest.raises(AskTimeout):  # not: that its end lies in the past
        await ask(rig.team, rig.caller("alice"), CHANNEL, QUESTION, 0.01)


@with_rig
async def test_only_a_request_can_be_asked(rig: Rig) -> None:
    await rig.open_channel()

    assert await refusal(ask(rig.team, rig.caller("alice"), CHANNEL, NOTE, 1)) is Invalid


@with_rig
async def test_agents_that_would_wait_for_each_other_are_named(rig: Rig) -> None:
    await rig.open_channel()
    first = await asking(rig, "alice", "bob")
    second = await asking(rig, "bob", "carol")

    with pytest.raises(CircularWait) as refused:
        await ask(rig.team, rig.caller("carol"), CHANNEL, PostDraft(Pattern.REQUEST, b"{}", "alice"), PATIENCE)

    assert refused.value.facts["agents"] == ["carol", "alice", "bob", "carol"]
    assert (await rig.store.tally(DEFAULT_TENANT, CHANNEL)).total == 2
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    third = await asking(rig, "carol", "alice")
    assert (await rig.store.tally(DEFAULT_TENANT, CHANNEL)).total == 3
    third.cancel()


@with_rig
async def test_an_ask_ends_when_its_channel_does(rig: Rig) -> None:
    await rig.open_channel()
    ask = await asking(rig, "alice", "bob")
    channel = await rig.store.get(Channel, "default", CHANNEL)
    assert channel is not None

    await rig.store.commit(TeamChanges("default", puts=(closed(channel, rig.at(), timedelta()),), ended=(CHANNEL,)))

    assert await refusal(ask) is MessageExpired


@in_loop
async def test_an_ask_ends_at_once_when_its_agent_is_suspended_or_its_key_revoked_on_another_node(
    tmp_path: Path,
) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await a.intent()
        await a.channel()
        for agent in ("alice", "bob"):
            await a.key(agent)
        first, second = await asking(a, "alice", "carol"), await asking(a, "bob", "carol")

        await suspend(b.team, b.caller("", KeyKind.ADMIN), Stopped.AGENT, "alice", "")
        assert await refusal(first) is Suspended
        assert not second.done()
        await b.revoke("bob")
        assert await refusal(second) is Unauthorized


@with_rig
async def test_who_asks_again_gets_the_answer_that_was_given_meanwhile(rig: Rig) -> None:
    await rig.open_channel()
    ask = await asking(rig, "alice", "bob")
    request = await last_request(rig, "bob")
    ask.cancel()
    await asyncio.gather(ask, return_exceptions=True)

    answer = await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY)

    assert await resume_ask(rig.team, rig.caller("alice"), request.id, 1) == answer


@with_rig
async def test_two_may_wait_for_one_answer(rig: Rig) -> None:
    await rig.open_channel()
    first = await asking(rig, "alice", "bob")
    request = await last_request(rig, "bob")
    second = asyncio.create_task(resume_ask(rig.team, rig.caller("alice"), request.id, PATIENCE))
    third = asyncio.create_task(resume_ask(rig.team, rig.caller("alice"), request.id, PATIENCE))
    await soon(lambda: len(rig.team.waits._by_request[request.id].answers) == 3)
    first.cancel()

    answer = await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY)

    assert await second == await third == answer
