"""A name belongs to an agent or to a person, never to both."""

from __future__ import annotations

import asyncio

import pytest

from parley.app.team.directory import agents, keys
from parley.app.team.directory.keys import KeyDraft
from parley.app.team.directory.names import check_speaks_for_no_person, name_of_person
from parley.domain.agents.agent import AgentDraft
from parley.domain.agents.party import Attributes
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from parley.domain.errors.team import NameTaken, WrongSender
from tests.rigs.team import Rig, with_rig

ADMIN = Caller(DEFAULT_TENANT, "", KeyKind.ADMIN, "key_admin")


async def give_key(rig: Rig, kind: KeyKind, name: str) -> None:
    draft = KeyDraft(kind, agent_id=name) if kind is KeyKind.AGENT else KeyDraft(kind, user_id=name)
    await keys.create(rig.team, ADMIN, draft)


async def register(rig: Rig, name: str) -> None:
    await agents.register(rig.team, ADMIN, AgentDraft(name))


@with_rig
async def test_one_name_is_refused_for_an_agent_and_a_person_whichever_comes_first(rig: Rig) -> None:
    await give_key(rig, KeyKind.HUMAN, "ann")
    await give_key(rig, KeyKind.AGENT, "alice")
    await register(rig, "bob")

    for taken in (
        give_key(rig, KeyKind.AGENT, "ann"),
        register(rig, "ann"),
        give_key(rig, KeyKind.HUMAN, "alice"),
        give_key(rig, KeyKind.HUMAN, "bob"),
    ):
        with pytest.raises(NameTaken):
            await taken


@with_rig
async def test_an_agent_gets_more_keys_and_registers_and_a_person_gets_more_keys(rig: Rig) -> None:
    for _ in range(2):
        await give_key(rig, KeyKind.AGENT, "alice")
        await register(rig, "alice")
        await give_key(rig, KeyKind.HUMAN, "ann")

    assert await name_of_person(rig.team, DEFAULT_TENANT, "ann") == "ann"


@with_rig
async def test_where_older_data_has_one_name_for_both_it_is_the_agents(rig: Rig) -> None:
    await rig.key("zed")
    await rig.agent("bob", attributes=Attributes(user_id="ben"))
    await rig.agent("carol", attributes=Attributes(user_id="carol"))

    assert await name_of_person(rig.team, DEFAULT_TENANT, "zed") == ""
    assert await name_of_person(rig.team, DEFAULT_TENANT, "bob") == ""
    assert await name_of_person(rig.team, DEFAULT_TENANT, "carol") == "carol"  # its own agent


def test_a_key_that_speaks_as_no_agent_is_told_apart_from_every_agent() -> None:
    carol = ADMIN._replace(user="carol")

    assert carol.actor == "user:carol"
    assert carol._replace(agent="carol").actor == "carol"
    assert ADMIN.actor == "admin:key_admin"
    assert Caller.system(DEFAULT_TENANT).actor == "system"


@with_rig
async def test_a_name_given_to_an_agent_and_a_person_at_the_same_moment_is_refused_to_one_of_them(rig: Rig) -> None:
    races = (
        (give_key(rig, KeyKind.AGENT, "dana"), give_key(rig, KeyKind.HUMAN, "dana")),
        (register(rig, "erin"), give_key(rig, KeyKind.HUMAN, "erin")),
    )
    for race in races:
        outcomes = await asyncio.gather(*race, return_exceptions=True)

        assert sorted(map(type, outcomes), key=str) == [type(None), NameTaken]


@pytest.mark.requirement("GOV-ACTOR-KIND")
@with_rig
async def test_only_the_key_of_a_person_speaks_under_its_name(rig: Rig) -> None:
    await check_speaks_for_no_person(rig.team, DEFAULT_TENANT, "ann")  # an agent that never registered
    await give_key(rig, KeyKind.HUMAN, "ann")
    await give_key(rig, KeyKind.HUMAN, "zed")
    await rig.agent("zed", attributes=Attributes(user_id="zed"))  # in older data, its own agent
    await give_key(rig, KeyKind.AGENT, "alice")

    with pytest.raises(WrongSender):
        await check_speaks_for_no_person(rig.team, DEFAULT_TENANT, "ann")
    for agent in ("zed", "alice", "nobody"):
        await check_speaks_for_no_person(rig.team, DEFAULT_TENANT, agent)
    await check_speaks_for_no_person(rig.team, "acme", "ann")
