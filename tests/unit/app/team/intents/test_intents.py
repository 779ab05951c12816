from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from parley.app.team.channels import channels
from parley.app.team.channels.channels import ChannelDraft
from parley.app.team.intents import intents
from parley.app.team.intents.intents import IntentDraft
from parley.app.team.team import Team
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.channel import Channel, ChannelStatus
from parley.domain.channel.post import PostState
from parley.domain.directory.access import COORDINATOR, Access, AccessPolicy, Permission
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, KeyKind
from parley.domain.directory.intent import Intent, IntentCount, IntentStatus, Patch, PatchOp
from parley.domain.errors.errors import BadName, Forbidden, Invalid, NotFound
from parley.domain.errors.team import AgentDeparted, BadTransition, ChannelClosed, QuotaExceeded, VersionMismatch
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Committed
from tests.rigs.lists import collect
from tests.rigs.team import CHANNEL, INTENT, Rig, with_rig


def seen(rig: Rig) -> list[Committed]:
    """Every commit from now on."""
    commits: list[Committed] = []
    rig.store.watch(lambda _, committed: commits.append(committed))
    return commits


async def told(rig: Rig, intent_id: str = INTENT) -> list[tuple[str, str, Any]]:
    found = await rig.store.events(DEFAULT_TENANT, intent_id)
    return [(one.event_type, one.actor, json.loads(one.document)["payload"]) for one in found]


async def entered(rig: Rig) -> list[tuple[str, str]]:
    found = await rig.store.entries(DEFAULT_TENANT, 0, 100)
    return [(one.entry.action, one.entry.agent) for one in found]


def set_to(name: str, value: object) -> Patch:
    return Patch(PatchOp.SET, name, value)


@with_rig
async def test_an_intent_comes_with_its_access_list_its_event_and_its_entry_in_one_commit(rig: Rig) -> None:
    commits = seen(rig)

    intent = await intents.create(rig.team, rig.caller("alice"), IntentDraft("T", state={"a": 1}))

    (commit,) = commits
    assert [one.kind for one in commit.puts] == ["intent", "access", "intent_count"]
    assert await told(rig, intent.id) == [("intent_created", "alice", {"title": "T"})]
    assert await entered(rig) == [("intent_created", "alice")]
    assert (intent.status, intent.version, intent.state, intent.created_by) == ("draft", 1, {"a": 1}, "alice")


@with_rig
async def test_a_key_that_named_nobody_is_the_creator_itself(rig: Rig) -> None:
    admin = rig.caller(kind=KeyKind.ADMIN)

    intent = await intents.create(rig.team, admin, IntentDraft("T"))

    assert intent.created_by == admin.actor != ""


@with_rig
async def test_a_parent_has_to_be_one_that_the_caller_may_see(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)

    child = await intents.create(rig.team, rig.caller("alice"), IntentDraft("T", parent_intent_id=INTENT))
    for draft in (IntentDraft("T", parent_intent_id=INTENT), IntentDraft("T", depends_on=(INTENT,))):
        with pytest.raises(Invalid):
            await intents.create(rig.team, rig.caller("mallory"), draft)

    assert child.parent_intent_id == INTENT


@with_rig
async def test_there_are_only_so_many_intents(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(intents_per_tenant=1)
    await intents.create(rig.team, rig.caller("alice"), IntentDraft("T"))

    with pytest.raises(QuotaExceeded):
        await intents.create(rig.team, rig.caller("alice"), IntentDraft("T"))


@with_rig
async def test_one_agent_does_not_create_all_of_them(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(intents_per_agent=2)
    for _ in range(2):
        await intents.create(rig.team, rig.caller("alice"), IntentDraft("T"))

    with pytest.raises(QuotaExceeded, match="an agent creates at most 2"):
        await intents.create(rig.team, rig.caller("alice"), IntentDraft("T"))
    await intents.create(rig.team, rig.caller("bob"), IntentDraft("T"))
    for _ in range(3):
        await intents.create(rig.team, rig.caller("", KeyKind.ADMIN), IntentDraft("T"))


@pytest.mark.both_stores
@with_rig
async def test_intents_that_one_agent_creates_at_once_are_all_counted(rig: Rig) -> None:
    made = [intents.create(rig.team, rig.caller("alice"), IntentDraft("T")) for _ in range(5)]
    await asyncio.gather(*made)

    count = await rig.store.get(IntentCount, "default", "alice")
    assert count is not None
    assert count.total == 5


@with_rig
async def test_a_list_shows_only_what_the_caller_may_see(rig: Rig) -> None:
    await rig.intent("intent_open", "alice")
    await rig.intent("intent_closed", "alice", policy=AccessPolicy.CLOSED)
    await rig.intent("intent_granted", "alice", policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", Permission.READ),))
    await rig.intent("intent_elsewhere", "bob", tenant="other")

    async def listed(agent: str, kind: KeyKind = KeyKind.AGENT) -> list[str]:
        return [one.id for one in await collect(intents.list_page(rig.team, rig.caller(agent, kind)))]

    assert await listed("bob") == ["intent_granted", "intent_open"]
    assert await listed("alice") == ["intent_closed", "intent_granted", "intent_open"]
    assert await listed("", KeyKind.SERVICE) == ["intent_closed", "intent_granted", "intent_open"]
    assert await listed("", KeyKind.HUMAN) == []


@with_rig
async def test_a_long_list_is_read_page_by_page(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "_PAGE", 2)
    for number in range(5):
        await rig.intent(f"intent_{number}")

    found = await collect(intents.list_page(rig.team, rig.caller("alice"), limit=3, offset=1))

    assert [one.id for one in found] == ["intent_1", "intent_2", "intent_3"]


@with_rig
async def test_of_two_patches_for_one_version_only_one_is_made(rig: Rig) -> None:
    await rig.intent()

    outcomes = await asyncio.gather(
        *(intents.patch(rig.team, rig.caller("alice"), INTENT, 1, [set_to("n", number)]) for number in range(8)),
        return_exceptions=True,
    )

    made = [one for one in outcomes if isinstance(one, Intent)]
    refused = [one for one in outcomes if isinstance(one, VersionMismatch)]
    assert (len(made), len(refused)) == (1, 7)
    assert {one.facts["current_version"] for one in refused} == {2}
    assert len(await told(rig)) == 1


@with_rig
async def test_patches_for_any_version_are_all_made(rig: Rig) -> None:
    await rig.intent()

    await asyncio.gather(
        *(
            intents.patch(rig.team, rig.caller("alice"), INTENT, None, [Patch(PatchOp.APPEND, "list", number)])
            for number in range(4)
        )
    )

    intent = await intents.get(rig.team, rig.caller("alice"), INTENT)
    assert (intent.version, sorted(intent.state["list"])) == (5, [0, 1, 2, 3])


@with_rig
async def test_a_state_does_not_grow_beyond_one_request(rig: Rig) -> None:
    await rig.intent()
    half = "x" * (rig.limits.http_body_bytes // 2)
    await intents.patch(rig.team, rig.caller("alice"), INTENT, 1, [set_to("a", half)])

    with pytest.raises(Invalid):
        await intents.patch(rig.team, rig.caller("alice"), INTENT, 2, [set_to("b", half)])


@with_rig
async def test_a_reader_changes_nothing(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", Permission.READ),))
    bob = rig.caller("bob")

    with pytest.raises(Forbidden):
        await intents.patch(rig.team, bob, INTENT, 1, [])
    with pytest.raises(Forbidden):
        await intents.set_status(rig.team, bob, INTENT, 1, IntentStatus.COMPLETED)
    with pytest.raises(Forbidden):
        await intents.assign(rig.team, bob, INTENT, "bob")

    assert await told(rig) == []


@with_rig
@pytest.mark.parametrize("status", [IntentStatus.COMPLETED, IntentStatus.ABANDONED])
async def test_a_resolved_intent_takes_its_channels_with_it_in_the_same_commit(rig: Rig, status: IntentStatus) -> None:
    await rig.intent()
    for number in (1, 2):
        await rig.channel(f"chan_{number}")
    await rig.channel("chan_closed")
    await channels.change(
        rig.team, rig.caller("alice"), "chan_closed", channels.ChannelChange(status=ChannelStatus.CLOSED)
    )
    asked = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    waiting = await rig.say("alice", to="role:nobody")
    said = await rig.say("alice", to="bob")
    commits = seen(rig)

    await intents.set_status(rig.team, rig.caller("alice"), INTENT, 1, status, "done")

    (commit,) = commits
    assert [one.id for one in commit.puts] == [INTENT, "chan_1", "chan_2"]
    assert commit.ended == ("chan_1", "chan_2")
    states = [await rig.store.post(DEFAULT_TENANT, one.id) for one in (asked, waiting, said)]
    assert [one.state for one in states if one] == [PostState.EXPIRED, PostState.EXPIRED, PostState.DELIVERED]
    assert await told(rig) == [
        ("status_changed", "alice", {"status": status, "old_status": "active", "version": 2, "reason": "done"})
    ]


@with_rig
async def test_an_intent_that_is_only_blocked_keeps_its_channels(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()

    await intents.set_status(rig.team, rig.caller("alice"), INTENT, 1, IntentStatus.BLOCKED)

    channel = await rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    assert channel is not None
    assert channel.is_open


@pytest.mark.both_stores
@with_rig
async def test_no_channel_outlives_a_resolution_that_it_raced_with(rig: Rig) -> None:
    await rig.intent()

    async def opened(number: int) -> None:
        try:
            await channels.create(rig.team, rig.caller("alice"), INTENT, ChannelDraft(f"c{number}"))
        except ChannelClosed:
            return

    await asyncio.gather(
        *(opened(number) for number in range(10)),
        intents.set_status(rig.team, rig.caller("alice"), INTENT, 1, IntentStatus.COMPLETED),
        *(opened(number) for number in range(10, 20)),
    )

    found = await rig.store.children(Channel, DEFAULT_TENANT, INTENT)
    assert [one.label for one in found if one.is_open] == []


@with_rig
async def test_a_channel_created_between_decision_and_commit_is_closed_too(rig: Rig) -> None:
    await rig.intent()
    created: list[str] = []

    async def slow(team: Team, tenant: str, intent_id: str, *, task_id: str = "") -> tuple[Channel, ...]:
        found = await channels.closing(team, tenant, intent_id, task_id=task_id)
        if not created:
            created.append("late")
            await channels.create(rig.team, rig.caller("alice"), INTENT, ChannelDraft("late"))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intents, "closing", slow)
        await intents.set_status(rig.team, rig.caller("alice"), INTENT, 1, IntentStatus.COMPLETED)

    (late,) = await rig.store.children(Channel, DEFAULT_TENANT, INTENT)
    assert not late.is_open


@with_rig
async def test_a_resolved_intent_stays_so(rig: Rig) -> None:
    await rig.intent(status=IntentStatus.COMPLETED)

    with pytest.raises(BadTransition):
        await intents.set_status(rig.team, rig.caller("alice"), INTENT, 1, IntentStatus.ACTIVE)


@with_rig
async def test_an_assigned_agent_is_let_in_and_told_of_once(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    alice = rig.caller("alice")

    first = await intents.assign(rig.team, alice, INTENT, "bob")
    again = await intents.assign(rig.team, alice, INTENT, "bob")

    assert again == first
    assert (first.role, first.assigned_by) == ("worker", "alice")
    assert (await intents.get(rig.team, rig.caller("bob"), INTENT)).id == INTENT
    assert await told(rig) == [("agent_assigned", "alice", {"agent_id": "bob", "role": "worker"})]
    assert await entered(rig) == [("agent_assigned", "alice")]


@pytest.mark.both_stores
@with_rig
async def test_many_assignments_at_once_are_all_kept(rig: Rig) -> None:
    await rig.intent()
    agents = [f"agent-{number}" for number in range(6)]

    await asyncio.gather(*(intents.assign(rig.team, rig.caller("alice"), INTENT, agent) for agent in agents))

    found = await intents.assignments(rig.team, rig.caller("alice"), INTENT)
    assert sorted(one.agent_id for one in found) == agents


@with_rig
async def test_another_role_takes_the_place_of_the_first(rig: Rig) -> None:
    await rig.intent()
    await intents.assign(rig.team, rig.caller("alice"), INTENT, "bob")

    await intents.assign(rig.team, rig.caller("alice"), INTENT, "bob", COORDINATOR)

    access = await rig.store.get(Access, DEFAULT_TENANT, INTENT)
    assert access is not None
    assert [(one.agent_id, one.role) for one in access.assignments] == [("bob", COORDINATOR)]
    assert (await intents.assign(rig.team, rig.caller("bob"), INTENT, "carol", COORDINATOR)).assigned_by == "bob"


@with_rig
async def test_who_only_works_on_a_closed_intent_brings_nobody_in(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, assignments=(rig.assignment("bob"),))

    with pytest.raises(Forbidden):
        await intents.assign(rig.team, rig.caller("bob"), INTENT, "mallory")

    with pytest.raises(NotFound):
        await intents.get(rig.team, rig.caller("mallory"), INTENT)


@with_rig
async def test_nobody_takes_a_coordinator_down_but_who_rules(rig: Rig) -> None:
    await rig.intent(assignments=(rig.assignment("carol", COORDINATOR),))

    with pytest.raises(Forbidden):
        await intents.assign(rig.team, rig.caller("bob"), INTENT, "carol")
    with pytest.raises(Forbidden):
        await intents.unassign(rig.team, rig.caller("bob"), INTENT, "carol")

    await intents.unassign(rig.team, rig.caller("carol"), INTENT, "carol")


@with_rig
async def test_an_agent_that_has_left_is_not_assigned(rig: Rig) -> None:
    await rig.intent()
    await rig.put(
        AgentRecord(id="bob", tenant_id=DEFAULT_TENANT, registered_at=rig.at(), status=AgentStatus.DEREGISTERED)
    )

    with pytest.raises(AgentDeparted):
        await intents.assign(rig.team, rig.caller("alice"), INTENT, "bob")


@with_rig
@pytest.mark.parametrize("name", ["system", "role:x", "a/b", ""])
async def test_a_name_that_no_agent_has_is_not_assigned(rig: Rig, name: str) -> None:
    await rig.intent()

    with pytest.raises(BadName):
        await intents.assign(rig.team, rig.caller("alice"), INTENT, name)


@with_rig
async def test_there_are_only_so_many_on_one_intent(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(members=1)
    await rig.intent()
    await intents.assign(rig.team, rig.caller("alice"), INTENT, "bob")

    with pytest.raises(QuotaExceeded):
        await intents.assign(rig.team, rig.caller("alice"), INTENT, "carol")


@with_rig
async def test_what_waited_for_a_role_is_delivered_when_its_holder_is_let_in(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    await rig.channel()
    await rig.role("reviewer", "bob")
    waiting = await rig.say("alice", to="role:reviewer")

    await intents.assign(rig.team, rig.caller("alice"), INTENT, "bob")

    delivered = await rig.store.post(DEFAULT_TENANT, waiting.id)
    assert delivered is not None
    assert (waiting.state, delivered.state, delivered.recipients) == (PostState.PENDING, PostState.DELIVERED, ("bob",))


@with_rig
async def test_a_version_counts_what_happened_to_the_intent_and_not_who_works_on_it(rig: Rig) -> None:
    intent = await rig.intent()
    await intents.assign(rig.team, rig.caller("alice"), INTENT, "bob")

    assert await intents.get(rig.team, rig.caller("alice"), INTENT) == replace(intent, version=1)
