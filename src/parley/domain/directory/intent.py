"""Intents and tasks: what bounds a channel's access and life."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.team import BadTransition, VersionMismatch
from parley.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

# How deep a patch may reach into the state.
DEEPEST_PATH = 32


class IntentStatus(StrEnum):
    DRAFT = "draft"
    ACTIVE = "active"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    ABANDONED = "abandoned"


INTENT_MOVES: dict[IntentStatus, frozenset[IntentStatus]] = {
    IntentStatus.DRAFT: frozenset({IntentStatus.ACTIVE, IntentStatus.ABANDONED}),
    IntentStatus.ACTIVE: frozenset({IntentStatus.BLOCKED, IntentStatus.COMPLETED, IntentStatus.ABANDONED}),
    IntentStatus.BLOCKED: frozenset({IntentStatus.ACTIVE, IntentStatus.ABANDONED}),
    IntentStatus.COMPLETED: frozenset(),
    IntentStatus.ABANDONED: frozenset(),
}
RESOLVED = frozenset({IntentStatus.COMPLETED, IntentStatus.ABANDONED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent(Record):
    """A goal that agents work on. Its `version` is the one of If-Match."""

    kind: ClassVar[str] = "intent"

    title: str
    description: str = ""
    created_by: str
    status: IntentStatus = IntentStatus.DRAFT
    constraints: dict[str, Any] | list[Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    confidence: float = 0
    parent_intent_id: str = ""
    depends_on: tuple[str, ...] = ()
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentCount(Record):
    """How many intents an agent has created since 0.7; its id is the agent's."""

    kind: ClassVar[str] = "intent_count"

    total: int = 0


class PatchOp(StrEnum):
    """What a patch does at its path: put a value there, add one to the list there, or take it away."""

    SET = "set"
    APPEND = "append"
    REMOVE = "remove"


class Patch(NamedTuple):
    """One change to an intent's state; `a/b` is the field b of the field a."""

    op: PatchOp
    path: str
    value: Any = None


def check_version(record: Record, wanted: int | None) -> None:
    """Refuse a change that was made for another version; None: for whichever there is."""
    if wanted is not None and wanted != record.version:
        raise VersionMismatch(
            f"this is version {record.version}, not {wanted}", facts={"current_version": record.version}
        )


def check_move(now: IntentStatus, then: IntentStatus) -> None:
    if then not in INTENT_MOVES[now]:
        raise BadTransition(f"an intent that is {now.value} cannot become {then.value}")


def patched(state: dict[str, Any], patches: Sequence[Patch]) -> dict[str, Any]:
    """The state after all patches, in order; the given one stays as it is."""
    result: dict[str, Any] = state
    for number, patch in enumerate(patches):
        steps = [step for step in patch.path.split("/") if step]
        if not 1 <= len(steps) <= DEEPEST_PATH:
            raise _bad_path(number, f"names 1 to {DEEPEST_PATH} fields, with / between them")
        result = _applied(result, steps, patch, number)
    return result


def _applied(state: dict[str, Any], steps: list[str], patch: Patch, number: int) -> dict[str, Any]:
    """A copy with the change; only what lies on the path is copied."""
    step, rest = steps[0], steps[1:]
    if rest:
        if step not in state and patch.op is PatchOp.REMOVE:
            return state
        inner = state.get(step, {})
        if not isinstance(inner, dict):
            raise _bad_path(number, f"{step} has no fields")
        return {**state, step: _applied(inner, rest, patch, number)}
    if patch.op is PatchOp.SET:
        return {**state, step: patch.value}
    if patch.op is PatchOp.REMOVE:
        return {name: value for name, value in state.items() if name != step}
    present = state.get(step, [])
    if not isinstance(present, list):
        raise _bad_path(number, f"{step} is no list")
    return {**state, step: [*present, patch.value]}


def _bad_path(number: int, detail: str) -> Invalid:
    return Invalid.because([Problem("invalid", f"patches[{number}].path", detail)])


class TaskStatus(StrEnum):
    PENDING = "pending"
    READY = "ready"
    CLAIMED = "claimed"
    RUNNING = "running"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


TASK_OVER = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Record):
    """A part of an intent's work."""

    kind: ClassVar[str] = "task"

    intent_id: str
    title: str
    description: str = ""
    status: TaskStatus = TaskStatus.PENDING
    assigned_agent: str = ""
    # Priority, input, output and whatever else is only kept and shown.
    details: dict[str, Any] = field(default_factory=dict)
    created_by: str
    created_at: str
    updated_at: str
    started_at: str = ""
    completed_at: str = ""

    @property
    def parent(self) -> str:
        return self.intent_id


_TASK_EVENTS = {
    TaskStatus.PENDING: "task.retrying",
    TaskStatus.READY: "task.ready",
    TaskStatus.CLAIMED: "task.claimed",
    TaskStatus.RUNNING: "task.started",
    TaskStatus.BLOCKED: "task.blocked",
    TaskStatus.COMPLETED: "task.completed",
    TaskStatus.FAILED: "task.failed",
    TaskStatus.CANCELLED: "task.cancelled",
    TaskStatus.SKIPPED: "task.skipped",
}


def task_event(now: TaskStatus, then: TaskStatus) -> str:
    """What the log calls this step of a task, or `BadTransition` for one that is over."""
    if now is then and now not in TASK_OVER:
        return "task.progress"
    if now in TASK_OVER:
        raise BadTransition(f"the task is {now.value}: it does not change any more")
    if now is TaskStatus.BLOCKED and then not in TASK_OVER:
        return "task.unblocked"
    return _TASK_EVENTS[then]
