from __future__ import annotations

from dataclasses import replace

import pytest

from parley.app.team.directory import sessions
from parley.domain.directory.callers import NO_TENANT, Caller, Key, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import Unauthorized
from parley.domain.times import stamp
from tests.rigs.team import Rig, with_rig


async def a_key(rig: Rig) -> Key:
    await rig.key("bob")
    key = await rig.team.store.get(Key, NO_TENANT, "key_default_agent_bob")
    assert key is not None
    return key


@with_rig
async def test_a_session_is_found_by_its_secret_until_it_is_ended(rig: Rig) -> None:
    key = await a_key(rig)
    begun = await sessions.start(rig.team, key)
    bob = Caller("default", "bob", KeyKind.AGENT, key.id)
    stranger = Caller("default", "carol", KeyKind.AGENT, "key_other")

    holder = await sessions.find(rig.team, begun.secret)

    assert (holder.session.id, holder.key.id) == (begun.session.id, key.id)
    assert [session.id for session in await sessions.list_page(rig.team, bob)] == [begun.session.id]
    with pytest.raises(NotFound):
        await sessions.end(rig.team, stranger, begun.session.id)
    await sessions.end(rig.team, bob, begun.session.id)
    with pytest.raises(Unauthorized):
        await sessions.find(rig.team, begun.secret)


@with_rig
async def test_no_session_starts_with_a_key_that_has_ended(rig: Rig) -> None:
    key = await a_key(rig)
    rig.clock.pass_by(seconds=1)

    with pytest.raises(Unauthorized):
        await sessions.start(rig.team, replace(key, expires_at=stamp(rig.team.now())))
