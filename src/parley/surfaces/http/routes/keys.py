"""Tenants and keys over HTTP: what an admin and the operator do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory import keys
from parley.app.team.directory.keys import KeyDraft
from parley.surfaces.http.route import ADMINS, Call, Route, json
from parley.wire.api import agents as registry
from parley.wire.api.agents import KeyIn, KeyOut, NewKeyOut, TenantIn, TenantOut
from parley.wire.api.channels import moment

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def create_tenant(call: Call) -> Response:
    given: TenantIn = call.body
    return json(201, registry.tenant(await keys.create_tenant(call.team, call.caller, given.id, given.name)))


async def tenants(call: Call) -> Response:
    return json(200, [registry.tenant(one) for one in await keys.tenants(call.team, call.caller)])


async def create(call: Call) -> Response:
    given: KeyIn = call.body
    draft = KeyDraft(
        given.kind,
        given.tenant_id or "",
        given.agent_id or "",
        given.user_id or "",
        moment(given.expires_at),
    )
    made = await keys.create(call.team, call.caller, draft)
    return json(201, registry.new_key(made.key, made.secret))


async def listed(call: Call) -> Response:
    return json(200, [registry.key(one) for one in await keys.listed(call.team, call.caller)])


async def revoke(call: Call) -> Response:
    return json(200, registry.key(await keys.revoke(call.team, call.caller, call.params["key_id"])))


async def rotate(call: Call) -> Response:
    made = await keys.rotate(call.team, call.caller, call.params["key_id"])
    return json(201, registry.new_key(made.key, made.secret))


_TAG = "keys"
ROUTES = (
    Route("POST", "/tenants", create_tenant, "Create a tenant", _TAG, {201: TenantOut}, scope=ADMINS, body=TenantIn),
    Route("GET", "/tenants", tenants, "List tenants", _TAG, {200: list[TenantOut]}, scope=ADMINS),
    Route("POST", "/keys", create, "Create a key", _TAG, {201: NewKeyOut}, scope=ADMINS, body=KeyIn, confidential=True),
    Route("GET", "/keys", listed, "List the tenant's keys", _TAG, {200: list[KeyOut]}, scope=ADMINS),
    Route("DELETE", "/keys/{key_id}", revoke, "Revoke a key", _TAG, {200: KeyOut}, scope=ADMINS),
    Route(
        "POST",
        "/keys/{key_id}/rotate",
        rotate,
        "Replace a key by a new one; the old one ends at once",
        _TAG,
        {201: NewKeyOut},
        scope=ADMINS,
        confidential=True,
    ),
)
