from __future__ import annotations

import asyncio
import json

import pytest

from parley.app.team.channels import channels
from parley.app.team.channels.channels import ChannelDraft
from parley.app.team.intents import tasks
from parley.app.team.intents.tasks import TaskChange, TaskDraft
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import PostState
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.directory.intent import IntentStatus, Task, TaskStatus
from parley.domain.errors.errors import BadName, Forbidden, Invalid, NotFound
from parley.domain.errors.team import BadTransition, ChannelClosed, QuotaExceeded, VersionMismatch
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Committed
from tests.rigs.lists import collect
from tests.rigs.team import INTENT, Rig, with_rig


async def a_task(rig: Rig) -> Task:
    await rig.intent()
    return await tasks.create(rig.team, rig.caller("alice"), INTENT, TaskDraft("look"))


@with_rig
async def test_a_task_is_one_commit_with_its_event_and_its_entry(rig: Rig) -> None:
    await rig.intent()
    commits: list[Committed] = []
    rig.store.watch(lambda _, committed: commits.append(committed))

    task = await tasks.create(rig.team, rig.caller("alice"), INTENT, TaskDraft("look", details={"input": 1}))

    (commit,) = commits
    (event,) = commit.events
    assert (event.event_type, json.loads(event.document)["payload"]) == (
        "task.created",
        {"task_id": task.id, "name": "look"},
    )
    assert [one.entry.action for one in await rig.store.entries(DEFAULT_TENANT, 0, 10)] == ["task_created"]
    assert await tasks.get(rig.team, rig.caller("alice"), task.id) == task


@with_rig
async def test_a_task_that_is_over_takes_its_channels_with_it_in_the_same_commit(rig: Rig) -> None:
    task = await a_task(rig)
    await rig.channel("chan_1", task_id=task.id)
    await rig.channel("chan_2")
    asked = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    commits: list[Committed] = []
    rig.store.watch(lambda _, committed: commits.append(committed))

    over = await tasks.change(rig.team, rig.caller("alice"), task.id, 1, TaskChange(TaskStatus.COMPLETED))

    (commit,) = commits
    assert [one.id for one in commit.puts] == [task.id, "chan_1"]
    assert commit.ended == ("chan_1",)
    expired = await rig.store.post(DEFAULT_TENANT, asked.id)
    assert expired is not None
    assert expired.state is PostState.EXPIRED
    assert (over.status, over.version, over.completed_at) == ("completed", 2, rig.at())


@pytest.mark.both_stores
@with_rig
async def test_no_channel_outlives_a_task_that_it_raced_with(rig: Rig) -> None:
    task = await a_task(rig)

    async def opened(number: int) -> None:
        try:
            draft = ChannelDraft(f"c{number}", task_id=task.id)
            await channels.create(rig.team, rig.caller("alice"), INTENT, draft)
        except ChannelClosed:
            return

    await asyncio.gather(
        *(opened(number) for number in range(10)),
        tasks.change(rig.team, rig.caller("alice"), task.id, 1, TaskChange(TaskStatus.FAILED)),
        *(opened(number) for number in range(10, 20)),
    )

    found = await rig.store.children(Channel, DEFAULT_TENANT, INTENT)
    assert [one.label for one in found if one.is_open] == []


@with_rig
async def test_what_is_not_said_stays_as_it_is(rig: Rig) -> None:
    task = await a_task(rig)
    alice = rig.caller("alice")

    await tasks.change(rig.team, alice, task.id, None, TaskChange(TaskStatus.RUNNING, assigned_agent="bob"))
    begun = rig.at()
    rig.clock.pass_by(minutes=1)
    changed = await tasks.change(rig.team, alice, task.id, None, TaskChange(details={"output": 1}))

    assert (changed.title, changed.status, changed.assigned_agent) == ("look", "running", "bob")
    assert (changed.started_at, changed.updated_at, changed.completed_at) == (begun, rig.at(), "")
    assert changed.details == {"output": 1}


@with_rig
async def test_of_two_changes_for_one_version_only_one_is_made(rig: Rig) -> None:
    task = await a_task(rig)

    outcomes = await asyncio.gather(
        *(
            tasks.change(
                rig.team, rig.caller("alice"), task.id, 1, TaskChange(TaskStatus.CLAIMED, assigned_agent=agent)
            )
            for agent in ("bob", "carol", "dave")
        ),
        return_exceptions=True,
    )

    assert [type(one) for one in outcomes if isinstance(one, Exception)] == [VersionMismatch] * 2


@with_rig
async def test_a_reader_makes_and_changes_no_task(rig: Rig) -> None:
    task = await a_task(rig)
    await rig.access(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", Permission.READ),))
    bob = rig.caller("bob")

    with pytest.raises(Forbidden):
        await tasks.create(rig.team, bob, INTENT, TaskDraft("mine"))
    with pytest.raises(Forbidden):
        await tasks.change(rig.team, bob, task.id, 1, TaskChange(TaskStatus.FAILED))
    with pytest.raises(NotFound, match="task"):
        await tasks.get(rig.team, rig.caller("mallory"), task.id)

    assert await collect(tasks.list_page(rig.team, bob, INTENT)) == [task]


@with_rig
async def test_a_task_has_its_bounds(rig: Rig) -> None:
    task = await a_task(rig)
    alice = rig.caller("alice")
    too_much = {"output": "x" * rig.limits.http_body_bytes}

    with pytest.raises(Invalid):
        await tasks.change(rig.team, alice, task.id, 1, TaskChange(details=too_much))
    with pytest.raises(BadName):
        await tasks.change(rig.team, alice, task.id, 1, TaskChange(assigned_agent="system"))
    rig.team.limits = rig.limits._replace(tasks_per_intent=1)
    with pytest.raises(QuotaExceeded):
        await tasks.create(rig.team, alice, INTENT, TaskDraft("one more"))


@with_rig
async def test_a_resolved_intent_takes_no_more_tasks(rig: Rig) -> None:
    await rig.intent(status=IntentStatus.COMPLETED)

    with pytest.raises(BadTransition):
        await tasks.create(rig.team, rig.caller("alice"), INTENT, TaskDraft("late"))


@with_rig
async def test_a_long_list_is_read_page_by_page(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_PAGE", 2)
    await rig.intent()
    made = [await tasks.create(rig.team, rig.caller("alice"), INTENT, TaskDraft(str(n))) for n in range(5)]

    async def listed(limit: int, offset: int) -> list[Task]:
        return await collect(tasks.list_page(rig.team, rig.caller("alice"), INTENT, limit=limit, offset=offset))

    assert await listed(3, 1) == made[1:4]
    assert await listed(10, 0) == made
