"""What a caller may do with an intent."""

from __future__ import annotations

import pytest

from parley.app.team.directory.permissions import assigned, intent_access, stands_on
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Forbidden, NotFound
from tests.rigs.team import INTENT, Rig, with_rig


@with_rig
async def test_an_intent_that_a_caller_may_not_know_of_is_not_there(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", Permission.READ),))

    with pytest.raises(NotFound):
        await intent_access(rig.team, rig.caller("carol"), INTENT, Permission.READ)
    with pytest.raises(Forbidden):
        await intent_access(rig.team, rig.caller("bob"), INTENT, Permission.WRITE)
    _, access = await intent_access(rig.team, rig.caller("bob"), INTENT, Permission.READ)

    assert await stands_on(rig.team, access, rig.caller("carol")) is None


@with_rig
async def test_an_admin_of_the_tenant_may_do_everything(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)

    _, access = await intent_access(rig.team, rig.caller("", KeyKind.ADMIN), INTENT, Permission.ADMIN)

    assert assigned(access, "bob") is None
