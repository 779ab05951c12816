"""Channels: who makes, sees, changes and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from parley.app.team.channels import channels, posting, reading
from parley.app.team.channels.channels import ChannelChange, ChannelDraft, ChannelWithTally
from parley.domain.channel.channel import Channel, ChannelStatus, MemberPolicy, Options
from parley.domain.channel.post import PostDraft, PostState
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import AgentStatus, Caller, KeyKind
from parley.domain.directory.intent import IntentStatus, Task, TaskStatus
from parley.domain.errors.errors import BadName, Forbidden, Invalid, NotFound, Stale
from parley.domain.errors.team import (
    AgentDeparted,
    BadCorrelation,
    BadTransition,
    ChannelClosed,
    NameTaken,
    NoIntentAccess,
    NotManager,
    QuotaExceeded,
)
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges
from parley.domain.store.limits import TeamLimits
from parley.domain.times import stamp
from tests.rigs.team import CHANNEL, INTENT, Rig, delivered, refusal, with_rig

NOTE = PostDraft(Pattern.NOTIFY, b"{}")


def creates(rig: Rig, agent: str = "bob", **draft: object) -> Awaitable[ChannelWithTally]:
    wanted = ChannelDraft(**{"label": "talk", **draft})  # type: ignore[arg-type]
    return channels.create(rig.team, rig.caller(agent), INTENT, wanted)


def changes(rig: Rig, agent: str = "alice", **wanted: object) -> Awaitable[ChannelWithTally]:
    return channels.change(rig.team, rig.caller(agent), CHANNEL, ChannelChange(**wanted))  # type: ignore[arg-type]


def names(shown: ChannelWithTally) -> list[str]:
    return [one.agent for one in shown.channel.members]


def a_task(status: TaskStatus = TaskStatus.RUNNING, intent_id: str = INTENT) -> Task:
    return Task(
        id="task_1",
        tenant_id="default",
        intent_id=intent_id,
        title="t",
        status=status,
        created_by="alice",
        created_at="",
        updated_at="",
    )


# ---------------------------------------------------------------- create


@with_rig
async def test_a_channel_belongs_to_its_creator(rig: Rig) -> None:
    await rig.intent()

    shown = await creates(rig, members=("carol", "bob", "carol"), policy=MemberPolicy.EXPLICIT)

    assert (shown.channel.created_by, names(shown)) == ("bob", ["bob", "carol"])
    assert shown.channel.is_open
    assert (await channels.get(rig.team, rig.caller("carol"), shown.channel.id)).channel == shown.channel
    (entry,) = await rig.store.entries("default", 0, 9)
    assert (entry.entry.action, entry.entry.agent, entry.entry.facts["name"]) == ("channel_created", "bob", "talk")


@with_rig
async def test_a_key_that_speaks_for_nobody_makes_a_channel_of_those_it_names(rig: Rig) -> None:
    await rig.intent()
    admin = rig.caller(kind=KeyKind.ADMIN)

    shown = await channels.create(rig.team, admin, INTENT, ChannelDraft("talk", ("bob",)))
    changed = await channels.change(rig.team, admin, shown.channel.id, ChannelChange(add_members=("carol",)))

    assert names(shown) == ["bob"]
    assert names(changed) == ["bob", "carol"]


@with_rig
async def test_who_may_not_know_of_an_intent_makes_no_channel_on_it(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", Permission.READ), rig.grant("carol")))

    assert await refusal(creates(rig, "dave")) is NotFound
    assert await refusal(creates(rig, "bob")) is Forbidden
    assert (await creates(rig, "carol")).channel.label == "talk"


@with_rig
async def test_a_name_that_is_taken_says_by_which_channel(rig: Rig) -> None:
    await rig.intent()
    first = await creates(rig)

    with pytest.raises(NameTaken) as refused:
        await creates(rig, "carol")

    assert refused.value.facts["channel_id"] == first.channel.id


@pytest.mark.parametrize("label", ["", "a b", "x\n", "../x", "-x", "x" * 65, "con"])
@with_rig
async def test_a_channel_has_a_proper_name(rig: Rig, label: str) -> None:
    await rig.intent()

    assert await refusal(creates(rig, label=label)) is Invalid
    assert (await creates(rig, label="x" * 64)).channel.label == "x" * 64


@with_rig
async def test_members_are_agents_with_access_to_the_intent(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"), rig.grant("carol")))
    await rig.agent("carol", status=AgentStatus.DEREGISTERED)

    assert await refusal(creates(rig, members=("mallory",))) is NoIntentAccess
    assert await refusal(creates(rig, members=("carol",))) is AgentDeparted
    assert issubclass(await refusal(creates(rig, members=("system",))), BadName)


@with_rig
async def test_a_channel_has_so_many_members_and_no_more(rig: Rig) -> None:
    await rig.intent()
    rig.team.limits = TeamLimits(members=3)

    assert len(names(await creates(rig, members=("a", "b")))) == 3
    assert await refusal(creates(rig, label="other", members=("a", "b", "c"))) is Invalid


@with_rig
async def test_an_intent_has_so_many_channels_and_no_more(rig: Rig) -> None:
    await rig.intent()
    rig.team.limits = TeamLimits(channels_per_intent=2)

    await creates(rig, label="a")
    await creates(rig, label="b")

    assert await refusal(creates(rig, label="c")) is QuotaExceeded
    posted = channels.post_by_name(rig.team, rig.caller("bob"), INTENT, "d", NOTE)
    assert await refusal(posted) is QuotaExceeded


@with_rig
async def test_a_resolved_intent_and_a_finished_task_take_no_channels(rig: Rig) -> None:
    await rig.intent()
    task = await rig.put(a_task())
    assert (await creates(rig, task_id="task_1")).channel.task_id == "task_1"

    await rig.put(replace(task, status=TaskStatus.COMPLETED))

    assert await refusal(creates(rig, label="b", task_id="task_1")) is ChannelClosed
    assert await refusal(creates(rig, label="b", task_id="task_none")) is Invalid
    await rig.intent("intent_2", status=IntentStatus.COMPLETED)
    created = channels.create(rig.team, rig.caller("bob"), "intent_2", ChannelDraft("x"))
    assert await refusal(created) is ChannelClosed


async def stepping_in(rig: Rig, step: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Have `step` happen right before the next commit; the outcomes of commits as they come."""
    outcomes: list[object] = []
    commit = rig.store.commit

    async def late(changes: TeamChanges) -> object:
        monkeypatch.setattr(rig.store, "commit", watched)
        await step()
        return await watched(changes)

    async def watched(changes: TeamChanges) -> object:
        try:
            committed = await commit(changes)
        except Stale as stale:
            outcomes.append(stale)
            raise
        outcomes.append(committed)
        return committed

    monkeypatch.setattr(rig.store, "commit", late)
    return outcomes


@with_rig
async def test_a_channel_on_an_intent_that_resolves_at_this_moment_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent = await rig.intent()
    await stepping_in(rig, lambda: rig.put(replace(intent, status=IntentStatus.COMPLETED)), monkeypatch)

    assert await refusal(creates(rig)) is ChannelClosed


@with_rig
async def test_a_channel_on_a_task_that_ends_at_this_moment_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.intent()
    task = await rig.put(a_task())
    await stepping_in(rig, lambda: rig.put(replace(task, status=TaskStatus.FAILED)), monkeypatch)

    assert await refusal(creates(rig, task_id="task_1")) is ChannelClosed


# ---------------------------------------------------------------- by name


@with_rig
async def test_sixteen_first_messages_make_one_channel(rig: Rig) -> None:
    await rig.intent()

    said = await asyncio.gather(
        *(channels.post_by_name(rig.team, rig.caller(f"a{n}"), INTENT, "talk", NOTE) for n in range(16))
    )
    posts = [delivered(one) for one in said]

    (shown,) = await channels.list_all(rig.team, rig.caller("bob"), INTENT)
    assert (shown.channel.label, shown.channel.policy) == ("talk", MemberPolicy.INTENT)
    assert {one.channel_id for one in posts} == {shown.channel.id}
    assert sorted(one.seq for one in posts) == list(range(1, 17))
    assert shown.tally.total == 16


@with_rig
async def test_a_first_message_that_is_refused_makes_no_channel(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"), rig.grant("carol", Permission.READ)))
    await rig.agent("bert", status=AgentStatus.DEREGISTERED)
    await rig.access(grants=(rig.grant("bob"), rig.grant("bert"), rig.grant("carol", Permission.READ)))

    def says(agent: str, draft: PostDraft) -> Awaitable[object]:
        return channels.post_by_name(rig.team, rig.caller(agent), INTENT, "talk", draft)

    assert await refusal(says("bob", PostDraft(Pattern.REQUEST, b"{}"))) is Invalid
    assert await refusal(says("bob", PostDraft(Pattern.RESPONSE, b"{}", in_reply_to="msg_1"))) is BadCorrelation
    assert await refusal(says("bob", PostDraft(Pattern.NOTIFY, b"{}", "bert"))) is AgentDeparted
    assert await refusal(says("bert", NOTE)) is AgentDeparted
    assert await refusal(says("carol", NOTE)) is Forbidden
    assert await refusal(says("dave", NOTE)) is NotFound
    assert await channels.list_all(rig.team, rig.caller("bob"), INTENT) == []


@with_rig
async def test_the_first_message_can_be_read_by_everyone_on_the_intent(rig: Rig) -> None:
    await rig.intent()

    said = delivered(await channels.post_by_name(rig.team, rig.caller("bob"), INTENT, "talk", NOTE))

    page = await reading.page(rig.team, rig.caller("carol"), said.channel_id, reading.MessageFilter())
    assert [one.post.id for one in page.messages] == [said.id]


@with_rig
async def test_a_name_of_a_closed_channel_takes_no_message(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(label="talk")
    await changes(rig, status=ChannelStatus.CLOSED)

    posted = channels.post_by_name(rig.team, rig.caller("bob"), INTENT, "talk", NOTE)

    assert await refusal(posted) is ChannelClosed


# ---------------------------------------------------------------- see


@with_rig
async def test_explicit_channels_are_known_to_members_coordinators_and_admins(rig: Rig) -> None:
    await rig.intent(assignments=(rig.assignment("carla", "coordinator"),))
    await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)
    await rig.channel("chan_2")

    async def listed(caller: Caller) -> list[str]:
        return [one.channel.id for one in await channels.list_all(rig.team, caller, INTENT)]

    assert await listed(rig.caller("bob")) == [CHANNEL, "chan_2"]
    assert await listed(rig.caller("carla")) == [CHANNEL, "chan_2"]
    assert await listed(rig.caller(kind=KeyKind.ADMIN)) == [CHANNEL, "chan_2"]
    assert await listed(rig.caller("dave")) == ["chan_2"]
    assert await refusal(channels.get(rig.team, rig.caller("dave"), CHANNEL)) is NotFound
    assert await refusal(channels.list_all(rig.team, rig.caller("dave", tenant="other"), INTENT)) is NotFound


@with_rig
async def test_what_is_hidden_is_refused_in_the_words_of_what_is_not_there(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    await rig.channel()

    said = []
    for channel_id in (CHANNEL, "chan_none"):
        with pytest.raises(NotFound) as refused:
            await channels.get(rig.team, rig.caller("dave"), channel_id)
        said.append(str(refused.value))

    assert said[0] == said[1]


@with_rig
async def test_a_channel_whose_time_ran_out_is_shown_closed_at_that_moment(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(options=Options(ttl_seconds=60))
    rig.clock.pass_by(seconds=30)
    said = await rig.say("bob")
    ends = stamp(rig.clock.at + timedelta(seconds=60))

    rig.clock.pass_by(seconds=3600)

    shown = await channels.get(rig.team, rig.caller("bob"), CHANNEL)
    assert (shown.channel.status, shown.channel.closed_at) == (ChannelStatus.CLOSED, ends)
    assert shown.tally.last_at == said.created_at


# ---------------------------------------------------------------- change


@with_rig
async def test_creator_coordinator_and_admin_manage_a_channel(rig: Rig) -> None:
    await rig.intent(created_by="ines", assignments=(rig.assignment("carla", "coordinator"),))
    await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)

    assert names(await changes(rig, "alice", add_members=("dave",))) == ["alice", "bob", "dave"]
    assert names(await changes(rig, "carla", remove_members=("dave",))) == ["alice", "bob"]
    admin = rig.caller(kind=KeyKind.ADMIN)
    shown = await channels.change(rig.team, admin, CHANNEL, ChannelChange(members=("erik",)))
    assert names(shown) == ["alice", "erik"]
    assert await refusal(changes(rig, "erik", add_members=("mallory",))) is NotManager
    assert await refusal(changes(rig, "ines", add_members=("ines",))) is NotFound


@with_rig
async def test_members_from_outside_the_intent_are_refused(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"),))
    await rig.channel(policy=MemberPolicy.EXPLICIT)

    assert await refusal(changes(rig, add_members=("bob", "mallory"))) is NoIntentAccess
    assert names(await changes(rig, add_members=("bob",))) == ["alice", "bob"]


@with_rig
async def test_the_limit_of_members_holds_for_changes(rig: Rig) -> None:
    await rig.intent()
    rig.team.limits = TeamLimits(members=3)
    await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)

    assert len(names(await changes(rig, add_members=("carol", "carol")))) == 3
    assert await refusal(changes(rig, add_members=("dave",))) is Invalid
    assert await refusal(changes(rig, members=("a", "b", "c"))) is Invalid
    assert len(names(await changes(rig, members=("a", "b")))) == 3


@with_rig
async def test_a_member_that_joins_hears_what_is_said_from_then_on(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)
    before = await rig.say("alice")

    await changes(rig, add_members=("carol",))
    after = await rig.say("alice")

    async def read(agent: str) -> list[str]:
        page = await reading.page(rig.team, rig.caller(agent), CHANNEL, reading.MessageFilter())
        return [one.post.id for one in page.messages]

    assert await read("carol") == [after.id]
    assert await read("bob") == [before.id, after.id]


@with_rig
async def test_a_channel_that_is_opened_to_all_keeps_what_its_members_said_before(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)
    before = await rig.say("alice")

    await changes(rig, policy=MemberPolicy.INTENT)
    after = await rig.say("alice")

    async def read(agent: str) -> list[str]:
        page = await reading.page(rig.team, rig.caller(agent), CHANNEL, reading.MessageFilter())
        return [one.post.id for one in page.messages]

    assert await read("carol") == [after.id]
    assert await read("bob") == [before.id, after.id]
    assert await refusal(reading.get(rig.team, rig.caller("carol"), CHANNEL, before.id)) is NotFound


@with_rig
async def test_options_change_one_by_one(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(options=Options(audit=False, ttl_seconds=60, max_messages=10))

    assert (await changes(rig, audit=True)).channel.options == Options(audit=True, ttl_seconds=60, max_messages=10)
    kept = (await changes(rig, max_messages=5)).channel
    assert (kept.options, kept.expires != "") == (Options(audit=True, ttl_seconds=60, max_messages=5), True)
    kept = (await changes(rig, no_ttl=True)).channel
    assert (kept.options.ttl_seconds, kept.expires) == (None, "")
    kept = (await changes(rig, ttl_seconds=30)).channel
    assert (kept.options.ttl_seconds, kept.expires) == (30, stamp(rig.clock.at + timedelta(seconds=30)))


@with_rig
async def test_a_closed_channel_stays_as_it_is(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    notice = await rig.say("alice", to="bob")

    shut = await changes(rig, status=ChannelStatus.CLOSED)

    assert (shut.channel.status, shut.channel.closed_at) == (ChannelStatus.CLOSED, rig.at())
    assert shut.channel.purge_at == stamp(rig.clock.at + timedelta(days=7))
    states = [await rig.store.post("default", one.id) for one in (request, notice)]
    assert [one and one.state for one in states] == [PostState.EXPIRED, PostState.DELIVERED]
    assert (await changes(rig, status=ChannelStatus.CLOSED)).channel.closed_at == shut.channel.closed_at
    assert await refusal(changes(rig, status=ChannelStatus.OPEN)) is BadTransition
    assert await refusal(changes(rig, audit=True)) is ChannelClosed
    assert await refusal(changes(rig, add_members=("bob",))) is ChannelClosed


@with_rig
async def test_a_channel_whose_time_ran_out_is_not_brought_back(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(options=Options(ttl_seconds=60))
    ends = stamp(rig.clock.at + timedelta(seconds=60))
    rig.clock.pass_by(seconds=61)

    assert await refusal(changes(rig, ttl_seconds=3600)) is ChannelClosed
    assert await refusal(changes(rig, no_ttl=True)) is ChannelClosed
    shut = await changes(rig, status=ChannelStatus.CLOSED)

    assert shut.channel.closed_at == ends
    kept = await rig.store.get(Channel, "default", CHANNEL)
    assert kept == shut.channel


@pytest.mark.both_stores
@with_rig
async def test_two_changes_at_once_both_count(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(policy=MemberPolicy.EXPLICIT)

    await asyncio.gather(*(changes(rig, add_members=(f"a{n}",)) for n in range(6)))

    shown = await channels.get(rig.team, rig.caller("alice"), CHANNEL)
    assert sorted(names(shown)) == ["a0", "a1", "a2", "a3", "a4", "a5", "alice"]


@with_rig
async def test_what_waited_for_a_role_is_delivered_when_its_holder_becomes_a_member(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(policy=MemberPolicy.EXPLICIT)
    await rig.role("billing", "bob")
    waiting = await rig.say("alice", to="role:billing")
    assert waiting.state is PostState.PENDING

    await changes(rig, add_members=("bob",))

    delivered = await rig.store.post("default", waiting.id)
    assert delivered is not None
    assert (delivered.state, delivered.recipients, delivered.seq) == (PostState.DELIVERED, ("bob",), 2)


# ---------------------------------------------------------------- end


@with_rig
async def test_a_deleted_channel_is_gone_and_its_name_is_free(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(label="talk", options=Options(audit=True))
    said = await rig.say("bob")

    assert await refusal(channels.delete(rig.team, rig.caller("bob"), CHANNEL)) is NotManager
    await channels.delete(rig.team, rig.caller("alice"), CHANNEL)

    assert await refusal(channels.get(rig.team, rig.caller("alice"), CHANNEL)) is NotFound
    assert await refusal(rig.say("bob")) is NotFound
    assert await refusal(posting.reply(rig.team, rig.caller("bob"), CHANNEL, said.id, NOTE)) is NotFound
    assert await rig.store.post("default", said.id) is None
    assert len(await rig.store.events("default", INTENT)) == 1
    assert (await creates(rig)).channel.label == "talk"


@with_rig
async def test_the_channels_of_an_intent_or_a_task_close_with_it(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.channel("chan_2", task_id="task_1")
    await rig.channel("chan_3", options=Options(ttl_seconds=10))
    await changes(rig, status=ChannelStatus.CLOSED)
    began = rig.clock.at
    rig.clock.pass_by(seconds=60)

    everything = await channels.closing(rig.team, "default", INTENT)
    of_task = await channels.closing(rig.team, "default", INTENT, task_id="task_1")

    assert [(one.id, one.closed_at) for one in everything] == [
        ("chan_2", rig.at()),
        ("chan_3", stamp(began + timedelta(seconds=10))),
    ]
    assert [one.id for one in of_task] == ["chan_2"]
