"""Policies of a tenant: replaced as a whole in one commit, which also stores the previous revision.

document ──> the next snapshot ──> one commit: the snapshot, its revision, the ledger, the audit log
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.retry import committed
from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Attributes
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.directory.callers import SYSTEM, Caller, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import QuotaExceeded, ScopeRequired
from parley.domain.rules.meet import effective, origins
from parley.domain.rules.policy import (
    CURRENT,
    PolicyRevision,
    PolicySnapshot,
    Scope,
    document_name,
    is_label,
    with_document,
    without_document,
)
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.team.team import Team
    from parley.domain.rules.policy import Fragment, Policy

CHANGED = "policy_changed"
MOST_DOCUMENTS = 1_000
MOST_CHARACTERS = 1024 * 1024
# The actor of changes to policy files: anyone who may write to the data directory.
FILE_EDITOR = "policy-file"


class InForce(NamedTuple):
    """An effective policy, and the document of each value. Without a policy nothing is allowed."""

    label: str
    agent: str
    attributes: Attributes
    policy: Policy | None
    origins: dict[str, str]


async def current(team: Team, tenant: str) -> PolicySnapshot:
    """The snapshot in force in a tenant; the built-in policy if it never had one."""
    return await team.store.get(PolicySnapshot, tenant, CURRENT) or team.policies.first(tenant)


async def put(team: Team, caller: Caller, scope: str, name: str, text: str, fragment: Fragment) -> PolicySnapshot:
    """Put a document into force, replacing the one of this name. The same text changes nothing."""
    document = document_name(scope, name)

    def changed(now: PolicySnapshot) -> PolicySnapshot | None:
        if now.texts.get(document) == text:
            return None
        new = with_document(now, document, text, fragment)
        if len(new.texts) > MOST_DOCUMENTS or sum(map(len, new.texts.values())) > MOST_CHARACTERS:
            raise QuotaExceeded(
                f"a tenant has at most {MOST_DOCUMENTS} policies with {MOST_CHARACTERS} characters in all"
            )
        return new

    return await _swapped(team, caller, document, changed)


async def remove(team: Team, caller: Caller, scope: str, name: str) -> PolicySnapshot:
    """Remove a document. Without an enterprise document nothing is allowed."""
    document = document_name(scope, name)

    def changed(now: PolicySnapshot) -> PolicySnapshot:
        if document not in now.texts:
            raise NotFound.no_such("policy")
        return without_document(now, document)

    return await _swapped(team, caller, document, changed)


async def settle(team: Team, tenant: str) -> PolicySnapshot:
    """Store the built-in policy of a tenant that never had one, so that an upgrade does not change it."""

    def changed(now: PolicySnapshot) -> PolicySnapshot | None:
        return now if now.version == 0 else None

    by = Caller(tenant, SYSTEM, KeyKind.ADMIN, "")
    return await _swapped(team, by, "", changed)


async def _swapped(
    team: Team, caller: Caller, document: str, changed: Callable[[PolicySnapshot], PolicySnapshot | None]
) -> PolicySnapshot:
    """Commit a changed snapshot, and return the one in force."""
    if caller.kind is not KeyKind.ADMIN:
        raise ScopeRequired("this needs an admin's key")

    async def decide() -> TeamChanges | None:
        now = await current(team, caller.tenant)
        new = changed(now)
        if new is None:
            return None
        at = team.at()
        new = replace(new, made_at=at, made_by=caller.actor)
        revisions = [PolicyRevision(id=new.label, tenant_id=caller.tenant, snapshot=new)]
        if now.version == 0 and now.label != new.label:
            # Decisions have named it already.
            revisions.append(PolicyRevision(id=now.label, tenant_id=caller.tenant, snapshot=now))
        facts = {"document": document, "old": now.label if now.label != new.label else "", "new": new.label}
        entry = team.entry(caller, CHANGED, document, old=facts["old"], new=facts["new"])
        audit = AuditDraft(team.new_id("aud"), TENANT_SIDE, at, CHANGED, caller.actor, facts)
        return TeamChanges(caller.tenant, puts=(new, *revisions), entries=(entry,), audits=(audit,))

    if await committed(team, caller, decide, "policy") is not None:
        team.policies.look.set()
    return await current(team, caller.tenant)


async def revision(team: Team, tenant: str, label: str) -> PolicySnapshot:
    """A snapshot by its label, past or current."""
    stored = await team.store.get(PolicyRevision, tenant, label)
    if stored is not None:
        return stored.snapshot
    now = await current(team, tenant)
    if now.label != label:
        raise no_such_version()
    return now


def no_such_version() -> NotFound:
    """The error for a label that no version has."""
    return NotFound("no such version of the policies", hint="see: parley policy list --history")


async def snapshot_at(team: Team, tenant: str, at: str) -> PolicySnapshot:
    """What was in force at a time, by its label or its stamp; what is in force now without either."""
    if not at:
        return await current(team, tenant)
    if is_label(at):
        return await revision(team, tenant, at)
    for snapshot in await history(team, tenant):
        if not snapshot.made_at or snapshot.made_at <= at:
            return snapshot
    raise NotFound("no policies were in force at that time", hint="see: parley policy list --history")


async def history(team: Team, tenant: str) -> list[PolicySnapshot]:
    """All revisions, newest first."""
    revisions: list[PolicyRevision] = []
    while page := await team.store.children(PolicyRevision, tenant, "", after=revisions[-1].id if revisions else ""):
        revisions += page
    snapshots = [revision.snapshot for revision in revisions] or [await current(team, tenant)]
    return sorted(snapshots, key=lambda snapshot: snapshot.number, reverse=True)


async def visible_snapshot(team: Team, caller: Caller, at: str = "") -> PolicySnapshot:
    """The documents that a caller may read: all for admins and services, else those that apply to it."""
    now = await snapshot_at(team, caller.tenant, at)
    if caller.all_seeing:
        return now
    of = await _attributes(team, caller, caller.agent)
    mine = (f"{Scope.ORG}/{of.org_unit}", f"{Scope.TEAM}/{of.team}", f"{Scope.USER}/{of.user_id}")
    texts = {
        document: text
        for document, text in now.texts.items()
        if document in mine or document.startswith(f"{Scope.ENTERPRISE}/")
    }
    return replace(now, texts=texts, fragments={document: now.fragments[document] for document in texts})


async def get(team: Team, caller: Caller, scope: str, name: str) -> PolicySnapshot:
    """A snapshot with only this document. `NotFound` when it does not apply to the caller."""
    document = f"{scope}/{name}"
    snapshot = await visible_snapshot(team, caller)
    if document not in snapshot.texts:
        raise NotFound.no_such("policy")
    return replace(
        snapshot, texts={document: snapshot.texts[document]}, fragments={document: snapshot.fragments[document]}
    )


async def in_force(team: Team, caller: Caller, agent: str = "", at: str = "") -> InForce:
    """The effective policy of an agent, with the source of each value; restricted callers ask about their own.

    At an earlier time it is that of an agent with today's attributes: those of then are not kept.
    """
    if not caller.all_seeing and agent and agent != caller.agent:
        record = await team.store.get(AgentRecord, caller.tenant, agent)
        own = caller.kind is KeyKind.HUMAN and record is not None and record.attributes.user_id == caller.user
        if not own:
            raise NotFound.no_such("agent")
    agent = agent or caller.agent
    of = await _attributes(team, caller, agent)
    now = await snapshot_at(team, caller.tenant, at)
    whose = (of.org_unit, of.team, of.user_id)
    policy = effective(now, *whose)
    return InForce(now.label, agent, of, policy, origins(now, *whose) if policy is not None else {})


async def _attributes(team: Team, caller: Caller, agent: str) -> Attributes:
    """The attributes of an agent, or of the calling person."""
    record = await team.store.get(AgentRecord, caller.tenant, agent) if agent else None
    if record is not None:
        return record.attributes
    return Attributes(user_id=caller.user) if caller.kind is KeyKind.HUMAN else UNKNOWN_ATTRIBUTES
