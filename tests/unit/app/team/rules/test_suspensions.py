from __future__ import annotations

import pytest

from parley.app.team.rules import suspensions
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.rules.suspension import Stopped
from tests.rigs.governed import decide, entries, held, refusal, said, send, two_agents
from tests.rigs.team import Rig, with_rig

ADMIN = Caller("default", "", KeyKind.ADMIN, "key_admin", "root")


@with_rig
async def test_what_is_suspended_is_stopped_at_the_next_message_until_it_is_lifted(rig: Rig) -> None:
    await two_agents(rig)
    await said(rig, "alice", "bob")

    one = await suspensions.suspend(rig.team, ADMIN, Stopped.PAIR, "bob, alice", "they talk all night")

    assert (one.name, one.reason, one.by) == ("alice,bob", "they talk all night", "user:root")
    assert (await refusal(send(rig, "alice", "bob"))).code == "suspended"
    await suspensions.lift(rig.team, ADMIN, Stopped.PAIR, "alice,bob")
    await said(rig, "alice", "bob")
    assert await suspensions.list_all(rig.team, ADMIN) == ()


@pytest.mark.both_stores
@with_rig
async def test_it_lasts_over_a_restart_and_is_of_its_tenant_alone(rig: Rig) -> None:
    await two_agents(rig)
    await suspensions.suspend(rig.team, ADMIN, Stopped.TENANT, "", "")
    await rig.reopen()

    assert (await refusal(send(rig, "alice", "bob"))).code == "suspended"
    assert await suspensions.list_all(rig.team, ADMIN._replace(tenant="globex")) == ()


@with_rig
async def test_to_suspend_what_is_suspended_changes_nothing(rig: Rig) -> None:
    first = await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "first")
    rig.clock.pass_by(hours=1)

    again = await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "first")

    assert again == first
    assert len(await entries(rig)) == 1


@with_rig
async def test_another_reason_replaces_the_one_before_and_is_recorded(rig: Rig) -> None:
    first = await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "first")
    rig.clock.pass_by(hours=1)

    again = await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "second")

    assert (again.reason, again.at) == ("second", first.at)
    assert [one["reason"] for one in await entries(rig)] == ["first", "second"]


@with_rig
async def test_both_are_in_the_tenants_own_chain(rig: Rig) -> None:
    await suspensions.suspend(rig.team, ADMIN, Stopped.ORG_UNIT, "sales", "why")
    await suspensions.lift(rig.team, ADMIN, Stopped.ORG_UNIT, "sales")

    found = await entries(rig)
    assert [(one["side"], one["action"], one["actor"], one["what"], one["name"], one["key"]) for one in found] == [
        ("@tenant", "suspended", "user:root", "org_unit", "sales", "key_admin"),
        ("@tenant", "suspension_lifted", "user:root", "org_unit", "sales", "key_admin"),
    ]


@with_rig
async def test_nothing_is_lifted_that_is_not_suspended(rig: Rig) -> None:
    await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "")

    assert (await refusal(suspensions.lift(rig.team, ADMIN, Stopped.ORG_UNIT, "bob"))).code == "not_found"


@with_rig
async def test_what_waits_is_not_released_while_its_agent_is_suspended_and_can_be_after_it(rig: Rig) -> None:
    await two_agents(rig)
    approval = await held(rig, "alice", "bob")
    await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "alice", "")

    refused = await refusal(decide(rig, "ann", approval))
    await suspensions.lift(rig.team, ADMIN, Stopped.AGENT, "alice")
    done = await decide(rig, "ann", approval)

    assert (refused.code, done.status.value) == ("suspended", "approved")


@pytest.mark.parametrize(
    ("what", "name"),
    [
        (Stopped.AGENT, ""),
        (Stopped.AGENT, "Not a name"),
        (Stopped.AGENT, "a,b"),
        (Stopped.PAIR, "alice"),
        (Stopped.PAIR, "a,b,c"),
        (Stopped.PAIR, "a,"),
        (Stopped.ORG_UNIT, "../x"),
    ],
)
@with_rig
async def test_what_cannot_be_is_not_suspended(rig: Rig, what: Stopped, name: str) -> None:
    assert (await refusal(suspensions.suspend(rig.team, ADMIN, what, name, ""))).code == "invalid"
    assert await suspensions.list_all(rig.team, ADMIN) == ()


def test_a_tenant_needs_no_name() -> None:
    assert suspensions.checked(Stopped.TENANT, "whatever") == ""
