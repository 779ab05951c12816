"""Tenants and keys: create, list, revoke, rotate. A secret is shown once; only its SHA-256 is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.names import (
    agents_of_person,
    check_agent_name,
    check_person_name,
    name_of_person,
)
from parley.app.team.retry import committed, put
from parley.app.team.rules import in_force
from parley.app.team.state.suspended import check_not_suspended
from parley.domain.agents.agent import AgentRecord
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.content.envelope import NOBODY
from parley.domain.directory.callers import (
    ALL_KEYS,
    DEFAULT_TENANT,
    NO_TENANT,
    SECRET_PREFIX,
    SYSTEM,
    IssuedKey,
    Key,
    KeyKind,
    KeyNames,
    Role,
    Tenant,
    key_digest,
    party_name,
)
from parley.domain.directory.session import LoginSession
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Problem, Stale
from parley.domain.errors.team import NameTaken, QuotaExceeded, ScopeRequired, Unauthorized
from parley.domain.mailbox.ledger import Entry
from parley.domain.store.changes import TeamChanges
from parley.domain.times import stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Expect

_PAGE = 1_000


class KeyDraft(NamedTuple):
    """A proposed key. Without a tenant it is for the caller's own."""

    kind: KeyKind
    tenant: str = ""
    agent_id: str = ""
    user_id: str = ""
    expires_at: datetime | None = None


class CreatedKey(NamedTuple):
    """A new key and its secret, which is not stored."""

    key: Key
    secret: str


async def first_start(team: Team, given_secret: str) -> str | None:
    """Create the default tenant and the operator's key in an empty store.

    A given secret that no key has becomes one more operator key: whoever starts the server owns its data, and may have
    lost the first one. The secret when it was made up here; None when it was given, or when somebody started before.
    """
    await team.store.catch_up(NO_TENANT)
    existing = await team.store.get(Tenant, NO_TENANT, DEFAULT_TENANT)
    if existing is not None and (not given_secret or await _has_key(team, given_secret)):
        return None
    secret = given_secret or SECRET_PREFIX + team.ids.secret()
    now = team.at()
    key = Key(
        id=team.new_id("key"),
        tenant_id=NO_TENANT,
        owner=DEFAULT_TENANT,
        key_kind=KeyKind.ADMIN,
        digest=key_digest(secret),
        operator=True,
        created_at=now,
    )
    tenant = Tenant(id=DEFAULT_TENANT, tenant_id=NO_TENANT, title=DEFAULT_TENANT, created_at=now)
    new_tenants = () if existing is not None else (tenant,)
    entries = (
        *(Entry("tenant_created", now, SYSTEM, new_tenant.id, "") for new_tenant in new_tenants),
        Entry("key_created", now, SYSTEM, key.id, "", {"kind": key.key_kind.value}),
    )
    puts = (*new_tenants, key, _issued(key))
    audit = _audit(team, SYSTEM, "", "key_created", key)
    try:
        await team.store.commit(TeamChanges(DEFAULT_TENANT, puts=puts, entries=entries, audits=(audit,)))
    except (Stale, NameTaken):
        return await first_start(team, given_secret)  # another node started at this moment, and has done it
    return None if given_secret else secret


async def add_operator_key(team: Team) -> str:
    """Create one more operator key, for whoever starts the server and has lost the others; its secret."""
    secret = SECRET_PREFIX + team.ids.secret()
    await first_start(team, secret)
    return secret


async def find_valid(team: Team, secret: str) -> Key | None:
    """The key of a secret, if it is valid now."""
    key = await team.store.find_by_name(Key, NO_TENANT, "", key_digest(secret))
    return key if key is not None and key.valid(team.at()) else None


async def _has_key(team: Team, secret: str) -> bool:
    return await team.store.find_by_name(Key, NO_TENANT, "", key_digest(secret)) is not None


async def create_tenant(team: Team, caller: Caller, tenant_id: str, title: str) -> Tenant:
    """Create a tenant; only for the operator."""
    _check_operator(caller)
    tenant = Tenant(id=party_name(tenant_id), tenant_id=NO_TENANT, title=title or tenant_id, created_at=team.at())
    if await team.store.get(Tenant, NO_TENANT, tenant.id) is not None:
        raise NameTaken("there is a tenant of this name already", facts={"tenant_id": tenant.id})
    entry = team.entry(caller, "tenant_created", tenant.id)
    changes = TeamChanges(caller.tenant, puts=(tenant,), entries=(entry,), created_id=tenant.id)
    record = (await team.commit(caller, changes)).puts[0]
    assert isinstance(record, Tenant)  # noqa: S101  # what was put
    return record


async def get_tenant(team: Team, caller: Caller, tenant_id: str) -> Tenant:
    """One tenant, for the operator."""
    _check_operator(caller)
    tenant = await team.store.get(Tenant, NO_TENANT, tenant_id)
    if tenant is None:
        raise NotFound.no_such("tenant")
    return tenant


async def tenants(team: Team, caller: Caller) -> list[Tenant]:
    """All tenants, for the operator."""
    _check_operator(caller)
    all_tenants: list[Tenant] = []
    while page := await team.store.children(
        Tenant, NO_TENANT, "", after=all_tenants[-1].id if all_tenants else "", limit=_PAGE
    ):
        all_tenants += page
    return all_tenants


async def create(team: Team, caller: Caller, draft: KeyDraft) -> CreatedKey:
    """Create a key for the caller's tenant; the operator may name any tenant."""
    owner = draft.tenant or caller.tenant
    await _check_rules(team, caller, owner)
    _check_fits(draft)
    if await team.store.count(IssuedKey, owner, "") >= team.limits.keys_per_tenant:
        raise QuotaExceeded(f"a tenant has at most {team.limits.keys_per_tenant} keys")
    if draft.expires_at is not None and draft.expires_at <= team.now():
        raise Invalid.because([Problem("invalid", "expires_at", "is in the past")])
    fresh = _fresh(team)
    key = Key(
        id=fresh.id,
        tenant_id=NO_TENANT,
        owner=owner,
        key_kind=draft.kind,
        digest=key_digest(fresh.secret),
        agent_id=draft.agent_id,
        user_id=draft.user_id,
        created_at=fresh.at,
        expires_at=stamp(draft.expires_at) if draft.expires_at else "",
    )
    entry = team.entry(caller, "key_created", key.id, **_facts(key))
    audit = _audit(team, caller.actor, caller.key_id, "key_created", key)

    async def decide() -> TeamChanges:
        names, expects = await _new_names(team, key)
        puts = (key, _issued(key), *names)
        return TeamChanges(owner, expects=expects, puts=puts, entries=(entry,), audits=(audit,))

    return CreatedKey(await put(team, caller, decide, Key, "list of keys"), fresh.secret)


async def _new_names(team: Team, key: Key) -> tuple[tuple[KeyNames, ...], tuple[Expect, ...]]:
    """That a key is given to a name, and what that depends on. `NameTaken` for a name of the other kind."""
    known = await team.store.get(KeyNames, key.owner, ALL_KEYS)
    names = (known or KeyNames(id=ALL_KEYS, tenant_id=key.owner),)
    if key.key_kind is KeyKind.AGENT:
        await check_agent_name(team, key.owner, key.agent_id)
        return names, ()
    if key.key_kind is KeyKind.HUMAN:
        return names, await check_person_name(team, key.owner, key.user_id)
    return (), ()


async def list_all(team: Team, caller: Caller) -> list[Key]:
    """The keys of the caller's tenant, oldest first, including revoked ones."""
    issued = await team.store.children(IssuedKey, caller.tenant, "", limit=team.limits.keys_per_tenant + 1)
    keys = [await team.store.get(Key, NO_TENANT, issue.id) for issue in issued]
    return [key for key in keys if key is not None]


async def revoke(team: Team, caller: Caller, key_id: str) -> Key:
    """Revoke a key at once; its open streams end too. An operator's key cannot revoke itself, so that one is left."""

    async def decide() -> TeamChanges | None:
        key = await _stored(team, caller, key_id)
        if key.revoked_at:
            return None
        if key.operator and (key.id == caller.key_id or not caller.operator):
            raise Conflict("an operator's key is revoked with another operator's key", hint="rotate it")
        ended = replace(key, revoked_at=team.at())
        entry = team.entry(caller, "key_revoked", key.id, **_facts(key))
        audit = _audit(team, caller.actor, caller.key_id, "key_revoked", key)
        return TeamChanges(key.owner, puts=(ended,), entries=(entry,), audits=(audit,))

    await committed(team, caller, decide, "key")
    return await _stored(team, caller, key_id)


async def rotate(team: Team, caller: Caller, key_id: str) -> CreatedKey:
    """Replace a key by a new one. The old one is revoked at once, and its open streams end."""
    fresh = _fresh(team)

    async def decide() -> TeamChanges:
        key = await _stored(team, caller, key_id)
        if key.operator:
            _check_operator(caller)  # its successor is the operator's too, and would be the caller's
        if not key.valid(team.at()):
            raise Conflict("the key has ended already", hint="make a new one")
        new_key = fresh.like(key)
        ended = replace(key, revoked_at=team.at())
        entry = team.entry(caller, "key_rotated", key.id, successor=new_key.id, **_facts(key))
        audit = _audit(team, caller.actor, caller.key_id, "key_rotated", new_key, replaces=key.id)
        return TeamChanges(key.owner, puts=(new_key, ended, _issued(new_key)), entries=(entry,), audits=(audit,))

    return CreatedKey(await put(team, caller, decide, Key, "key"), fresh.secret)


class KeyUse(NamedTuple):
    """The key of a request, the agent that it speaks for, or "", and the roles of that agent.

    Of a person: the agents that act for it, and whether a policy names it as an approver.
    """

    key: Key
    agent: str
    roles: tuple[str, ...]
    agents: tuple[str, ...] = ()
    is_approver: bool = False


async def describe_caller(team: Team, caller: Caller) -> KeyUse:
    """Who calls: the key, and as which agent. A person speaks as an agent only in the place of one."""
    key = await check_key(team, caller)
    is_person = caller.kind is KeyKind.HUMAN
    is_agent = not is_person or caller.agent != await name_of_person(team, key.owner, key.user_id)
    agent = caller.agent if is_agent else ""
    roles = await team.store.children(Role, caller.tenant, "") if agent else []
    holds = tuple(role.id for role in roles if role.held_by(agent))
    if not is_person:
        return KeyUse(key, agent, holds)
    agents = [record.id for record in await agents_of_person(team, caller.tenant, caller.user) if not record.gone]
    rules = await in_force.in_force(team, caller.tenant, [])
    return KeyUse(key, agent, holds, tuple(agents), rules.book.names_approver(caller.user))


async def check_key(team: Team, caller: Caller) -> Key:
    """The key of the caller. Refused when it has expired, was revoked or its agent was suspended during a wait.

    So it is when the caller signed out, or is a person in the place of an agent that no longer acts for it.
    """
    now = team.at()
    key = await team.store.get(Key, NO_TENANT, caller.key_id)
    if key is None or not key.valid(now):
        raise Unauthorized
    if caller.session:
        session = await team.store.get(LoginSession, NO_TENANT, caller.session)
        if session is None or session.expires_at <= now:
            raise Unauthorized
    if caller.kind is KeyKind.HUMAN and caller.agent not in ("", caller.user):
        record = await team.store.get(AgentRecord, caller.tenant, caller.agent)
        if record is None or record.gone or record.attributes.user_id != caller.user:
            raise Unauthorized
    await check_not_suspended(team.store, caller)
    return key


class _Fresh(NamedTuple):
    """The generated fields of a new key."""

    id: str
    secret: str
    at: str

    def like(self, key: Key) -> Key:
        """A key with the rights of another."""
        return replace(key, id=self.id, version=0, digest=key_digest(self.secret), created_at=self.at)


def _fresh(team: Team) -> _Fresh:
    return _Fresh(team.new_id("key"), SECRET_PREFIX + team.ids.secret(), team.at())


def _issued(key: Key) -> IssuedKey:
    return IssuedKey(id=key.id, tenant_id=key.owner)


def _facts(key: Key) -> dict[str, str]:
    facts = {"kind": key.key_kind.value, "agent": key.agent_id, "user": key.user_id}
    return {name: value for name, value in facts.items() if value}


def _audit(team: Team, actor: str, by: str, action: str, key: Key, **facts: str) -> AuditDraft:
    """The audit entry about a key: auditors need to know who could act, and as whom."""
    about = {"made_key": key.id, "kind": key.key_kind.value, "agent_id": key.agent_id, "user_id": key.user_id}
    facts |= {name: value for name, value in about.items() if value}
    return AuditDraft(team.new_id("aud"), TENANT_SIDE, team.at(), action, actor, {**facts, "key": by})


def _check_operator(caller: Caller) -> None:
    if not caller.operator:
        raise ScopeRequired("this needs the operator's key")


async def _check_rules(team: Team, caller: Caller, tenant: str) -> None:
    """Refuse keys for another tenant, unless the caller is the operator."""
    if tenant == caller.tenant:
        return
    if not caller.operator or await team.store.get(Tenant, NO_TENANT, tenant) is None:
        raise NotFound.no_such("tenant")


async def _stored(team: Team, caller: Caller, key_id: str) -> Key:
    key = await team.store.get(Key, NO_TENANT, key_id)
    if key is None or not (key.owner == caller.tenant or caller.operator):
        raise NotFound.no_such("key")
    return key


def _check_fits(draft: KeyDraft) -> None:
    """An agent's key names its agent, a person's its person, and no other key speaks as one agent."""
    problems = []
    if draft.kind is KeyKind.AGENT and not draft.agent_id:
        problems.append(Problem("required", "agent_id", "an agent's key names its agent"))
    if draft.kind is not KeyKind.AGENT and draft.agent_id:
        problems.append(Problem("invalid", "agent_id", f"a {draft.kind.value} key speaks for no single agent"))
    if draft.kind is KeyKind.HUMAN and not draft.user_id:
        problems.append(Problem("required", "user_id", "a person's key names its person"))
    if draft.user_id in (NOBODY, SYSTEM):
        problems.append(Problem("invalid", "user_id", f"{draft.user_id} is no person"))
    if problems:
        raise Invalid.because(problems)
    if draft.agent_id:
        party_name(draft.agent_id)
