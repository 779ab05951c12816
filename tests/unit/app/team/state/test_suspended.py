"""Who may announce something to others."""

from __future__ import annotations

import pytest

from parley.app.team.rules import suspensions
from parley.app.team.state.suspended import NO_SUSPENSIONS, announces, check_not_suspended
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.rules import Suspended
from parley.domain.rules.suspension import Stopped
from parley.domain.store.changes import TeamChanges
from tests.rigs.team import INTENT, Rig, with_rig


@with_rig
async def test_events_and_what_others_see_are_announced_and_messages_are_judged_elsewhere(rig: Rig) -> None:
    event = rig.team.event_by(rig.caller("alice"), INTENT, "comment", n=1)
    intent = await rig.intent()

    assert announces(TeamChanges(DEFAULT_TENANT, events=(event,)))
    assert announces(TeamChanges(DEFAULT_TENANT, puts=(intent,)))
    assert not announces(TeamChanges(DEFAULT_TENANT))


@with_rig
async def test_a_caller_depends_on_there_being_no_suspension(rig: Rig) -> None:
    assert await check_not_suspended(rig.store, rig.caller("alice")) == (NO_SUSPENSIONS,)


@with_rig
async def test_a_suspended_agent_is_refused_and_another_depends_on_the_list(rig: Rig) -> None:
    await suspensions.suspend(rig.team, rig.caller("", KeyKind.ADMIN), Stopped.AGENT, "alice", "")

    with pytest.raises(Suspended):
        await check_not_suspended(rig.store, rig.caller("alice"))
    assert [expect.version for expect in await check_not_suspended(rig.store, rig.caller("bob"))] == [1]
