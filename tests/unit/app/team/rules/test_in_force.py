from __future__ import annotations

from parley.app.team.rules import in_force as rules
from parley.domain.channel.channel import Channel, MemberPolicy
from parley.domain.content.classification import Classification
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus
from parley.domain.record import Expect
from tests.rigs.governed import person, place, put_policy, two_agents
from tests.rigs.team import CHANNEL, INTENT, Rig, with_rig


@with_rig
async def test_a_tenant_without_a_policy_of_its_own_is_under_the_one_that_parley_brings(rig: Rig) -> None:
    expects: list[Expect] = []

    found = await rules.in_force(rig.team, DEFAULT_TENANT, expects)

    assert found.book.label == rig.team.policies.first(DEFAULT_TENANT).label
    assert found.stopped is None
    # That there is neither a policy nor a suspension is something that a decision depends on.
    assert [(one.kind, one.version) for one in expects] == [("policy", 0), ("suspensions", 0)]


@with_rig
async def test_a_changed_policy_is_in_force_at_the_next_look(rig: Rig) -> None:
    before = (await rules.in_force(rig.team, DEFAULT_TENANT, [])).book
    assert (await rules.in_force(rig.team, DEFAULT_TENANT, [])).book is before

    label = await put_policy(rig, max_rounds=2)

    assert (await rules.in_force(rig.team, DEFAULT_TENANT, [])).book.label == label != before.label


@with_rig
async def test_an_agent_is_what_the_directory_says_and_one_that_it_does_not_know_is_nothing_much(rig: Rig) -> None:
    await place(rig, "alice", user_id="ann", max_classification=Classification.RESTRICTED)
    expects: list[Expect] = []

    alice = await rules.party(rig.team, DEFAULT_TENANT, "alice", expects)
    zoe = await rules.party(rig.team, DEFAULT_TENANT, "zoe", expects)

    assert (alice.user, alice.attributes.max_classification) == ("ann", Classification.RESTRICTED)
    assert (zoe.user, zoe.attributes.org_unit, zoe.human) == ("unassigned", "default", False)
    assert [(one.id, one.version) for one in expects] == [("alice", 1), ("zoe", 0)]


@with_rig
async def test_a_person_speaks_for_itself_wherever_it_sits(rig: Rig) -> None:
    await place(rig, "alice", user_id="ann", org_unit="sales")
    record = await rig.agent("alice")

    agent = rules.speaker(rig.caller("alice"), record)
    in_seat = rules.speaker(person("ann", "alice"), record)
    delegate = rules.speaker(person("dee", "alice"), record)
    alone = rules.speaker(person("ann"), None)
    held = rules.speaker(person("dee", "alice"), record, "ann")

    assert (agent.human, agent.user, agent.attributes.org_unit) == (False, "ann", "sales")
    assert (in_seat.human, in_seat.user, in_seat.attributes.org_unit) == (True, "ann", "sales")
    assert (delegate.user, held.user) == ("dee", "ann")
    assert (alone.human, alone.agent, alone.user, alone.attributes.org_unit) == (True, "ann", "ann", "default")


@with_rig
async def test_several_org_units_are_known_as_such(rig: Rig) -> None:
    expects: list[Expect] = []
    assert not await rules.several_units(rig.team, DEFAULT_TENANT, expects)

    await place(rig, "alice", org_unit="sales")

    assert await rules.several_units(rig.team, DEFAULT_TENANT, expects)
    assert [one.version for one in expects] == [0, 1]


async def names(rig: Rig) -> list[str]:
    channel = await rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    assert channel is not None
    found = await rules.audience(rig.team, channel, await rig.access(), "alice", rig.at(), [])
    return sorted(one.agent for one in found)


@with_rig
async def test_the_audience_of_an_open_channel_is_everyone_whom_some_list_names(rig: Rig) -> None:
    await two_agents(rig)
    await rig.agent("gone", status=AgentStatus.DEREGISTERED)
    await rig.access(INTENT, grants=(rig.grant("gina"),), assignments=(rig.assignment("otto"),))

    assert await names(rig) == ["bob", "gina", "otto"]


@with_rig
async def test_the_audience_of_a_closed_circle_is_its_members(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)
    await rig.agent("carol")

    assert await names(rig) == ["bob"]
