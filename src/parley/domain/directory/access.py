"""Who may see and write an intent: its creator, those assigned, those granted, or everyone where it is open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, NamedTuple, Self

from parley.domain.errors.errors import Forbidden
from parley.domain.errors.team import BadTransition
from parley.domain.record import UNSETTLED, Record

COORDINATOR = "coordinator"
WORKER = "worker"
# The types of a principal. Entries for groups are kept, but give nobody anything.
AGENT = "agent"
USER = "user"
ORG_UNIT = "org_unit"


class Permission(StrEnum):
    """read < write < admin."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


_RANK = {Permission.READ: 1, Permission.WRITE: 2, Permission.ADMIN: 3}


class AccessPolicy(StrEnum):
    """What an agent has without any entry: everything but ruling, or nothing."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One entry of the access list."""

    id: str
    principal_id: str
    principal_type: str = AGENT
    permission: Permission
    granted_by: str
    reason: str = ""
    granted_at: str
    expires_at: str = ""
    since: int = UNSETTLED

    def holds(self, now: str) -> bool:
        return not (self.expires_at and self.expires_at <= now)

    def names(self, agent: str, org_unit: str) -> bool:
        """Whether this is an entry for the agent, or for its unit."""
        if self.principal_type == ORG_UNIT:
            return self.principal_id == org_unit
        return self.principal_id == agent and self.principal_type == AGENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """An agent that works on the intent."""

    agent_id: str
    role: str = WORKER
    assigned_by: str = ""
    assigned_at: str
    since: int = UNSETTLED
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(Record):
    """Everything that decides who has access to an intent; its id is the intent's."""

    kind: ClassVar[str] = "access"

    created_by: str
    policy: AccessPolicy = AccessPolicy.OPEN
    grants: tuple[Grant, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    # The unit that the intent belongs to: its creator's. Empty for one of the tenant.
    org_unit: str = ""
    # Of an intent from before 0.7: messages to everyone go to all who have access, until the list is replaced.
    reaches_all: bool = True

    @property
    def names_units(self) -> bool:
        """Whether the standing of an agent depends on its unit."""
        return any(grant.principal_type == ORG_UNIT for grant in self.grants)

    @property
    def due(self) -> str:
        """When the next entry expires."""
        return min((grant.expires_at for grant in self.grants if grant.expires_at), default="")

    def with_position(self, position: int) -> Self:
        grants = tuple(replace(grant, since=position) if grant.since == UNSETTLED else grant for grant in self.grants)
        assignments = tuple(
            replace(assignment, since=position) if assignment.since == UNSETTLED else assignment
            for assignment in self.assignments
        )
        return replace(self, grants=grants, assignments=assignments)

    def lists(self, agent: str, now: str) -> bool:
        """Whether the agent created the intent, is assigned to it, or has an entry of its own."""
        return (
            agent == self.created_by
            or any(assignment.agent_id == agent for assignment in self.assignments)
            or any(
                grant.principal_id == agent and grant.principal_type == AGENT and grant.holds(now)
                for grant in self.grants
            )
        )

    def coordinates(self, agent: str) -> bool:
        return any(assignment.agent_id == agent and assignment.role == COORDINATOR for assignment in self.assignments)


class RequestStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest(Record):
    """A request for access; an admin of the intent decides it, once."""

    kind: ClassVar[str] = "access_request"

    intent_id: str
    principal_id: str
    principal_type: str = AGENT
    permission: Permission
    reason: str = ""
    capabilities: tuple[str, ...] = ()
    status: RequestStatus = RequestStatus.PENDING
    decided_by: str = ""
    decided_at: str = ""
    decision_reason: str = ""
    created_at: str

    @property
    def parent(self) -> str:
        return self.intent_id

    def decided(self, status: RequestStatus, by: str, at: str, reason: str) -> AccessRequest:
        """The request with its answer; there is only one."""
        if self.status is not RequestStatus.PENDING:
            raise BadTransition(f"the request was {self.status.value} already")
        return replace(self, status=status, decided_by=by, decided_at=at, decision_reason=reason)


class Standing(NamedTuple):
    """The permission of an agent, and the position from which it sees messages to everyone."""

    permission: Permission
    since: int

    def allows(self, needed: Permission) -> bool:
        return _RANK[self.permission] >= _RANK[needed]

    def at_most(self, permission: Permission) -> Standing:
        return self if not self.allows(permission) else self._replace(permission=permission)


RULER = Standing(Permission.ADMIN, 0)
_EVERYBODY = Standing(Permission.WRITE, 0)


def standing(access: Access, agent: str, now: str, org_unit: str = "") -> Standing | None:
    """The agent's standing by the list; None when it may not even know of the intent. `org_unit` is the agent's."""
    if agent == access.created_by:
        return RULER
    if access.policy is AccessPolicy.OPEN and not access.grants and not access.assignments:
        return _EVERYBODY
    standings = [_EVERYBODY] if access.policy is AccessPolicy.OPEN else []
    for assignment in access.assignments:
        if assignment.agent_id == agent:
            standings.append(
                Standing(Permission.ADMIN if assignment.role == COORDINATOR else Permission.WRITE, assignment.since)
            )
    for grant in access.grants:
        if grant.names(agent, org_unit) and grant.holds(now):
            standings.append(Standing(grant.permission, grant.since))
    if not standings:
        return None
    return Standing(
        max((each.permission for each in standings), key=_RANK.__getitem__), min(each.since for each in standings)
    )


def check_allows(stands: Standing, needed: Permission) -> None:
    if not stands.allows(needed):
        raise Forbidden(f"you have {stands.permission.value} on this intent; this needs {needed.value}")


def visible_since(access: Access, agent: str, now: str, org_unit: str = "") -> int:
    """From which position on an agent that is let in sees what was said to everyone: if it can already, from then."""
    stands = standing(access, agent, now, org_unit)
    return stands.since if stands else UNSETTLED


def needed_to_assign(access: Access, agent: str, role: str, now: str, org_unit: str = "") -> Permission:
    """The permission needed to assign an agent: write if the agent gets no more than it has, else admin.

    What an entry of the list gives may end, and be taken away. An assignment stays, so it is more.
    """
    present = next((assignment for assignment in access.assignments if assignment.agent_id == agent), None)
    units = tuple(grant for grant in access.grants if grant.principal_type == ORG_UNIT)
    stands = standing(replace(access, grants=units), agent, now, org_unit)
    harmless = role == WORKER and (present is None or present.role == WORKER)
    return Permission.WRITE if harmless and stands and stands.allows(Permission.WRITE) else Permission.ADMIN


def with_assignment(access: Access, assignment: Assignment) -> Access:
    """The agent assigned, in the place of what it was assigned as before."""
    others = tuple(other for other in access.assignments if other.agent_id != assignment.agent_id)
    return replace(access, assignments=(*others, assignment))


def without_assignment(access: Access, agent: str) -> Access:
    return replace(
        access, assignments=tuple(assignment for assignment in access.assignments if assignment.agent_id != agent)
    )


def expired_grants(access: Access, now: str) -> tuple[Grant, ...]:
    return tuple(grant for grant in access.grants if not grant.holds(now))


def with_grant(access: Access, grant: Grant) -> Access:
    return replace(access, grants=(*access.grants, grant))


def without_grant(access: Access, grant_id: str) -> Access:
    return replace(access, grants=tuple(grant for grant in access.grants if grant.id != grant_id))
