"""The agent registry over HTTP, as the OpenIntent SDK calls it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from parley.app.team.channels import requests
from parley.app.team.directory import agents
from parley.app.team.directory import identity as identities
from parley.app.team.directory.agents import AgentFilter
from parley.domain.agents.agent import AgentDraft
from parley.domain.directory.callers import AgentStatus
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.times import from_stamp, stamp
from parley.surfaces.http.listing import encoded, json_list
from parley.surfaces.http.route import EVERYBODY, READ_BY_ALL, Call, Param, Route, etag, json
from parley.wire.api import agents as registry
from parley.wire.api.agents import AgentIn, AgentStatusIn, HeartbeatIn, Presence
from parley.wire.api.records.directory import AgentInfo, Heartbeat
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from collections import Counter

    from parley.app.team.directory.agents import AgentWithStatus
    from parley.app.team.state.presence import Connected
    from parley.domain.agents.agent import AgentRecord
    from parley.surfaces.http.http1.message import Response


async def _response(call: Call, agent: AgentWithStatus) -> Response:
    return json(200, await document_of(call, agent), etag(agent.record.version))


async def document_of(call: Call, agent: AgentWithStatus) -> AgentInfo:
    """One agent, as the caller sees it."""
    identity = await identities.find(call.team, call.caller.tenant, agent.record.id)
    connected = await agents.find_connected(call.team, call.caller.tenant)
    asks = await requests.open_by_agent(call.team, call.caller, agent.record.id)
    return registry.agent_of(agent.record, agent.status, identity, _presence(agent, connected, asks))


def _presence(agent: AgentWithStatus, connected: Connected, asks: Counter[str]) -> Presence:
    record, status = agent
    return Presence(connected.is_online(record, status), connected.last_seen(record), asks[record.id])


async def register(call: Call) -> Response:
    body: AgentIn = call.body
    caller = agents.registering_in(call.caller, body.tenant_id or "")
    attributes = await agents.attributes(call.team, caller, body.agent_id)
    draft = AgentDraft(
        agent_id=body.agent_id,
        capabilities=None if body.capabilities is None else tuple(dict.fromkeys(body.capabilities)),
        role_id=body.role_id,
        title=body.name,
        max_concurrent_tasks=body.capacity.max_concurrent_tasks if body.capacity else None,
        current_load=body.capacity.current_load if body.capacity else None,
        endpoint=body.endpoint,
        metadata=body.metadata,
        heartbeats=registry.heartbeats_of(body.heartbeat_config) if body.heartbeat_config else None,
        drain_timeout_seconds=body.drain_timeout_seconds,
        attributes=registry.attributes_of(body, attributes),
    )
    registry.check_metadata(body.metadata, call.team.limits.metadata_bytes)
    return await _response(call, await agents.register(call.team, caller, draft))


async def get(call: Call) -> Response:
    return await _response(call, await agents.get(call.team, call.caller, call.params["agent_id"]))


async def list_page(call: Call) -> Response:
    query = call.query
    names = tuple([name for name in query.get("names", "").split(",") if name])
    if len(names) > _NAMES_MAX:
        raise Invalid.because([Problem("too_many", "names", f"at most {_NAMES_MAX} names")])
    wanted = AgentFilter(_status(query.get("status", "")), query.get("role_id", ""), query.get("capability", ""), names)
    by_name = await identities.all_of(call.team, call.caller.tenant)
    connected = await agents.find_connected(call.team, call.caller.tenant)
    asks = await requests.open_by_agent(call.team, call.caller)

    def document(agent: AgentWithStatus) -> AgentInfo:
        presence = _presence(agent, connected, asks)
        return registry.agent_of(agent.record, agent.status, by_name.get(agent.record.id), presence)

    return await json_list(encoded(agents.list_page(call.team, call.caller, wanted), document))


def _status(text: str) -> AgentStatus | None:
    if not text:
        return None
    try:
        return AgentStatus(text)
    except ValueError:
        detail = f"is one of {', '.join(status.value for status in AgentStatus)}"
        raise Invalid.because([Problem("invalid", "status", detail)]) from None


async def heartbeat(call: Call) -> Response:
    body: HeartbeatIn = call.body
    agent = await agents.heartbeat(call.team, call.caller, call.params["agent_id"], body.current_load)
    return json(200, _heartbeat(agent.record))


def _heartbeat(record: AgentRecord) -> Heartbeat:
    """The answer to the heartbeat that a record has just got."""
    at = record.last_heartbeat_at
    following = from_stamp(at) + timedelta(seconds=record.heartbeats.interval_seconds)
    return fill_record(
        Heartbeat, status="ok", agent_status=record.status, server_timestamp=at, next_heartbeat_at=stamp(following)
    )


async def change_status(call: Call) -> Response:
    body: AgentStatusIn = call.body
    which = (call.team, call.caller, call.params["agent_id"])
    if body.status == "stopped":
        return await _response(call, await agents.stop(*which))
    return await _response(call, await agents.change_status(*which, AgentStatus(body.status)))


async def deregister(call: Call) -> Response:
    return await _response(call, await agents.deregister(call.team, call.caller, call.params["agent_id"]))


async def _register_again(call: Call, agent_id: str) -> Response:
    body: AgentIn = call.body
    caller = agents.registering_in(call.caller, body.tenant_id or "")
    return await _response(call, await agents.get(call.team, caller, agent_id))


_TAG = "agents"
_NAMES_MAX = 100
_FILTERS = (
    Param("status", "Only agents with this status.", choices=tuple(status.value for status in AgentStatus)),
    Param("role_id", "Only agents that hold this role."),
    Param("capability", "Only agents with this capability."),
    Param("names", f"Only agents with these names, separated by commas; at most {_NAMES_MAX}."),
)
ROUTES = (
    Route(
        "POST",
        "/agents/register",
        register,
        "Register an agent",
        _TAG,
        {200: AgentInfo},
        body=AgentIn,
        again=_register_again,
    ),
    Route("GET", "/agents", list_page, "List agents", _TAG, {200: list[AgentInfo]}, scope=READ_BY_ALL, query=_FILTERS),
    Route(
        "GET",
        "/agents/{agent_id}/record",
        get,
        "Get an agent's record",
        _TAG,
        {200: AgentInfo},
        scope=EVERYBODY,
        while_suspended=True,
    ),
    Route(
        "POST",
        "/agents/{agent_id}/heartbeat",
        heartbeat,
        "Send an agent's heartbeat",
        _TAG,
        {200: Heartbeat},
        body=HeartbeatIn,
        body_optional=True,
        written=_heartbeat,
        refusals=(410,),
    ),
    Route(
        "PATCH",
        "/agents/{agent_id}/status",
        change_status,
        "Set an agent active, draining or stopped, or deregister it",
        _TAG,
        {200: AgentInfo},
        body=AgentStatusIn,
        refusals=(410,),
    ),
    Route("DELETE", "/agents/{agent_id}", deregister, "Deregister an agent", _TAG, {200: AgentInfo}),
)
