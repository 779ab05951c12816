"""Roles over HTTP: all callers see the holders, admins grant and revoke."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory import roles
from parley.surfaces.http.route import ADMINS, EVERYBODY, Call, Route, json
from parley.wire.api import agents as registry
from parley.wire.api.agents import HolderIn
from parley.wire.api.records.directory import Role

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def list_page(call: Call) -> Response:
    return json(200, [registry.role_of(role) for role in await roles.list_all(call.team, call.caller)])


async def get(call: Call) -> Response:
    return json(200, registry.role_of(await roles.held(call.team, call.caller, call.params["role_id"])))


async def grant(call: Call) -> Response:
    body: HolderIn = call.body
    return json(200, registry.role_of(await roles.grant(call.team, call.caller, call.params["role_id"], body.agent_id)))


async def revoke(call: Call) -> Response:
    role_id, agent_id = call.params["role_id"], call.params["agent_id"]
    return json(200, registry.role_of(await roles.revoke(call.team, call.caller, role_id, agent_id)))


_TAG = "roles"
_HOLDERS = "/roles/{role_id}/holders"
ROUTES = (
    Route("GET", "/roles", list_page, "List roles", _TAG, {200: list[Role]}, scope=EVERYBODY),
    Route("GET", _HOLDERS, get, "Get the holders of a role", _TAG, {200: Role}, scope=EVERYBODY),
    Route(
        "POST",
        _HOLDERS,
        grant,
        "Grant a role",
        _TAG,
        {200: Role},
        scope=ADMINS,
        body=HolderIn,
        written=registry.role_of,
    ),
    Route("DELETE", _HOLDERS + "/{agent_id}", revoke, "Revoke a role", _TAG, {200: Role}, scope=ADMINS),
)
