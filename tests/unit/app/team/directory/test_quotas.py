"""Limits on what a tenant and one of its agents may create."""

from __future__ import annotations

import pytest

from parley.app.team.directory.quotas import check_intents, counted_intent
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.directory.intent import IntentCount
from tests.rigs.governed import refusal
from tests.rigs.team import Rig, with_rig

pytestmark = pytest.mark.both_stores


@with_rig
async def test_a_tenant_and_an_agent_have_only_so_many_intents(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(intents_per_tenant=1, intents_per_agent=2)
    await check_intents(rig.team, DEFAULT_TENANT)
    await rig.intent()
    assert (await refusal(check_intents(rig.team, DEFAULT_TENANT))).code == "quota_exceeded"

    (count,) = await counted_intent(rig.team, rig.caller("alice"))
    assert count.total == 1
    await rig.put(IntentCount(id="alice", tenant_id=DEFAULT_TENANT, total=2))
    assert (await refusal(counted_intent(rig.team, rig.caller("alice")))).code == "quota_exceeded"
    assert await counted_intent(rig.team, rig.caller("", KeyKind.SERVICE)) == ()
