"""Tasks: parts of an intent. Finishing a task closes its channels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.team.channels.channels import closing
from parley.app.team.directory.permissions import intent_access
from parley.app.team.intents.intents import close_late
from parley.app.team.retry import committed
from parley.domain.channel.event import quoted
from parley.domain.directory.access import Permission
from parley.domain.directory.callers import party_name
from parley.domain.directory.intent import RESOLVED, TASK_OVER, Task, TaskStatus, check_version, task_event
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.errors.team import BadTransition, QuotaExceeded
from parley.domain.record import expecting
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Expect

# Records of a page: few, because each may be as long as a body.
_PAGE = 32


class TaskDraft(NamedTuple):
    """A proposed task; `details` are stored without interpretation."""

    title: str
    description: str = ""
    assigned_agent: str = ""
    details: dict[str, Any] = {}  # noqa: RUF012  # never written to


class TaskChange(NamedTuple):
    """Changes to a task; None leaves a field as it is."""

    status: TaskStatus | None = None
    title: str | None = None
    description: str | None = None
    assigned_agent: str | None = None
    details: dict[str, Any] = {}  # noqa: RUF012  # never written to


async def create(team: Team, caller: Caller, intent_id: str, draft: TaskDraft) -> Task:
    """Create a task on an intent."""
    if draft.assigned_agent:
        party_name(draft.assigned_agent)

    async def decide() -> TeamChanges:
        intent, _, expects = await intent_access(team, caller, intent_id, Permission.WRITE)
        if intent.status in RESOLVED:
            raise BadTransition(f"the intent is {intent.status.value}: it takes no more tasks")
        if await team.store.count(Task, caller.tenant, intent_id) >= team.limits.tasks_per_intent:
            raise QuotaExceeded(f"an intent has at most {team.limits.tasks_per_intent} tasks")
        now = team.at()
        task = Task(
            id=team.new_id("task"),
            tenant_id=caller.tenant,
            intent_id=intent_id,
            created_by=caller.actor,
            created_at=now,
            updated_at=now,
            **draft._asdict(),
        )
        _check_size(team, task)
        return TeamChanges(
            caller.tenant,
            expects=(expecting(intent), *expects),
            puts=(task,),
            events=(team.event_by(caller, intent_id, "task.created", task_id=task.id, name=task.title),),
            entries=(team.entry(caller, "task_created", task.id, intent=intent_id),),
            created_id=task.id,
        )

    done = await committed(team, caller, decide, "intent")
    record = done.puts[0] if done else None
    assert isinstance(record, Task)  # noqa: S101  # what was put
    return record


async def get(team: Team, caller: Caller, task_id: str) -> Task:
    """One task."""
    task, _ = await _stored(team, caller, task_id, Permission.READ)
    return task


async def list_page(
    team: Team, caller: Caller, intent_id: str, *, status: TaskStatus | None = None, limit: int = 100, offset: int = 0
) -> AsyncIterator[Task]:
    """The tasks of an intent, oldest first."""
    await intent_access(team, caller, intent_id, Permission.READ)
    passed = 0
    after = ""
    while page := await team.store.children(Task, caller.tenant, intent_id, after=after, limit=_PAGE):
        after = page[-1].id
        for task in page:
            if status is not None and task.status is not status:
                continue
            passed += 1
            if passed > offset:
                yield task
            if passed == offset + limit:
                return


async def change(team: Team, caller: Caller, task_id: str, version: int | None, wanted: TaskChange) -> Task:
    """Change a task that still has this version. Finishing it closes its channels in the same commit."""
    if wanted.assigned_agent:
        party_name(wanted.assigned_agent)

    async def decide() -> TeamChanges:
        task, expects = await _stored(team, caller, task_id, Permission.WRITE)
        check_version(task, version)
        changed = _apply_change(task, wanted, team.at())
        _check_size(team, changed)
        event_type = task_event(task.status, changed.status)
        over = changed.status in TASK_OVER
        closed = await closing(team, caller.tenant, task.intent_id, task_id=task_id) if over else ()
        payload: dict[str, object] = {"task_id": task_id, "status": changed.status.value, "version": task.version + 1}
        if changed.assigned_agent:
            payload["assigned_agent"] = changed.assigned_agent
        entry = team.entry(caller, "task_changed", task_id, status=changed.status.value, channels=str(len(closed)))
        return TeamChanges(
            caller.tenant,
            expects=expects,
            puts=(changed, *closed),
            events=(team.event_by(caller, task.intent_id, event_type, **payload),),
            ended=tuple(channel.id for channel in closed),
            entries=(entry,),
        )

    done = await committed(team, caller, decide, "task")
    record = done.puts[0] if done else None
    assert isinstance(record, Task)  # noqa: S101  # what was put
    if record.status in TASK_OVER:
        await close_late(team, caller, record.intent_id, task_id=task_id)
    return record


def _apply_change(task: Task, wanted: TaskChange, now: str) -> Task:
    status = wanted.status or task.status
    begins = status is TaskStatus.RUNNING and not task.started_at
    return replace(
        task,
        status=status,
        title=task.title if wanted.title is None else wanted.title,
        description=task.description if wanted.description is None else wanted.description,
        assigned_agent=task.assigned_agent if wanted.assigned_agent is None else wanted.assigned_agent,
        details={**task.details, **wanted.details},
        updated_at=now,
        started_at=now if begins else task.started_at,
        completed_at=now if status in TASK_OVER else task.completed_at,
    )


def _check_size(team: Team, task: Task) -> None:
    """Refuse a task with more details than a request body may have."""
    if len(quoted(task.details)) > team.limits.http_body_bytes:
        detail = f"a task has at most {team.limits.http_body_bytes} bytes"
        raise Invalid.because([Problem("too_large", "", detail)])


async def _stored(team: Team, caller: Caller, task_id: str, needed: Permission) -> tuple[Task, tuple[Expect, ...]]:
    task = await team.store.get(Task, caller.tenant, task_id)
    if task is None:
        raise NotFound.no_such("task")
    try:
        access = await intent_access(team, caller, task.intent_id, needed)
    except NotFound:
        raise NotFound.no_such("task") from None
    return task, access.expects
