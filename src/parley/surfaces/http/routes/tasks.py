"""Tasks over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.intents import tasks
from parley.app.team.intents.tasks import TaskChange, TaskDraft
from parley.domain.directory.intent import TaskStatus
from parley.domain.errors.errors import Invalid, Problem
from parley.surfaces.http.headers import IF_MATCH, TRACEPARENT, needed_version, with_trace
from parley.surfaces.http.listing import encoded, json_list
from parley.surfaces.http.route import Call, Param, Route, etag, json
from parley.wire.api.records.intents import Task
from parley.wire.api.tasks import TaskIn, TaskPatch, details_of, task_of

if TYPE_CHECKING:
    from parley.domain.directory.intent import Task as StoredTask
    from parley.surfaces.http.http1.message import Response

_STATUSES = tuple(status.value for status in TaskStatus)


def _response(status: int, task: StoredTask) -> Response:
    return json(status, task_of(task), etag(task.version))


async def create(call: Call) -> Response:
    body: TaskIn = call.body
    draft = TaskDraft(body.name, body.description or "", body.assigned_agent or "", details_of(body))
    return _response(201, await tasks.create(call.team, with_trace(call), body.intent_id, draft))


async def get(call: Call) -> Response:
    return _response(200, await tasks.get(call.team, call.caller, call.params["task_id"]))


async def list_page(call: Call) -> Response:
    status = call.query.get("status", "")
    if status and status not in _STATUSES:
        raise Invalid.because([Problem("invalid", "status", f"must be one of {', '.join(_STATUSES)}")])
    page = tasks.list_page(
        call.team,
        call.caller,
        call.params["intent_id"],
        status=TaskStatus(status) if status else None,
        limit=call.whole("limit", 100, 1, call.team.limits.page),
        offset=call.whole("offset", 0, 0, 1_000_000),
    )
    return await json_list(encoded(page, task_of))


async def change(call: Call) -> Response:
    body: TaskPatch = call.body
    wanted = TaskChange(body.status, body.name, body.description, body.assigned_agent, details_of(body))
    version = needed_version(call.request)
    return _response(200, await tasks.change(call.team, with_trace(call), call.params["task_id"], version, wanted))


_TAG = "tasks"
ROUTES = (
    Route(
        "POST",
        "/tasks",
        create,
        "Create a task",
        _TAG,
        {201: Task},
        body=TaskIn,
        headers=(TRACEPARENT,),
        written=task_of,
    ),
    Route("GET", "/tasks/{task_id}", get, "Get a task", _TAG, {200: Task}),
    Route(
        "PATCH",
        "/tasks/{task_id}",
        change,
        "Change a task",
        _TAG,
        {200: Task},
        body=TaskPatch,
        headers=(IF_MATCH, TRACEPARENT),
        refusals=(428,),
    ),
    Route(
        "GET",
        "/intents/{intent_id}/tasks",
        list_page,
        "List the tasks of an intent",
        _TAG,
        {200: list[Task]},
        query=(
            Param("status", "Only tasks with this status.", choices=_STATUSES),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
            Param("offset", "The number of results to skip.", "integer", 0, 1_000_000),
        ),
    ),
)
