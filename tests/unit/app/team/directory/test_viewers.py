"""Which of a person's agents can see something: the one that hears it, and never one that has left."""

from __future__ import annotations

import pytest

from parley.app.team.channels import reading, requests
from parley.app.team.channels.reading import MessageFilter
from parley.app.team.directory import agents, viewers
from parley.app.team.rules import suspensions
from parley.domain.channel.channel import Channel
from parley.domain.directory.access import Access
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, Caller, KeyKind
from parley.domain.errors.team import WrongSender
from parley.domain.message.message import Pattern
from parley.domain.rules.suspension import Stopped
from tests.rigs.governed import person, place
from tests.rigs.team import CHANNEL, INTENT, Rig, with_rig

pytestmark = pytest.mark.both_stores


async def two_of_ann(rig: Rig) -> Caller:
    """A channel of alice, bob and carol, of whom bob and carol act for ann."""
    await rig.open_channel()
    for agent, user in (("alice", "al"), ("bob", "ann"), ("carol", "ann")):
        await place(rig, agent, user_id=user)
    return person("ann")


async def reader_of(rig: Rig, caller: Caller) -> str:
    channel = await rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    access = await rig.store.get(Access, DEFAULT_TENANT, INTENT)
    assert channel is not None
    assert access is not None
    found = await viewers.find_reader(rig.team, channel, access, await viewers.list_viewers(rig.team, caller))
    assert found is not None
    return found.agent


@with_rig
async def test_a_person_reads_a_channel_as_the_agent_that_hears_its_newest_message(rig: Rig) -> None:
    ann = await two_of_ann(rig)
    assert await reader_of(rig, ann) == "bob"

    await rig.say("alice", to="carol")
    assert await reader_of(rig, ann) == "carol"
    assert (await viewers.find_viewer(rig.team, ann, CHANNEL)).agent == "carol"

    await rig.say("alice", to="bob")
    assert await reader_of(rig, ann) == "bob"


@with_rig
async def test_nobody_reads_as_an_agent_that_has_left(rig: Rig) -> None:
    ann = await two_of_ann(rig)
    await rig.agent("carol", status=AgentStatus.DEREGISTERED)

    assert [viewer.caller.agent for viewer in await viewers.list_viewers(rig.team, ann)] == ["bob", "ann"]
    with pytest.raises(WrongSender):
        await agents.as_agent_of(rig.team, ann, "carol")
    page = await reading.page(rig.team, await agents.as_agent_of(rig.team, ann, "bob"), CHANNEL, MessageFilter())
    assert page.messages == ()


@with_rig
async def test_what_was_asked_of_a_suspended_agent_is_not_shown_to_its_person(rig: Rig) -> None:
    ann = await two_of_ann(rig)
    await rig.say("alice", to="carol", pattern=Pattern.REQUEST)
    assert dict(await requests.open_by_agent(rig.team, ann)) == {"carol": 1}

    await suspensions.suspend(rig.team, rig.caller("", KeyKind.ADMIN), Stopped.AGENT, "carol", "leak")

    assert dict(await requests.open_by_agent(rig.team, ann)) == {}
