from __future__ import annotations

from datetime import timedelta

import pytest

from parley.app.team.directory.one_time import OneTimeSecrets
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.team import Unauthorized
from tests.rigs.team import Rig, with_rig

SECRETS = OneTimeSecrets("test", "tst_", timedelta(minutes=1))


async def a_caller(rig: Rig) -> Caller:
    await rig.key("bob")
    return Caller("default", "bob", KeyKind.AGENT, "key_default_agent_bob")


@with_rig
async def test_a_secret_stands_for_its_key_and_agent_once(rig: Rig) -> None:
    issued = await SECRETS.issue(rig.team, await a_caller(rig), "a purpose")

    holder = await SECRETS.redeem(rig.team, issued.secret, "a purpose")

    assert (holder.key.id, holder.agent) == ("key_default_agent_bob", "bob")
    assert issued.expires_at == rig.team.now() + timedelta(minutes=1)
    with pytest.raises(Unauthorized):
        await SECRETS.redeem(rig.team, issued.secret, "a purpose")


@with_rig
async def test_a_secret_is_for_its_kind_its_purpose_and_its_time(rig: Rig) -> None:
    caller = await a_caller(rig)
    issued = await SECRETS.issue(rig.team, caller, "a purpose")
    other = OneTimeSecrets("other", "tst_", timedelta(minutes=1))

    for secrets, secret, purpose in (
        (SECRETS, issued.secret, "another"),
        (other, issued.secret, "a purpose"),
        (SECRETS, "tst_unknown", "a purpose"),
        (SECRETS, issued.secret.removeprefix("tst_"), "a purpose"),
    ):
        with pytest.raises(Unauthorized):
            await secrets.redeem(rig.team, secret, purpose)
    rig.clock.pass_by(seconds=60)
    with pytest.raises(Unauthorized):
        await SECRETS.redeem(rig.team, issued.secret, "a purpose")
