"""What RFC-0021 needs from its neighbours, as JSON: intents, access and tasks; pure. The logs are in `openintent_log`.

The fields are those that the OpenIntent SDK reads and writes. It cannot read a list that is null or a time without an
offset, so neither is ever sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from parley.domain.directory.access import Permission, Policy, RequestStatus
from parley.domain.directory.intent import IntentStatus, Patch, PatchOp, TaskStatus
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.times import parse_time, stamp

if TYPE_CHECKING:
    from parley.domain.directory.access import Access, AccessRequest, Assignment, Grant
    from parley.domain.directory.intent import Intent, Task

Agent = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$(?!\n)", description="An agent's name.")]
Id = Annotated[str, Meta(min_length=1, max_length=64)]
Title = Annotated[str, Meta(min_length=1, max_length=500)]
Text = Annotated[str, Meta(max_length=64 * 1024)]
Reason = Annotated[str, Meta(max_length=2_000)]
Time = Annotated[str, Meta(description="RFC 3339; without an offset it is UTC.")]
TimeOut = Annotated[str, Meta(description="RFC 3339.", extra_json_schema={"format": "date-time"})]
Mapping = dict[str, Any]


def moment(text: str | None, field: str) -> str:
    """A time as a stamp, "" for none. The SDK sends times without an offset: they count as UTC."""
    if not text:
        return ""
    # In a query, the plus of an offset arrives as a space.
    spelled = text.strip().replace(" ", "+") if "T" in text else text.strip()
    for candidate in (spelled, spelled + "Z"):
        try:
            return stamp(parse_time(candidate))
        except (Invalid, OverflowError):
            continue
    raise Invalid.because([Problem("invalid", field, "is no time like 2026-03-13T14:30:00+00:00")])


# ---------------------------------------------------------------- intents


class IntentIn(Struct, forbid_unknown_fields=True):
    """An intent to be created."""

    title: Title
    description: Text | None = ""
    constraints: dict[str, Any] | list[Any] | None = None
    state: Mapping | None = None
    status: Literal["draft", "active"] = "draft"
    confidence: Annotated[float, Meta(ge=0, le=100)] = 0
    created_by: Agent | None = None
    parent_intent_id: Id | None = None
    depends_on: Annotated[list[Id], Meta(max_length=100)] | None = None


class PatchIn(Struct, forbid_unknown_fields=True):
    """One change: set a value, append to a list, or remove; `a/b` is the field b of the field a."""

    op: PatchOp
    path: Annotated[str, Meta(min_length=1, max_length=1024)]
    value: Any = None


class StateIn(Struct, forbid_unknown_fields=True):
    """Changes of a state, in order; `state` sets each of its fields."""

    patches: Annotated[list[PatchIn], Meta(max_length=1_000)] = []
    state: Mapping | None = None


class IntentStatusIn(Struct, forbid_unknown_fields=True):
    """The status to go to."""

    status: IntentStatus
    reason: Reason | None = None


class AssignIn(Struct, forbid_unknown_fields=True):
    """An agent to be put to work; without a name the caller itself."""

    agent_id: Agent | None = None
    role: Literal["worker", "coordinator"] = "worker"


class IntentOut(Struct):
    """An intent; `version` is what If-Match has to name."""

    id: str
    title: str
    description: str
    version: int
    status: IntentStatus
    state: Mapping
    constraints: dict[str, Any] | list[Any]
    confidence: float
    created_by: str
    parent_intent_id: str | None
    depends_on: list[str]
    governance_policy: Mapping | None
    created_at: TimeOut
    updated_at: TimeOut


class IntentsOut(Struct):
    """A page of intents."""

    intents: list[IntentOut]


class AssignmentOut(Struct):
    """An agent that works on an intent."""

    id: str
    intent_id: str
    agent_id: str
    role: str
    assigned_by: str
    assigned_at: TimeOut


def patches_of(given: StateIn) -> tuple[Patch, ...]:
    """The patches of a request, those of `state` first. A key of `state` is one field, whatever is in it."""
    fields = given.state or {}
    if any("/" in name or not name for name in fields):
        raise Invalid.because([Problem("invalid", "state", "a field's name is not empty and holds no /")])
    whole = tuple(Patch(PatchOp.SET, name, value) for name, value in fields.items())
    return (*whole, *(Patch(one.op, one.path, one.value) for one in given.patches))


def intent(shown: Intent) -> dict[str, Any]:
    return {
        "id": shown.id,
        "title": shown.title,
        "description": shown.description,
        "version": shown.version,
        "status": shown.status.value,
        "state": shown.state,
        "constraints": shown.constraints,
        "confidence": shown.confidence,
        "created_by": shown.created_by,
        "parent_intent_id": shown.parent_intent_id or None,
        "depends_on": list(shown.depends_on),
        "governance_policy": None,
        "created_at": shown.created_at,
        "updated_at": shown.updated_at,
    }


def assignment(intent_id: str, shown: Assignment) -> dict[str, Any]:
    return {
        "id": shown.id or f"{intent_id}:{shown.agent_id}",
        "intent_id": intent_id,
        "agent_id": shown.agent_id,
        "role": shown.role,
        "assigned_by": shown.assigned_by,
        "assigned_at": shown.assigned_at,
    }


# ---------------------------------------------------------------- access


class GrantIn(Struct):
    """An entry of an access list. The SDK passes on what its caller wrote, so more fields may be there."""

    principal_id: Annotated[str, Meta(min_length=1, max_length=64)]
    principal_type: Literal["agent", "user", "group"] = "agent"
    permission: Permission = Permission.READ
    reason: Reason | None = None
    expires_at: Time | None = None


class AclIn(Struct, forbid_unknown_fields=True):
    """A whole access list."""

    default_policy: Policy = Policy.OPEN
    entries: Annotated[list[GrantIn], Meta(max_length=1_000)] = []


class AccessRequestIn(Struct, forbid_unknown_fields=True):
    """A wish to be let in."""

    principal_id: Agent | None = None
    principal_type: Literal["agent", "user", "group"] = "agent"
    requested_permission: Permission = Permission.READ
    reason: Reason | None = ""
    capabilities: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=100)] | None = None


class ApproveIn(Struct, forbid_unknown_fields=True):
    """A yes, perhaps to less, or for a while."""

    decided_by: Agent | None = None
    permission: Permission | None = None
    expires_at: Time | None = None
    reason: Reason | None = None


class DenyIn(Struct, forbid_unknown_fields=True):
    """A no."""

    decided_by: Agent | None = None
    reason: Reason | None = None


class GrantOut(Struct):
    """An entry of an access list."""

    id: str
    intent_id: str
    principal_id: str
    principal_type: str
    permission: Permission
    granted_by: str
    granted_at: TimeOut
    expires_at: TimeOut | None
    reason: str | None


class AclOut(Struct):
    """Who has access to an intent, besides its creator and those assigned."""

    intent_id: str
    default_policy: Policy
    entries: list[GrantOut]


class AccessRequestOut(Struct):
    """A request, and what became of it."""

    id: str
    intent_id: str
    principal_id: str
    principal_type: str
    requested_permission: Permission
    reason: str
    status: RequestStatus
    capabilities: list[str]
    decided_by: str | None
    decided_at: TimeOut | None
    decision_reason: str | None
    created_at: TimeOut


class AccessRequestsOut(Struct):
    """The requests for an intent."""

    access_requests: list[AccessRequestOut]


def grant(intent_id: str, shown: Grant) -> dict[str, Any]:
    return {
        "id": shown.id,
        "intent_id": intent_id,
        "principal_id": shown.principal_id,
        "principal_type": shown.principal_type,
        "permission": shown.permission.value,
        "granted_by": shown.granted_by,
        "granted_at": shown.granted_at,
        "expires_at": shown.expires_at or None,
        "reason": shown.reason or None,
    }


def acl(shown: Access) -> dict[str, Any]:
    return {
        "intent_id": shown.id,
        "default_policy": shown.policy.value,
        "entries": [grant(shown.id, one) for one in shown.grants],
    }


def access_request(shown: AccessRequest) -> dict[str, Any]:
    return {
        "id": shown.id,
        "intent_id": shown.intent_id,
        "principal_id": shown.principal_id,
        "principal_type": shown.principal_type,
        "requested_permission": shown.permission.value,
        "reason": shown.reason,
        "status": shown.status.value,
        "capabilities": list(shown.capabilities),
        "decided_by": shown.decided_by or None,
        "decided_at": shown.decided_at or None,
        "decision_reason": shown.decision_reason or None,
        "created_at": shown.created_at,
    }


# ---------------------------------------------------------------- tasks


class TaskIn(Struct):
    """A task to be created. The SDK sends whatever its caller wrote; what is not named here is not kept."""

    intent_id: Id
    name: Title
    description: Text | None = None
    assigned_agent: Agent | None = None
    priority: Annotated[str, Meta(max_length=64)] | UnsetType | None = UNSET
    input: Any = UNSET
    plan_id: Id | UnsetType | None = UNSET
    parent_task_id: Id | UnsetType | None = UNSET
    capabilities_required: list[str] | UnsetType | None = UNSET
    depends_on: list[str] | UnsetType | None = UNSET
    blocks: list[str] | UnsetType | None = UNSET
    retry_policy: Mapping | str | UnsetType | None = UNSET
    timeout_seconds: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    max_attempts: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    permissions: Mapping | str | UnsetType | None = UNSET
    memory_policy: Mapping | str | UnsetType | None = UNSET
    requires_tools: list[Any] | UnsetType | None = UNSET
    metadata: Mapping | UnsetType | None = UNSET


class TaskPatch(Struct):
    """What is to be different about a task. What is not named here is not kept."""

    status: TaskStatus | None = None
    name: Title | None = None
    description: Text | None = None
    assigned_agent: Agent | None = None
    priority: Annotated[str, Meta(max_length=64)] | UnsetType | None = UNSET
    input: Any = UNSET
    output: Any = UNSET
    artifacts: list[Any] | UnsetType | None = UNSET
    attempt: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    blocked_reason: Reason | UnsetType | None = UNSET
    error: Any = UNSET
    depends_on: list[str] | UnsetType | None = UNSET
    blocks: list[str] | UnsetType | None = UNSET
    metadata: Mapping | UnsetType | None = UNSET


class TaskOut(Struct):
    """A task; `version` is what If-Match has to name."""

    id: str
    intent_id: str
    name: str
    version: int
    status: TaskStatus
    description: str
    assigned_agent: str | None
    plan_id: str | None
    parent_task_id: str | None
    priority: str
    input: Any
    output: Any
    artifacts: list[Any]
    capabilities_required: list[str]
    depends_on: list[str]
    blocks: list[str]
    retry_policy: Mapping | str | None
    timeout_seconds: float | None
    attempt: int
    max_attempts: int
    permissions: Mapping | str
    memory_policy: Mapping | str | None
    requires_tools: list[Any]
    blocked_reason: str | None
    error: Any
    metadata: Mapping
    created_by: str
    created_at: TimeOut
    updated_at: TimeOut
    started_at: TimeOut | None
    completed_at: TimeOut | None


# What a task shows where nobody said anything, or said null: the SDK fails on a null list.
_TASK_DETAILS: Mapping = {
    "plan_id": None,
    "parent_task_id": None,
    "priority": "normal",
    "input": {},
    "output": {},
    "artifacts": [],
    "capabilities_required": [],
    "depends_on": [],
    "blocks": [],
    "retry_policy": None,
    "timeout_seconds": None,
    "attempt": 1,
    "max_attempts": 3,
    "permissions": "inherit",
    "memory_policy": None,
    "requires_tools": [],
    "blocked_reason": None,
    "error": None,
    "metadata": {},
}


def details_of(given: TaskIn | TaskPatch) -> Mapping:
    """What a request says about a task that is only kept and shown."""
    said = {name: getattr(given, name, UNSET) for name in _TASK_DETAILS}
    return {name: value for name, value in said.items() if value is not UNSET}


def task(shown: Task) -> dict[str, Any]:
    details = {name: value for name, value in shown.details.items() if value is not None}
    return {
        "id": shown.id,
        "intent_id": shown.intent_id,
        "name": shown.title,
        "version": shown.version,
        "status": shown.status.value,
        "description": shown.description,
        "assigned_agent": shown.assigned_agent or None,
        **_TASK_DETAILS,
        **details,
        "created_by": shown.created_by,
        "created_at": shown.created_at,
        "updated_at": shown.updated_at,
        "started_at": shown.started_at or None,
        "completed_at": shown.completed_at or None,
    }
