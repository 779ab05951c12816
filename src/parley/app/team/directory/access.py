"""Access lists of intents, and access requests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory import roles
from parley.app.team.directory.permissions import intent_access, may_ask, stands_on
from parley.app.team.retry import committed
from parley.domain.channel.event import (
    ACCESS_EXPIRED,
    ACCESS_GRANTED,
    ACCESS_REQUEST_APPROVED,
    ACCESS_REQUEST_DENIED,
    ACCESS_REQUESTED,
    ACCESS_REVOKED,
)
from parley.domain.directory.access import (
    AGENT,
    ORG_UNIT,
    Access,
    AccessPolicy,
    AccessRequest,
    Grant,
    Permission,
    RequestStatus,
    expired_grants,
    visible_since,
    with_grant,
    without_grant,
)
from parley.domain.directory.callers import Caller, party_name
from parley.domain.errors.errors import NotFound, Stale
from parley.domain.errors.team import QuotaExceeded
from parley.domain.record import expecting
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.app.team.retry import Attempt
    from parley.app.team.team import Team
    from parley.domain.channel.event import EventDraft
    from parley.domain.record import Expect

MOST_ENTRIES = 1_000
MOST_REQUESTS = 1_000


class GrantDraft(NamedTuple):
    """A proposed entry of an access list."""

    principal_id: str
    permission: Permission
    principal_type: str = AGENT
    reason: str = ""
    expires_at: str = ""


class RequestDraft(NamedTuple):
    """A proposed access request."""

    permission: Permission
    principal_type: str = AGENT
    reason: str = ""
    capabilities: tuple[str, ...] = ()


async def get(team: Team, caller: Caller, intent_id: str) -> Access:
    """An intent's access list."""
    return (await intent_access(team, caller, intent_id, Permission.READ)).access


async def replace_all(
    team: Team, caller: Caller, intent_id: str, policy: AccessPolicy, drafts: Sequence[GrantDraft]
) -> Access:
    """Replace the list. Principals on both lists keep their visible history."""

    async def decide() -> TeamChanges:
        _, access, expects = await intent_access(team, caller, intent_id, Permission.ADMIN)
        grants = tuple(_granted(team, caller, access, draft) for draft in drafts)
        changed = replace(access, policy=policy, grants=grants, reaches_all=False)
        return _changes(
            team,
            caller,
            changed,
            expects,
            team.event_by(caller, intent_id, ACCESS_GRANTED, action="acl_set", default_policy=policy.value),
            "access_set",
            policy=policy.value,
            entries=str(len(grants)),
        )

    return await _commit_access(team, caller, decide)


async def grant(team: Team, caller: Caller, intent_id: str, draft: GrantDraft) -> Grant:
    """Add an entry."""

    async def decide() -> TeamChanges:
        _, access, expects = await intent_access(team, caller, intent_id, Permission.ADMIN)
        _check_room(access)
        new_grant = _granted(team, caller, access, draft)
        facts = {"principal_id": new_grant.principal_id, "permission": new_grant.permission.value}
        event = team.event_by(caller, intent_id, ACCESS_GRANTED, **facts)
        changes = _changes(team, caller, with_grant(access, new_grant), expects, event, "access_granted", **facts)
        return changes._replace(created_id=new_grant.id)

    return (await _commit_access(team, caller, decide)).grants[-1]


async def revoke(team: Team, caller: Caller, intent_id: str, grant_id: str) -> None:
    """Remove an entry; open streams of the principal end at once."""

    async def decide() -> TeamChanges:
        _, access, expects = await intent_access(team, caller, intent_id, Permission.ADMIN)
        revoked = next((entry for entry in access.grants if entry.id == grant_id), None)
        if revoked is None:
            raise NotFound.no_such("entry")
        facts = {"entry_id": grant_id, "principal_id": revoked.principal_id}
        event = team.event_by(caller, intent_id, ACCESS_REVOKED, **facts)
        return _changes(team, caller, without_grant(access, grant_id), expects, event, "access_revoked", **facts)

    await _commit_access(team, caller, decide)


async def expire(team: Team, tenant: str, intent_id: str) -> None:
    """Remove expired entries and record it. They grant nothing from their expiry on, swept or not."""
    access = await team.store.get(Access, tenant, intent_id)
    over = expired_grants(access, team.at()) if access else ()
    if access is None or not over:
        return
    nobody = Caller.system(tenant)
    left = replace(access, grants=tuple(entry for entry in access.grants if entry not in over))
    events = tuple(
        team.event_by(nobody, intent_id, ACCESS_EXPIRED, entry_id=entry.id, principal_id=entry.principal_id)
        for entry in over
    )
    entries = tuple(team.entry(nobody, "access_expired", intent_id, principal_id=entry.principal_id) for entry in over)
    try:
        await team.store.commit(TeamChanges(tenant, puts=(left,), events=events, entries=entries))
    except Stale:
        return  # changed concurrently: the next sweep retries


def _granted(team: Team, caller: Caller, access: Access, draft: GrantDraft) -> Grant:
    now = team.at()
    if draft.principal_type == AGENT:
        party_name(draft.principal_id)
    return Grant(
        id=team.new_id("acl"),
        granted_by=caller.actor,
        granted_at=now,
        since=_since(access, draft, now),
        **draft._asdict(),
    )


def _since(access: Access, draft: GrantDraft, now: str) -> int:
    if draft.principal_type == ORG_UNIT:
        return visible_since(access, "", now, draft.principal_id)
    return visible_since(access, draft.principal_id, now)


def _check_room(access: Access) -> None:
    if len(access.grants) >= MOST_ENTRIES:
        raise QuotaExceeded(f"an access list has at most {MOST_ENTRIES} entries")


def _changes(
    team: Team,
    caller: Caller,
    access: Access,
    expects: tuple[Expect, ...],
    event: EventDraft,
    action: str,
    **facts: str,
) -> TeamChanges:
    entry = team.entry(caller, action, access.id, **facts)
    return TeamChanges(caller.tenant, expects=expects, puts=(access,), events=(event,), entries=(entry,))


async def _commit_access(team: Team, caller: Caller, decide: Attempt) -> Access:
    done = await committed(team, caller, decide, "access list")
    record = done.puts[0] if done else None
    assert isinstance(record, Access)  # noqa: S101  # what was put
    await roles.deliver_waiting(team, caller.tenant)
    return record


# ---------------------------------------------------------------- requests


async def request(team: Team, caller: Caller, intent_id: str, draft: RequestDraft) -> AccessRequest:
    """Request access; any agent of the tenant may. A repeated pending request returns the first one."""
    principal = caller.agent or caller.actor
    earlier: list[AccessRequest] = []

    async def decide() -> TeamChanges | None:
        access, expects = await _access(team, caller, intent_id)
        present = await team.store.children(AccessRequest, caller.tenant, intent_id)
        for pending in present:
            if pending.status is RequestStatus.PENDING and (pending.principal_id, pending.permission) == (
                principal,
                draft.permission,
            ):
                earlier.append(pending)
                return None
        if len(present) >= MOST_REQUESTS:
            raise QuotaExceeded(f"an intent has at most {MOST_REQUESTS} access requests")
        return _requesting(team, caller, access, principal, draft)._replace(expects=tuple(expects))

    done = await committed(team, caller, decide, "access list")
    record = done.puts[0] if done else earlier[-1]
    assert isinstance(record, AccessRequest)  # noqa: S101  # what was put
    return record


def _requesting(team: Team, caller: Caller, access: Access, principal: str, draft: RequestDraft) -> TeamChanges:
    access_request = AccessRequest(
        id=team.new_id("areq"),
        tenant_id=caller.tenant,
        intent_id=access.id,
        principal_id=principal,
        created_at=team.at(),
        **draft._asdict(),
    )
    event = team.event_by(
        caller,
        access.id,
        ACCESS_REQUESTED,
        request_id=access_request.id,
        principal_id=principal,
        requested_permission=draft.permission.value,
        capabilities=list(draft.capabilities),
    )
    entry = team.entry(caller, "access_requested", access.id, principal_id=principal, request=access_request.id)
    return TeamChanges(
        caller.tenant, puts=(access_request,), events=(event,), entries=(entry,), created_id=access_request.id
    )


async def requests(team: Team, caller: Caller, intent_id: str) -> list[AccessRequest]:
    """All requests, for admins of the intent; for others, their own."""
    access, _ = await _access(team, caller, intent_id)
    stands = await stands_on(team, access, caller)
    all_requests = await team.store.children(AccessRequest, caller.tenant, intent_id)
    if stands is not None and stands.allows(Permission.ADMIN):
        return list(all_requests)
    own = [access_request for access_request in all_requests if access_request.principal_id == caller.agent]
    if stands is None and not own:
        raise NotFound.no_such("intent")
    return own


async def approve(
    team: Team,
    caller: Caller,
    intent_id: str,
    request_id: str,
    *,
    permission: Permission | None = None,
    expires_at: str = "",
    reason: str = "",
) -> AccessRequest:
    """Approve a request: the decision and the new entry are one commit."""

    async def decide() -> TeamChanges:
        access, access_request, expects = await _stored_request(team, caller, intent_id, request_id)
        decided = access_request.decided(RequestStatus.APPROVED, caller.actor, team.at(), reason)
        draft = GrantDraft(
            access_request.principal_id,
            permission or access_request.permission,
            access_request.principal_type,
            reason,
            expires_at,
        )
        _check_room(access)
        new_grant = _granted(team, caller, access, draft)
        facts = {"principal_id": new_grant.principal_id, "permission": new_grant.permission.value}
        return TeamChanges(
            caller.tenant,
            expects=expects,
            puts=(decided, with_grant(access, new_grant)),
            events=(
                team.event_by(caller, intent_id, ACCESS_REQUEST_APPROVED, request_id=request_id, **facts),
                team.event_by(caller, intent_id, ACCESS_GRANTED, **facts),
            ),
            entries=(team.entry(caller, "access_request_approved", intent_id, request=request_id, **facts),),
        )

    decided = await _commit_decision(team, caller, decide)
    await roles.deliver_waiting(team, caller.tenant)
    return decided


async def deny(team: Team, caller: Caller, intent_id: str, request_id: str, reason: str = "") -> AccessRequest:
    """Deny a request."""

    async def decide() -> TeamChanges:
        _, access_request, expects = await _stored_request(team, caller, intent_id, request_id)
        decided = access_request.decided(RequestStatus.DENIED, caller.actor, team.at(), reason)
        facts = {"request_id": request_id, "principal_id": access_request.principal_id, "reason": reason}
        return TeamChanges(
            caller.tenant,
            expects=expects,
            puts=(decided,),
            events=(team.event_by(caller, intent_id, ACCESS_REQUEST_DENIED, **facts),),
            entries=(team.entry(caller, "access_request_denied", intent_id, request=request_id),),
        )

    return await _commit_decision(team, caller, decide)


async def _commit_decision(team: Team, caller: Caller, decide: Attempt) -> AccessRequest:
    done = await committed(team, caller, decide, "request")
    record = done.puts[0] if done else None
    assert isinstance(record, AccessRequest)  # noqa: S101  # what was put
    return record


async def _stored_request(
    team: Team, caller: Caller, intent_id: str, request_id: str
) -> tuple[Access, AccessRequest, tuple[Expect, ...]]:
    _, access, expects = await intent_access(team, caller, intent_id, Permission.ADMIN)
    access_request = await team.store.get(AccessRequest, caller.tenant, request_id)
    if access_request is None or access_request.intent_id != intent_id:
        raise NotFound.no_such("request")
    return access, access_request, expects


async def _access(team: Team, caller: Caller, intent_id: str) -> tuple[Access, list[Expect]]:
    """The access list and what the answer depends on, without a check of rights: any agent may request access.

    Not where isolation keeps it from the intent: a request carries text, too.
    """
    access = await team.store.get(Access, caller.tenant, intent_id)
    expects = [expecting(access)] if access is not None else []
    if access is None or not await may_ask(team, access, caller, expects):
        raise NotFound.no_such("intent")
    return access, expects
