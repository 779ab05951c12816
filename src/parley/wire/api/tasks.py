"""Tasks as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from parley.domain.directory.intent import TaskStatus
from parley.wire.api.intents import Agent, Id, Reason, Text, Title
from parley.wire.api.records.intents import Task
from parley.wire.api.records.record import Mapping, fill_record

if TYPE_CHECKING:
    from parley.domain.directory.intent import Task as StoredTask


class TaskIn(Struct):
    """A task to create. Unknown fields are ignored."""

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
    """Changes to a task. Unknown fields are ignored."""

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


_NAMES = Task.__struct_fields__
# What of a task is only kept and shown, with what it shows where nothing was said, or null.
_DETAILS = {
    field.name: field.default_factory() if callable(field.default_factory) else field.default
    for field in fields(Task)[_NAMES.index("plan_id") : _NAMES.index("created_by")]
}


def details_of(body: TaskIn | TaskPatch) -> Mapping:
    """What a request says about a task that is only kept and shown."""
    details = {name: getattr(body, name, UNSET) for name in _DETAILS}
    return {name: value for name, value in details.items() if value is not UNSET}


def task_of(stored: StoredTask) -> Task:
    details = {name: value for name, value in stored.details.items() if value is not None and name in _DETAILS}
    return fill_record(Task, stored, name=stored.title, **_DETAILS | details)
