"""Tenants and keys over HTTP: what an admin and the operator do, and who anybody is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory import keys
from parley.app.team.directory.keys import KeyDraft
from parley.surfaces.http.route import ADMINS, READ_BY_ALL, Call, Route, json
from parley.wire.api import agents as registry
from parley.wire.api.agents import KeyIn, TenantIn
from parley.wire.api.channels import moment
from parley.wire.api.records.directory import Key, KeyHolder, NewKey, Tenant

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def create_tenant(call: Call) -> Response:
    body: TenantIn = call.body
    return json(201, registry.tenant_of(await keys.create_tenant(call.team, call.caller, body.id, body.name)))


async def tenants(call: Call) -> Response:
    return json(200, [registry.tenant_of(tenant) for tenant in await keys.tenants(call.team, call.caller)])


async def create(call: Call) -> Response:
    body: KeyIn = call.body
    draft = KeyDraft(
        body.kind,
        body.tenant_id or "",
        body.agent_id or "",
        body.user_id or "",
        moment(body.expires_at),
    )
    new_key = await keys.create(call.team, call.caller, draft)
    return json(201, registry.new_key_of(new_key.key, new_key.secret))


async def list_page(call: Call) -> Response:
    return json(200, [registry.key_of(key) for key in await keys.list_all(call.team, call.caller)])


async def whoami(call: Call) -> Response:
    use = await keys.describe_caller(call.team, call.caller)
    holder = registry.key_holder_of(use.key, use.agent, use.roles, use.agents, is_approver=use.is_approver)
    return json(200, holder)


async def revoke(call: Call) -> Response:
    return json(200, registry.key_of(await keys.revoke(call.team, call.caller, call.params["key_id"])))


async def rotate(call: Call) -> Response:
    new_key = await keys.rotate(call.team, call.caller, call.params["key_id"])
    return json(201, registry.new_key_of(new_key.key, new_key.secret))


_TAG = "keys"
ROUTES = (
    Route(
        "POST",
        "/tenants",
        create_tenant,
        "Create a tenant",
        _TAG,
        {201: Tenant},
        scope=ADMINS,
        body=TenantIn,
        written=registry.tenant_of,
    ),
    Route("GET", "/tenants", tenants, "List tenants", _TAG, {200: list[Tenant]}, scope=ADMINS),
    Route("POST", "/keys", create, "Create a key", _TAG, {201: NewKey}, scope=ADMINS, body=KeyIn, confidential=True),
    Route("GET", "/keys", list_page, "List the tenant's keys", _TAG, {200: list[Key]}, scope=ADMINS),
    Route("GET", "/whoami", whoami, "Get whose key this request carries", _TAG, {200: KeyHolder}, scope=READ_BY_ALL),
    Route("DELETE", "/keys/{key_id}", revoke, "Revoke a key", _TAG, {200: Key}, scope=ADMINS),
    Route(
        "POST",
        "/keys/{key_id}/rotate",
        rotate,
        "Replace a key by a new one; the old one stops working at once",
        _TAG,
        {201: NewKey},
        scope=ADMINS,
        confidential=True,
    ),
)
