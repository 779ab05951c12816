"""Intents: create, read, patch, change status, and assign agents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.team.channels.channels import closing
from parley.app.team.channels.posting import check_present
from parley.app.team.directory import roles
from parley.app.team.directory.permissions import assigned, intent_access, stands_on
from parley.app.team.directory.quotas import check_intents, counted_intent
from parley.app.team.retry import committed
from parley.app.team.rules import in_force as rules
from parley.domain.channel.event import (
    ACCESS_GRANTED,
    AGENT_ASSIGNED,
    AGENT_UNASSIGNED,
    INTENT_CREATED,
    STATE_PATCHED,
    STATUS_CHANGED,
    quoted,
)
from parley.domain.directory.access import (
    AGENT,
    ORG_UNIT,
    WORKER,
    Access,
    AccessPolicy,
    Assignment,
    Grant,
    Permission,
    check_allows,
    needed_to_assign,
    visible_since,
    with_assignment,
    without_assignment,
)
from parley.domain.directory.callers import SYSTEM, party_name
from parley.domain.directory.intent import (
    RESOLVED,
    Intent,
    IntentStatus,
    check_move,
    check_version,
    patched,
)
from parley.domain.errors.errors import Forbidden, Invalid, NotFound, Problem
from parley.domain.errors.team import QuotaExceeded
from parley.domain.lookup import Candidate, Noun, fits, is_id, pick
from parley.domain.record import expecting
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from parley.app.team.retry import Attempt
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.directory.intent import Patch
    from parley.domain.record import Expect

# Records of a page: few, because each may be as long as a body.
_PAGE = 32
_NOUN = Noun("intent", "intent", "parley intent list")
# In the place of a name: the default intent.
UNNAMED = "-"
DEFAULT_TITLE = "default"


class IntentDraft(NamedTuple):
    """A proposed intent."""

    title: str
    description: str = ""
    constraints: dict[str, Any] | list[Any] = {}  # noqa: RUF012  # never written to
    state: dict[str, Any] = {}  # noqa: RUF012
    status: IntentStatus = IntentStatus.DRAFT
    confidence: float = 0
    parent_intent_id: str = ""
    depends_on: tuple[str, ...] = ()


class AccessDraft(NamedTuple):
    """Who gets access to a proposed intent: by default as the server's setting says, and these agents to write."""

    policy: AccessPolicy | None = None
    agents: tuple[str, ...] = ()


async def create(team: Team, caller: Caller, draft: IntentDraft, wanted: AccessDraft = AccessDraft()) -> Intent:  # noqa: B008  # frozen
    """Create an intent. Its creator is its admin; others have access if it is open, or if they are named."""
    await _check_known(team, caller, draft)
    await check_intents(team, caller.tenant)
    now = team.at()
    intent = Intent(
        id=team.new_id("intent"),
        tenant_id=caller.tenant,
        created_by=caller.actor,
        created_at=now,
        updated_at=now,
        **draft._asdict(),
    )
    _check_size(team, intent.state)
    events = [team.event_by(caller, intent.id, INTENT_CREATED, title=intent.title)]
    for agent in dict.fromkeys(wanted.agents):
        facts = {"principal_id": agent, "permission": Permission.WRITE.value}
        events.append(team.event_by(caller, intent.id, ACCESS_GRANTED, **facts))
    entry = team.entry(caller, "intent_created", intent.id)

    async def decide() -> TeamChanges:
        expects = await _check_known(team, caller, draft)
        access = await _first_access(team, caller, intent, wanted, expects)
        count = await counted_intent(team, caller)
        return TeamChanges(
            caller.tenant,
            expects=tuple(expects),
            puts=(intent, access, *count),
            events=tuple(events),
            entries=(entry,),
            created_id=intent.id,
        )

    return await _commit_intent(team, caller, decide)


async def _first_access(
    team: Team, caller: Caller, intent: Intent, wanted: AccessDraft, expects: list[Expect]
) -> Access:
    """The access list of a new intent. Where there are several org units, an open one is open to its creator's only."""

    def entry(grant_id: str, principal: str, principal_type: str, by: str, reason: str = "") -> Grant:
        return Grant(
            id=grant_id,
            principal_id=principal,
            principal_type=principal_type,
            permission=Permission.WRITE,
            granted_by=by,
            reason=reason,
            granted_at=intent.created_at,
            since=0,
        )

    policy = wanted.policy or team.new_intents
    grants = [
        entry(team.new_id("acl"), party_name(agent), AGENT, caller.actor) for agent in dict.fromkeys(wanted.agents)
    ]
    several = await rules.several_units(team, caller.tenant, expects)
    # Without a unit, it belongs to the unit that its creator will be placed in.
    unit = await rules.home_unit(team, caller, expects) if several else ""
    if unit and policy is AccessPolicy.OPEN:
        policy = AccessPolicy.CLOSED
        acl_id = intent.id.replace("intent_", "acl_", 1)
        grants.insert(0, entry(acl_id, unit, ORG_UNIT, SYSTEM, "the unit of its creator"))
    return Access(
        id=intent.id,
        tenant_id=caller.tenant,
        created_by=caller.actor,
        policy=policy,
        grants=tuple(grants),
        org_unit=unit,
        reaches_all=False,
    )


async def _check_known(team: Team, caller: Caller, draft: IntentDraft) -> list[Expect]:
    """Refuse to name intents that the caller does not know; else what that depends on."""
    named = [("parent_intent_id", draft.parent_intent_id)] if draft.parent_intent_id else []
    expects: list[Expect] = []
    for field, intent_id in (*named, *(("depends_on", dependency) for dependency in draft.depends_on)):
        try:
            expects += (await intent_access(team, caller, intent_id, Permission.READ)).expects
        except NotFound:
            raise Invalid.because([Problem("unknown", field, "no such intent")]) from None
    return expects


async def get(team: Team, caller: Caller, intent_id: str) -> Intent:
    """One intent."""
    return (await intent_access(team, caller, intent_id, Permission.READ)).intent


async def list_page(
    team: Team,
    caller: Caller,
    *,
    status: IntentStatus | None = None,
    name: str = "",
    limit: int = 50,
    offset: int = 0,
) -> AsyncIterator[Intent]:
    """The intents that the caller may see, oldest first; with a name those of this id, title or end of an id."""

    def is_wanted(intent: Intent) -> bool:
        if name and not fits(name, Candidate(intent.id, (intent.title,))):
            return False
        return status is None or intent.status is status

    passed = 0
    async for intent in visible(team, caller, is_wanted):
        passed += 1
        if passed > offset:
            yield intent
        if passed == offset + limit:
            return


async def visible(
    team: Team, caller: Caller, is_wanted: Callable[[Intent], bool] = lambda _: True
) -> AsyncIterator[Intent]:
    """All intents that the caller may see and wants, oldest first."""
    after = ""
    while True:
        page = await team.store.children(Intent, caller.tenant, "", after=after, limit=_PAGE)
        for intent in page:
            if not is_wanted(intent):
                continue
            access = await team.store.get(Access, caller.tenant, intent.id)
            if access is not None and await stands_on(team, access, caller) is not None:
                yield intent
        if len(page) < _PAGE:
            return
        after = page[-1].id


async def find_id(team: Team, caller: Caller, text: str) -> str:
    """The id of the intent that a text means: an id, a title or the end of an id; `UNNAMED` is the default intent.

    The default intent is the only active one that the caller can see, else the one with the title `default`.
    """
    if is_id(text, _NOUN.prefix):
        return text

    def is_meant(intent: Intent) -> bool:
        if text != UNNAMED:
            return fits(text, Candidate(intent.id, (intent.title,)))
        return intent.status is IntentStatus.ACTIVE and intent.created_by != SYSTEM

    found = [intent async for intent in visible(team, caller, is_meant)]
    if text != UNNAMED:
        candidates = [Candidate(intent.id, (intent.title,), is_over=intent.status in RESOLVED) for intent in found]
        return pick(_NOUN, text, candidates).id
    chosen = [intent for intent in found if intent.title == DEFAULT_TITLE] if len(found) > 1 else found
    if len(chosen) != 1:
        raise NotFound.no_such("intent", hint="name an intent")
    return chosen[0].id


async def patch(team: Team, caller: Caller, intent_id: str, version: int | None, patches: Sequence[Patch]) -> Intent:
    """Patch the state of an intent that still has this version."""

    async def decide() -> TeamChanges:
        intent, _, expects = await intent_access(team, caller, intent_id, Permission.WRITE)
        check_version(intent, version)
        changed = replace(intent, state=patched(intent.state, patches), updated_at=team.at())
        _check_size(team, changed.state)
        event = team.event_by(
            caller,
            intent_id,
            STATE_PATCHED,
            patches=[{"op": patch.op.value, "path": patch.path, "value": patch.value} for patch in patches],
            version=intent.version + 1,
            state=changed.state,
            old_state=intent.state,
        )
        entry = team.entry(caller, "state_patched", intent_id, version=str(intent.version + 1))
        return TeamChanges(
            caller.tenant, expects=expects, puts=(changed,), events=(event,), entries=(entry,), created_id=intent_id
        )

    return await _commit_intent(team, caller, decide)


async def set_status(
    team: Team, caller: Caller, intent_id: str, version: int | None, status: IntentStatus, reason: str = ""
) -> Intent:
    """Change the status of an intent. Resolving it closes its channels in the same commit."""

    async def decide() -> TeamChanges:
        intent, _, expects = await intent_access(team, caller, intent_id, Permission.WRITE)
        if intent.created_by == SYSTEM and not caller.all_seeing:
            # Of two agents that talk directly, neither ends that for the other.
            raise Forbidden("this intent belongs to the server: only an admin changes its status")
        check_version(intent, version)
        check_move(intent.status, status)
        changed = replace(intent, status=status, updated_at=team.at())
        closed = await closing(team, caller.tenant, intent_id) if status in RESOLVED else ()
        payload: dict[str, object] = {"status": status.value, "old_status": intent.status.value}
        payload |= {"version": intent.version + 1} | ({"reason": reason} if reason else {})
        entry = team.entry(caller, "status_changed", intent_id, status=status.value, channels=str(len(closed)))
        return TeamChanges(
            caller.tenant,
            expects=expects,
            puts=(changed, *closed),
            events=(team.event_by(caller, intent_id, STATUS_CHANGED, **payload),),
            ended=tuple(channel.id for channel in closed),
            entries=(entry,),
            created_id=intent_id,
        )

    intent = await _commit_intent(team, caller, decide)
    if status in RESOLVED:
        await close_late(team, caller, intent_id)
    return intent


async def close_late(team: Team, caller: Caller, intent_id: str, *, task_id: str = "") -> None:
    """Close channels that were created between the decision and its commit."""

    async def decide() -> TeamChanges | None:
        late = await closing(team, caller.tenant, intent_id, task_id=task_id)
        ended = tuple(channel.id for channel in late)
        return TeamChanges(caller.tenant, puts=late, ended=ended) if late else None

    # The idempotency key was spent on the decision itself.
    await committed(team, caller._replace(saved=None), decide, "intent")


async def _commit_intent(team: Team, caller: Caller, decide: Attempt) -> Intent:
    done = await committed(team, caller, decide, "intent")
    record = done.puts[0] if done else None
    assert isinstance(record, Intent)  # noqa: S101  # what was put
    return record


def _check_size(team: Team, state: dict[str, Any]) -> None:
    """Refuse a state larger than a request body: each patch is logged with the whole state."""
    if len(quoted(state)) > team.limits.http_body_bytes:
        detail = f"the state has at most {team.limits.http_body_bytes} bytes"
        raise Invalid.because([Problem("too_large", "state", detail)])


# ---------------------------------------------------------------- who works on it


async def assign(team: Team, caller: Caller, intent_id: str, agent: str, role: str = WORKER) -> Assignment:
    """Assign an agent to an intent. Idempotent; another role replaces the first."""
    party_name(agent)

    async def decide() -> TeamChanges | None:
        intent, access, granted = await intent_access(team, caller, intent_id, Permission.WRITE)
        now = team.at()
        present = assigned(access, agent)
        if present is not None and present.role == role:
            return None
        stands = await stands_on(team, access, caller)
        assert stands is not None  # noqa: S101  # checked above
        expects = [expecting(intent), *granted]
        unit = (await rules.units_of(team, access, (agent,), expects)).get(agent, "")
        check_allows(stands, needed_to_assign(access, agent, role, now, unit))
        await check_present(team, caller.tenant, agent, expects)
        if present is None and len(access.assignments) >= team.limits.members:
            raise QuotaExceeded(f"at most {team.limits.members} agents work on an intent")
        assignment = Assignment(
            id=team.new_id("asgn"),
            agent_id=agent,
            role=role,
            assigned_by=caller.actor,
            assigned_at=now,
            since=visible_since(access, agent, now, unit),
        )
        return TeamChanges(
            caller.tenant,
            expects=tuple(expects),
            puts=(with_assignment(access, assignment),),
            events=(team.event_by(caller, intent_id, AGENT_ASSIGNED, agent_id=agent, role=role),),
            entries=(team.entry(caller, "agent_assigned", intent_id, agent=agent, role=role),),
            created_id=agent,
        )

    if await committed(team, caller, decide, "intent"):
        await roles.deliver_waiting(team, caller.tenant)
    access = await team.store.get(Access, caller.tenant, intent_id)
    assignment = assigned(access, agent) if access else None
    if assignment is None:
        raise NotFound("the agent was unassigned at this moment")
    return assignment


async def unassign(team: Team, caller: Caller, intent_id: str, agent: str) -> None:
    """Unassign an agent: the caller itself, or any agent for admins."""

    async def decide() -> TeamChanges:
        _, access, expects = await intent_access(team, caller, intent_id, Permission.READ)
        if assigned(access, agent) is None:
            raise NotFound("the agent is not assigned to this intent")
        if agent != caller.agent:
            stands = await stands_on(team, access, caller)
            assert stands is not None  # noqa: S101  # checked above
            check_allows(stands, Permission.ADMIN)
        return TeamChanges(
            caller.tenant,
            expects=expects,
            puts=(without_assignment(access, agent),),
            events=(team.event_by(caller, intent_id, AGENT_UNASSIGNED, agent_id=agent),),
            entries=(team.entry(caller, "agent_unassigned", intent_id, agent=agent),),
        )

    await committed(team, caller, decide, "intent")


async def assignments(team: Team, caller: Caller, intent_id: str) -> tuple[Assignment, ...]:
    """The agents assigned to an intent."""
    return (await intent_access(team, caller, intent_id, Permission.READ)).access.assignments
