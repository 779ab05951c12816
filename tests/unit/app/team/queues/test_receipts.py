"""What the sender of a message learns, and what wakes it."""

from __future__ import annotations

import asyncio

import pytest

from parley.app.team.channels import posting, reading
from parley.app.team.queues import receipts, waiting
from parley.domain.channel.post import Post, PostDraft
from parley.domain.errors.errors import NotFound
from parley.domain.message.message import Pattern
from parley.domain.receipts import ReceiptState
from tests.rigs.team import CHANNEL, Rig, with_rig


async def exchange(rig: Rig) -> tuple[Post, Post]:
    """A request of alice to bob, and its answer."""
    await rig.open_channel()
    asked = await posting.post(rig.team, rig.caller("alice"), CHANNEL, PostDraft(Pattern.REQUEST, b"{}", "bob"))
    assert isinstance(asked, Post)
    answer = PostDraft(Pattern.RESPONSE, b"{}", in_reply_to=asked.id)
    answered = await posting.reply(rig.team, rig.caller("bob"), CHANNEL, asked.id, answer)
    assert isinstance(answered, Post)
    return asked, answered


@with_rig
async def test_an_answer_that_was_handed_out_is_not_acknowledged(rig: Rig) -> None:
    """The server marks it as read, so that it is not handed out twice, and cannot know whether it arrived."""
    _, answer = await exchange(rig)
    await waiting.finish_answer(rig.team, rig.caller("alice"), answer)

    assert (await reading.get(rig.team, rig.caller("alice"), CHANNEL, answer.id)).read_at
    assert (await receipts.get(rig.team, rig.caller("bob"), answer.id)).state is ReceiptState.QUEUED


@with_rig
async def test_who_waits_is_refused_when_its_key_is_revoked(rig: Rig) -> None:
    asked, _ = await exchange(rig)
    message = await posting.post(rig.team, rig.caller("alice"), CHANNEL, PostDraft(Pattern.NOTIFY, b"{}", "bob"))
    assert isinstance(message, Post)
    await rig.key("alice")
    alice = rig.caller("alice")
    wait = asyncio.ensure_future(receipts.wait_until(rig.team, alice, message.id, ReceiptState.ACTED, 60))
    await asyncio.sleep(0)
    await rig.revoke("alice")

    with pytest.raises(Exception, match="key"):
        await wait
    assert (await receipts.wait_until(rig.team, alice, asked.id, ReceiptState.ACTED, 60)).state is ReceiptState.ACTED
    with pytest.raises(NotFound):
        await receipts.get(rig.team, rig.caller("bob"), asked.id)
    assert not len(rig.team.tail)
