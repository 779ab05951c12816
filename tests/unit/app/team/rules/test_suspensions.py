from __future__ import annotations

from datetime import timedelta

import pytest

from parley.app.team.rules import suspensions
from parley.app.team.work import sweep
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.rules.suspension import Stopped
from parley.domain.times import stamp
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


@pytest.mark.both_stores
@with_rig
async def test_a_suspension_with_an_end_is_lifted_by_itself_and_that_is_on_record(rig: Rig) -> None:
    await two_agents(rig)
    until = stamp(rig.clock.at + timedelta(hours=2))
    await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "a loop", until)
    await suspensions.suspend(rig.team, ADMIN, Stopped.ORG_UNIT, "sales", "for good")

    rig.clock.pass_by(hours=1, minutes=59)
    await sweep.sweep(rig.team)
    assert (await refusal(send(rig, "alice", "bob"))).code == "suspended"
    rig.clock.pass_by(minutes=1)
    await sweep.sweep(rig.team)
    await sweep.sweep(rig.team)

    await said(rig, "alice", "bob")
    assert [one.name for one in await suspensions.list_all(rig.team, ADMIN)] == ["sales"]
    lifted = [one for one in await entries(rig) if one["action"] == "suspension_lifted"]
    assert [(one["actor"], one["name"], one["until"], one["reason"]) for one in lifted] == [
        ("system", "bob", until, "a loop")
    ]


@with_rig
async def test_several_that_end_at_once_are_lifted_one_by_one(rig: Rig) -> None:
    until = stamp(rig.clock.at + timedelta(minutes=5))
    for name in ("bob", "carol", "dora"):
        await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, name, "", until)

    rig.clock.pass_by(minutes=5)
    await sweep.sweep(rig.team)

    assert await suspensions.list_all(rig.team, ADMIN) == ()
    assert sorted(one["name"] for one in await entries(rig) if one["action"] == "suspension_lifted") == [
        "bob",
        "carol",
        "dora",
    ]


@with_rig
async def test_the_end_is_the_one_that_was_said_last_and_none_is_for_good(rig: Rig) -> None:
    ends = [stamp(rig.clock.at + timedelta(hours=hours)) for hours in (1, 2)]
    for until in (*ends, ""):
        again = await suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "why", until)
        assert (again.until, again.reason) == (until, "why")

    rig.clock.pass_by(hours=3)
    await sweep.sweep(rig.team)

    assert [one.name for one in await suspensions.list_all(rig.team, ADMIN)] == ["bob"]
    assert len(await entries(rig)) == 3


@with_rig
async def test_an_end_in_the_past_is_refused(rig: Rig) -> None:
    past = stamp(rig.clock.at - timedelta(seconds=1))

    assert (await refusal(suspensions.suspend(rig.team, ADMIN, Stopped.AGENT, "bob", "", past))).code == "invalid"
    assert await suspensions.list_all(rig.team, ADMIN) == ()
