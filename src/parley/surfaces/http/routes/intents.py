"""Intents over HTTP: create, list, get, patch, change status, assign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.intents import intents
from parley.app.team.intents.intents import AccessDraft, IntentDraft
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.intent import IntentStatus
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.surfaces.http.headers import IF_MATCH, TRACEPARENT, needed_version, with_trace
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.listing import encoded, json_list
from parley.surfaces.http.route import EVERYBODY, READ_BY_ALL, Call, Param, Route, etag, json
from parley.wire.api import intents as openintent
from parley.wire.api.intents import AssignIn, IntentIn, IntentStatusIn, StateIn
from parley.wire.api.records.intents import Assignment, Intent, IntentList

if TYPE_CHECKING:
    from parley.domain.directory.intent import Intent as StoredIntent

_STATUSES = tuple(status.value for status in IntentStatus)


def _response(status: int, intent: StoredIntent) -> Response:
    return json(status, openintent.intent_of(intent), etag(intent.version))


async def create(call: Call) -> Response:
    body: IntentIn = call.body
    draft = IntentDraft(
        body.title,
        body.description or "",
        body.constraints or {},
        body.state or {},
        IntentStatus(body.status),
        body.confidence,
        body.parent_intent_id or "",
        tuple(body.depends_on or ()),
    )
    agents = tuple(body.access) if isinstance(body.access, list) else ()
    policy = AccessPolicy.CLOSED if isinstance(body.access, list) else body.access
    caller = with_trace(call, await call.speaker(body.created_by))
    return _response(201, await intents.create(call.team, caller, draft, AccessDraft(policy, agents)))


async def list_page(call: Call) -> Response:
    status = call.query.get("status", "")
    if status and status not in _STATUSES:
        raise Invalid.because([Problem("invalid", "status", f"must be one of {', '.join(_STATUSES)}")])
    page = intents.list_page(
        call.team,
        call.caller,
        status=IntentStatus(status) if status else None,
        name=call.query.get("name", ""),
        limit=call.whole("limit", 50, 1, call.team.limits.page),
        offset=call.whole("offset", 0, 0, 1_000_000),
    )
    return await json_list(encoded(page, openintent.intent_of), opening=b'{"intents":[', closing=b"]}")


async def get(call: Call) -> Response:
    return _response(200, await intents.get(call.team, call.caller, call.params["intent_id"]))


async def patch(call: Call) -> Response:
    patches = openintent.patches_of(call.body)
    version = needed_version(call.request)
    return _response(200, await intents.patch(call.team, with_trace(call), call.params["intent_id"], version, patches))


async def set_status(call: Call) -> Response:
    body: IntentStatusIn = call.body
    version = needed_version(call.request)
    intent = await intents.set_status(
        call.team, with_trace(call), call.params["intent_id"], version, body.status, body.reason or ""
    )
    return _response(200, intent)


async def assign(call: Call) -> Response:
    body: AssignIn = call.body
    agent = body.agent_id or call.caller.agent
    if not agent:
        raise Invalid.because([Problem("required", "agent_id", "name the agent to be assigned")])
    intent_id = call.params["intent_id"]
    assignment = await intents.assign(call.team, with_trace(call), intent_id, agent, body.role)
    return json(200, openintent.assignment_of(intent_id, assignment))


async def _assign_again(call: Call, agent: str) -> Response:
    intent_id = call.params["intent_id"]
    for assignment in await intents.assignments(call.team, call.caller, intent_id):
        if assignment.agent_id == agent:
            return json(200, openintent.assignment_of(intent_id, assignment))
    raise NotFound(f"{agent} is no longer assigned to this intent")


async def unassign(call: Call) -> Response:
    await intents.unassign(call.team, with_trace(call), call.params["intent_id"], call.params["agent_id"])
    return Response(204)


async def assignments(call: Call) -> Response:
    intent_id = call.params["intent_id"]
    all_assignments = await intents.assignments(call.team, call.caller, intent_id)
    return json(200, [openintent.assignment_of(intent_id, assignment) for assignment in all_assignments])


_TAG = "intents"
_INTENT = "/intents/{intent_id}"
_CHANGES = (IF_MATCH, TRACEPARENT)
ROUTES = (
    Route(
        "POST",
        "/intents",
        create,
        "Create an intent",
        _TAG,
        {201: Intent},
        body=IntentIn,
        headers=(TRACEPARENT,),
        written=openintent.intent_of,
    ),
    Route(
        "GET",
        "/intents",
        list_page,
        "List intents you can see",
        _TAG,
        {200: IntentList},
        query=(
            Param("status", "Only intents with this status.", choices=_STATUSES),
            Param("name", "Only intents with this title or id, or whose id ends with this text."),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
            Param("offset", "The number of results to skip.", "integer", 0, 1_000_000),
        ),
        scope=READ_BY_ALL,
    ),
    Route("GET", _INTENT, get, "Get an intent", _TAG, {200: Intent}, scope=EVERYBODY),
    Route(
        "POST",
        _INTENT + "/state",
        patch,
        "Patch an intent's state",
        _TAG,
        {200: Intent},
        body=StateIn,
        headers=_CHANGES,
        refusals=(428,),
        written=openintent.intent_of,
    ),
    Route(
        "POST",
        _INTENT + "/status",
        set_status,
        "Change an intent's status",
        _TAG,
        {200: Intent},
        body=IntentStatusIn,
        headers=_CHANGES,
        refusals=(428,),
        written=openintent.intent_of,
    ),
    Route(
        "POST",
        _INTENT + "/agents",
        assign,
        "Assign an agent",
        _TAG,
        {200: Assignment},
        body=AssignIn,
        headers=(TRACEPARENT,),
        again=_assign_again,
    ),
    Route(
        "GET",
        _INTENT + "/agents",
        assignments,
        "List assigned agents",
        _TAG,
        {200: list[Assignment]},
        scope=EVERYBODY,
    ),
    Route(
        "DELETE",
        _INTENT + "/agents/{agent_id}",
        unassign,
        "Unassign an agent",
        _TAG,
        {204: None},
        headers=(TRACEPARENT,),
    ),
)
