"""Whether a caller speaks for somebody who is suspended."""

from __future__ import annotations

import pytest

from parley.app.team.rules import suspensions
from parley.app.team.state.suspended import NO_SUSPENSIONS, check_not_suspended, check_speaks_for
from parley.domain.agents.party import Attributes
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from parley.domain.errors.rules import Suspended
from parley.domain.rules.suspension import Stopped
from tests.rigs.team import Rig, with_rig

ADMIN = KeyKind.ADMIN


async def suspend(rig: Rig, what: Stopped, name: str = "") -> None:
    await suspensions.suspend(rig.team, rig.caller("", ADMIN), what, name, "")


@with_rig
async def test_a_caller_depends_on_there_being_no_suspension(rig: Rig) -> None:
    assert await check_not_suspended(rig.store, rig.caller("alice")) == (NO_SUSPENSIONS,)


@with_rig
async def test_a_suspended_agent_is_refused_and_another_depends_on_the_list(rig: Rig) -> None:
    await suspend(rig, Stopped.AGENT, "alice")

    with pytest.raises(Suspended):
        await check_not_suspended(rig.store, rig.caller("alice"))
    assert [expect.version for expect in await check_not_suspended(rig.store, rig.caller("bob"))] == [1]


@pytest.mark.parametrize(("what", "name"), [(Stopped.ORG_UNIT, "sales"), (Stopped.TENANT, "")])
@with_rig
async def test_an_agent_is_suspended_with_its_unit_and_its_tenant_and_people_go_on(
    rig: Rig, what: Stopped, name: str
) -> None:
    await rig.agent("alice", attributes=Attributes(org_unit="sales", user_id="ann"))
    await suspend(rig, what, name)
    ann = Caller(DEFAULT_TENANT, "ann", KeyKind.HUMAN, "key_1", "ann")

    with pytest.raises(Suspended):
        await check_not_suspended(rig.store, rig.caller("alice"))
    with pytest.raises(Suspended):
        await check_not_suspended(rig.store, ann._replace(agent="alice"))
    await check_not_suspended(rig.store, ann)
    await check_not_suspended(rig.store, rig.caller("", ADMIN))


@with_rig
async def test_a_person_is_suspended_by_its_own_name(rig: Rig) -> None:
    await suspend(rig, Stopped.AGENT, "ann")

    with pytest.raises(Suspended):
        await check_not_suspended(rig.store, Caller(DEFAULT_TENANT, "ann", KeyKind.HUMAN, "key_1", "ann"))


@with_rig
async def test_a_suspended_person_is_refused_in_the_place_of_every_agent_of_theirs(rig: Rig) -> None:
    await suspend(rig, Stopped.AGENT, "ann")

    with pytest.raises(Suspended):
        await check_not_suspended(rig.store, Caller(DEFAULT_TENANT, "sally", KeyKind.HUMAN, "key_1", "ann"))


@with_rig
async def test_a_service_speaks_for_no_suspended_agent_and_an_admin_still_acts_on_it(rig: Rig) -> None:
    await suspend(rig, Stopped.AGENT, "alice")

    with pytest.raises(Suspended):
        await check_speaks_for(rig.store, rig.caller("", KeyKind.SERVICE), "alice")
    await check_speaks_for(rig.store, rig.caller("", KeyKind.SERVICE), "bob")
    await check_speaks_for(rig.store, rig.caller("", ADMIN), "alice")
