"""Tenants and keys: made once, revoked at once."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from parley.app.team.directory import keys, roles
from parley.app.team.directory.keys import KeyDraft
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, Caller, IssuedKey, Key, KeyKind, key_digest
from parley.domain.errors.errors import Conflict, Invalid, NotFound
from parley.domain.errors.team import NameTaken, QuotaExceeded, ScopeRequired
from parley.domain.store.changes import AuditQuery
from tests.rigs.behind_the_server import kept
from tests.rigs.node import two_nodes
from tests.rigs.team import Rig, in_loop, with_rig

pytestmark = pytest.mark.both_stores


def an_admin(tenant: str = DEFAULT_TENANT, *, operator: bool = False) -> Caller:
    return Caller(tenant, "", KeyKind.ADMIN, "key_admin", user="eva", operator=operator)


OPERATOR = an_admin(operator=True)
SERVICE = KeyDraft(KeyKind.SERVICE)


async def stored(rig: Rig, key_id: str) -> Key:
    found = await rig.store.get(Key, NO_TENANT, key_id)
    assert found is not None
    return found


@with_rig
async def test_the_first_start_makes_the_operators_key_and_shows_it_once(rig: Rig) -> None:
    secret = await keys.first_start(rig.team, "")

    assert secret is not None
    (key,) = await keys.list_all(rig.team, an_admin())
    assert (key.key_kind, key.operator, key.owner) == (KeyKind.ADMIN, True, DEFAULT_TENANT)
    assert key.digest == key_digest(secret)
    assert await keys.first_start(rig.team, "") is None
    assert len(await keys.list_all(rig.team, an_admin())) == 1


@with_rig
async def test_a_secret_that_was_given_is_used_and_not_shown(rig: Rig) -> None:
    assert await keys.first_start(rig.team, "given secret") is None

    found = await rig.store.find_by_name(Key, NO_TENANT, "", key_digest("given secret"))

    assert found is not None
    assert found.operator


@with_rig
async def test_a_later_start_finds_everything_as_it_was(rig: Rig) -> None:
    await keys.first_start(rig.team, "given")
    await rig.reopen()

    assert await keys.first_start(rig.team, "") is None
    assert await keys.first_start(rig.team, "given") is None
    assert len(await rig.store.children(Key, NO_TENANT, "")) == 1


@with_rig
async def test_who_lost_the_operators_key_starts_with_a_new_one(rig: Rig) -> None:
    await keys.first_start(rig.team, "lost")
    await rig.reopen()

    assert await keys.first_start(rig.team, "new") is None

    found = await rig.store.find_by_name(Key, NO_TENANT, "", key_digest("new"))
    assert found is not None
    assert found.operator


@with_rig
async def test_only_the_digest_of_a_secret_is_kept(rig: Rig) -> None:
    await rig.tenant()

    made = await keys.create(rig.team, an_admin(), KeyDraft(KeyKind.AGENT, agent_id="alice"))

    key = await stored(rig, made.key.id)
    assert key.digest == key_digest(made.secret)
    await rig.store.close()
    assert made.secret.encode() not in kept(rig)
    assert key.digest.encode() in kept(rig)
    await rig.reopen()


@with_rig
async def test_the_ledger_of_the_keys_tenant_says_who_made_it(rig: Rig) -> None:
    await keys.create_tenant(rig.team, OPERATOR, "acme", "Acme")

    made = await keys.create(rig.team, OPERATOR, KeyDraft(KeyKind.ADMIN, "acme"))

    (written,) = await rig.store.entries("acme", 0, 10)
    assert (written.entry.action, written.entry.agent, written.entry.message_id) == (
        "key_created",
        "user:eva",
        made.key.id,
    )
    assert made.secret not in str(written)


@with_rig
async def test_a_tenant_has_one_name(rig: Rig) -> None:
    await keys.create_tenant(rig.team, OPERATOR, "acme", "")

    with pytest.raises(NameTaken):
        await keys.create_tenant(rig.team, OPERATOR, "acme", "")
    assert [(one.id, one.title) for one in await keys.tenants(rig.team, OPERATOR)] == [("acme", "acme")]


@with_rig
async def test_only_the_operator_makes_tenants(rig: Rig) -> None:
    with pytest.raises(ScopeRequired):
        await keys.create_tenant(rig.team, an_admin(), "acme", "")
    with pytest.raises(ScopeRequired):
        await keys.tenants(rig.team, an_admin())


@with_rig
async def test_the_operator_needs_a_tenant_that_exists(rig: Rig) -> None:
    with pytest.raises(NotFound):
        await keys.create(rig.team, OPERATOR, KeyDraft(KeyKind.SERVICE, "nowhere"))


@with_rig
async def test_another_tenants_keys_do_not_exist_for_an_admin(rig: Rig) -> None:
    await rig.tenant("acme")
    made = await keys.create(rig.team, OPERATOR, KeyDraft(KeyKind.SERVICE, "acme"))

    with pytest.raises(NotFound):
        await keys.create(rig.team, an_admin(), KeyDraft(KeyKind.SERVICE, "acme"))
    with pytest.raises(NotFound):
        await keys.revoke(rig.team, an_admin(), made.key.id)
    with pytest.raises(NotFound):
        await keys.rotate(rig.team, an_admin(), made.key.id)
    assert await keys.list_all(rig.team, an_admin()) == []


@with_rig
async def test_a_key_is_revoked_once_and_stays_listed(rig: Rig) -> None:
    made = await keys.create(rig.team, an_admin(), SERVICE)

    first = await keys.revoke(rig.team, an_admin(), made.key.id)
    rig.clock.pass_by(seconds=5)
    again = await keys.revoke(rig.team, an_admin(), made.key.id)

    assert first.revoked_at == again.revoked_at != ""
    assert not (await stored(rig, made.key.id)).valid(rig.at())
    assert [one.id for one in await keys.list_all(rig.team, an_admin())] == [made.key.id]


@with_rig
async def test_the_operators_key_is_rotated_and_never_revokes_itself(rig: Rig) -> None:
    await keys.first_start(rig.team, "")
    (key,) = await keys.list_all(rig.team, OPERATOR)

    for caller in (OPERATOR._replace(key_id=key.id), an_admin()):
        with pytest.raises(Conflict):
            await keys.revoke(rig.team, caller, key.id)
    made = await keys.rotate(rig.team, OPERATOR, key.id)

    assert made.key.operator
    assert not (await stored(rig, key.id)).valid(rig.at())


@with_rig
async def test_whoever_lost_the_operators_key_gets_one_more_and_revokes_the_lost_one(rig: Rig) -> None:
    lost = await keys.first_start(rig.team, "")
    assert lost is not None

    secret = await keys.add_operator_key(rig.team)

    old, new = await keys.find_valid(rig.team, lost), await keys.find_valid(rig.team, secret)
    assert old is not None
    assert new is not None
    assert new.operator
    assert (await keys.revoke(rig.team, OPERATOR._replace(key_id=new.id), old.id)).revoked_at
    assert await keys.find_valid(rig.team, lost) is None
    entries = await rig.store.audits(DEFAULT_TENANT, AuditQuery(limit=10))
    documents = [json.loads(entry.document) for entry in entries]
    assert [(entry["action"], entry["actor"], entry["made_key"]) for entry in documents] == [
        ("key_created", "system", old.id),
        ("key_created", "system", new.id),
        ("key_revoked", "user:eva", old.id),
    ]


@with_rig
async def test_a_caller_is_described_by_its_key_its_agent_and_the_roles_of_that(rig: Rig) -> None:
    await keys.first_start(rig.team, "")
    agent = (await keys.create(rig.team, an_admin(), KeyDraft(KeyKind.AGENT, agent_id="alice"))).key
    person = (await keys.create(rig.team, an_admin(), KeyDraft(KeyKind.HUMAN, user_id="ann"))).key
    await roles.grant(rig.team, an_admin(), "reviewer", "alice")

    as_agent = await keys.describe_caller(rig.team, Caller("default", "alice", KeyKind.AGENT, agent.id))
    as_person = await keys.describe_caller(rig.team, Caller("default", "ann", KeyKind.HUMAN, person.id, "ann"))

    assert as_agent == keys.KeyUse(agent, "alice", ("reviewer",))
    assert as_person == keys.KeyUse(person, "", ())


@with_rig
async def test_a_rotated_key_keeps_its_rights_and_its_end(rig: Rig) -> None:
    ends = rig.clock.at + timedelta(days=1)
    made = await keys.create(rig.team, an_admin(), KeyDraft(KeyKind.AGENT, agent_id="alice", expires_at=ends))

    anew = await keys.rotate(rig.team, an_admin(), made.key.id)

    assert anew.secret != made.secret
    key = await stored(rig, anew.key.id)
    assert (key.agent_id, key.expires_at, key.revoked_at) == ("alice", made.key.expires_at, "")
    assert (await stored(rig, made.key.id)).revoked_at
    with pytest.raises(Conflict):
        await keys.rotate(rig.team, an_admin(), made.key.id)


@pytest.mark.parametrize(
    "draft",
    [
        KeyDraft(KeyKind.AGENT),
        KeyDraft(KeyKind.HUMAN),
        KeyDraft(KeyKind.ADMIN, agent_id="alice"),
        KeyDraft(KeyKind.AGENT, agent_id="system"),
    ],
)
@with_rig
async def test_a_key_names_whom_it_is_for(rig: Rig, draft: KeyDraft) -> None:
    with pytest.raises(Invalid):
        await keys.create(rig.team, an_admin(), draft)


@with_rig
async def test_a_key_ends_in_the_future(rig: Rig) -> None:
    with pytest.raises(Invalid):
        await keys.create(rig.team, an_admin(), SERVICE._replace(expires_at=rig.clock.at))


@with_rig
async def test_a_tenant_has_so_many_keys(rig: Rig) -> None:
    rig.team.limits = rig.limits._replace(keys_per_tenant=2)

    for _ in range(2):
        await keys.create(rig.team, an_admin(), SERVICE)

    with pytest.raises(QuotaExceeded):
        await keys.create(rig.team, an_admin(), SERVICE)
    assert await rig.store.count(IssuedKey, DEFAULT_TENANT, "") == 2


# ---------------------------------------------------------------- two servers that share a store


@in_loop
async def test_of_two_servers_that_start_at_once_one_makes_the_operators_key(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        shown = await asyncio.gather(keys.first_start(a.team, ""), keys.first_start(b.team, ""))

        (secret,) = [one for one in shown if one is not None]
        for rig in (a, b):
            await rig.store.catch_up(NO_TENANT, DEFAULT_TENANT)
            (key,) = await keys.list_all(rig.team, an_admin())
            assert key.digest == key_digest(secret)


@in_loop
async def test_two_servers_that_start_at_once_with_one_secret_make_one_key_of_it(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        shown = await asyncio.gather(keys.first_start(a.team, "secret"), keys.first_start(b.team, "secret"))

        assert all(one is None for one in shown)
        await b.store.catch_up(NO_TENANT, DEFAULT_TENANT)
        (key,) = await keys.list_all(b.team, an_admin())
        assert key.digest == key_digest("secret")
