"""Tasks as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from parley.domain.directory.intent import TaskStatus
from parley.wire.api.intents import Agent, Id, Reason, Text, Title
from parley.wire.api.records.intents import Task
from parley.wire.api.records.record import Mapping, time_of, time_or_none

if TYPE_CHECKING:
    from parley.domain.directory.intent import Task as StoredTask


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


# What of a task is only kept and shown.
_DETAILS = Task.__struct_fields__[Task.__struct_fields__.index("plan_id") : Task.__struct_fields__.index("created_by")]


def details_of(body: TaskIn | TaskPatch) -> Mapping:
    """What a request says about a task that is only kept and shown."""
    fields = {name: getattr(body, name, UNSET) for name in _DETAILS}
    return {name: value for name, value in fields.items() if value is not UNSET}


def task_of(stored: StoredTask) -> Task:
    return Task(
        id=stored.id,
        intent_id=stored.intent_id,
        name=stored.title,
        version=stored.version,
        status=stored.status.value,
        description=stored.description,
        assigned_agent=stored.assigned_agent or None,
        **{name: value for name, value in stored.details.items() if value is not None and name in _DETAILS},
        created_by=stored.created_by,
        created_at=time_of(stored.created_at),
        updated_at=time_of(stored.updated_at),
        started_at=time_or_none(stored.started_at),
        completed_at=time_or_none(stored.completed_at),
    )
