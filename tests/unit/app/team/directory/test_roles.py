"""Roles are granted, never taken; and what waited for a holder reaches it."""

from __future__ import annotations

import pytest

from parley.app.team.directory import agents as registry
from parley.app.team.directory import roles
from parley.app.team.work import sweep
from parley.domain.agents.agent import AgentDraft, AgentRecord
from parley.domain.channel.post import Post, PostState
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Forbidden, NotFound
from parley.domain.errors.team import AgentDeparted
from tests.rigs.team import Rig, with_rig


async def holders(rig: Rig, role_id: str) -> list[str]:
    return [one.agent for one in (await roles.held(rig.team, rig.caller("x"), role_id)).holders]


async def kept(rig: Rig, message_id: str) -> Post:
    found = await rig.store.post("default", message_id)
    assert found is not None
    return found


@with_rig
async def test_an_agent_that_registers_with_a_role_it_does_not_hold_is_refused(rig: Rig) -> None:
    with pytest.raises(Forbidden):
        await registry.register(rig.team, rig.caller("mallory"), AgentDraft("mallory", role_id="billing"))

    assert await holders(rig, "billing") == []
    assert await rig.store.get(AgentRecord, "default", "mallory") is None


@with_rig
async def test_an_agent_may_register_with_a_role_that_it_was_granted(rig: Rig) -> None:
    await roles.grant(rig.team, rig.caller(kind=KeyKind.ADMIN), "billing", "a")

    listed = await registry.register(rig.team, rig.caller("a"), AgentDraft("a", role_id="billing"))

    assert listed.record.role_id == "billing"
    assert await holders(rig, "billing") == ["a"]


@pytest.mark.parametrize("kind", [KeyKind.SERVICE, KeyKind.ADMIN])
@with_rig
async def test_a_service_or_admin_key_grants_the_role_it_registers_an_agent_with(rig: Rig, kind: KeyKind) -> None:
    await registry.register(rig.team, rig.caller(kind=kind), AgentDraft("a", role_id="billing"))

    assert await holders(rig, "billing") == ["a"]


@with_rig
async def test_what_waited_for_a_role_reaches_its_first_holder(rig: Rig) -> None:
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    waiting = await rig.say("alice", to="role:billing")
    assert waiting.state is PostState.PENDING

    await roles.grant(rig.team, rig.caller(kind=KeyKind.ADMIN), "billing", "bob")

    found = await rig.store.post("default", waiting.id)
    assert found is not None
    assert (found.state, found.recipients) == (PostState.DELIVERED, ("bob",))
    assert found.position > waiting.position


@with_rig
async def test_the_sweep_delivers_what_a_server_left_behind_when_it_died_after_a_grant(rig: Rig) -> None:
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    said = await rig.say("alice", to="role:billing")
    unheld = await rig.say("alice", to="role:audit")
    await rig.role("billing", "bob")  # and nothing more

    await sweep.sweep(rig.team)

    delivered, waiting = await kept(rig, said.id), await kept(rig, unheld.id)
    assert (delivered.state, delivered.recipients) == (PostState.DELIVERED, ("bob",))
    assert waiting.state is PostState.PENDING


@with_rig
async def test_the_sweep_looks_at_all_that_waits_in_turn(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "_LOOKED_AT", 1)
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    said = [await rig.say("alice", to=f"role:r{n}") for n in range(3)]
    await rig.role("r2", "bob")

    for _ in range(3):
        rig.clock.pass_by(seconds=10)
        await sweep.sweep(rig.team)

    assert [(await kept(rig, one.id)).state for one in said] == [*[PostState.PENDING] * 2, PostState.DELIVERED]


@with_rig
async def test_what_waited_for_a_role_reaches_an_agent_that_registers_with_it(rig: Rig) -> None:
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    waiting = await rig.say("alice", to="role:billing")

    await registry.register(rig.team, rig.caller(kind=KeyKind.SERVICE), AgentDraft("bob", role_id="billing"))

    found = await rig.store.post("default", waiting.id)
    assert found is not None
    assert found.recipients == ("bob",)


@with_rig
async def test_who_comes_later_does_not_get_what_others_received(rig: Rig) -> None:
    await rig.intent(agents=("bob", "carol"))
    await rig.channel()
    await rig.role("billing", "bob")
    said = await rig.say("alice", to="role:billing")

    await roles.grant(rig.team, rig.caller(kind=KeyKind.ADMIN), "billing", "carol")

    found = await rig.store.post("default", said.id)
    assert found is not None
    assert found.recipients == ("bob",)


@with_rig
async def test_a_grant_shows_in_the_record_and_a_revocation_takes_it_out(rig: Rig) -> None:
    admin = rig.caller(kind=KeyKind.ADMIN)
    await rig.agent("a")

    await roles.grant(rig.team, admin, "billing", "a")
    assert (await registry.get(rig.team, admin, "a")).record.role_id == "billing"
    await roles.revoke(rig.team, admin, "billing", "a")

    assert (await registry.get(rig.team, admin, "a")).record.role_id == ""
    assert await holders(rig, "billing") == []


@with_rig
async def test_granting_twice_is_granting_once(rig: Rig) -> None:
    admin = rig.caller(kind=KeyKind.ADMIN)
    first = await roles.grant(rig.team, admin, "billing", "a")

    assert await roles.grant(rig.team, admin, "billing", "a") == first
    assert [one.id for one in await roles.list_all(rig.team, admin)] == ["billing"]


@with_rig
async def test_a_role_that_is_not_held_cannot_be_revoked(rig: Rig) -> None:
    with pytest.raises(NotFound):
        await roles.revoke(rig.team, rig.caller(kind=KeyKind.ADMIN), "billing", "a")


@with_rig
async def test_who_has_left_is_granted_nothing(rig: Rig) -> None:
    await rig.agent("a")
    await registry.deregister(rig.team, rig.caller("a"), "a")

    with pytest.raises(AgentDeparted):
        await roles.grant(rig.team, rig.caller(kind=KeyKind.ADMIN), "billing", "a")


@with_rig
async def test_roles_of_two_tenants_have_nothing_to_do_with_each_other(rig: Rig) -> None:
    await roles.grant(rig.team, rig.caller(kind=KeyKind.ADMIN), "billing", "a")

    assert (await roles.held(rig.team, rig.caller("x", tenant="acme"), "billing")).holders == ()
