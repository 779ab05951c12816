"""What the server itself says in a channel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.app.team import system_posts
from parley.domain.channel.channel import ChannelStatus, Options
from parley.domain.channel.post import PostState
from parley.domain.message.message import Pattern
from tests.team_rig import Rig, with_rig


@pytest.mark.parametrize(("to", "recipients"), [("*", None), ("bob", ("bob",))])
@with_rig
async def test_a_word_is_for_everyone_or_for_one_agent_alone(
    rig: Rig, to: str, recipients: tuple[str, ...] | None
) -> None:
    channel = await rig.channel()

    said = system_posts.spoken(rig.team, channel, b'{"event":"x"}', rig.at(), to=to)

    assert (said.sender, said.to, said.recipients) == ("system", to, recipients)
    assert (said.pattern, said.state, said.exchange_id) == (Pattern.NOTIFY, PostState.DELIVERED, "")
    assert (said.channel_id, said.intent_id, said.payload) == (channel.id, channel.intent_id, b'{"event":"x"}')


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
