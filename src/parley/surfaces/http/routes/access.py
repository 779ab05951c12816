"""Access lists and access requests over HTTP."""

from __future__ import annotations

from parley.app.team.directory import access as access_lists
from parley.app.team.directory.access import GrantDraft, RequestDraft
from parley.domain.errors.errors import NotFound
from parley.surfaces.http.headers import TRACEPARENT, with_trace
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import Call, Route, json
from parley.wire.api.access import (
    AccessRequestIn,
    AclIn,
    ApproveIn,
    DenyIn,
    GrantIn,
    access_list_of,
    access_request_of,
    grant_of,
)
from parley.wire.api.intents import moment
from parley.wire.api.records.intents import AccessList, AccessRequest, AccessRequestList, Grant


def _draft(body: GrantIn, field: str) -> GrantDraft:
    expires_at = moment(body.expires_at, field)
    return GrantDraft(body.principal_id, body.permission, body.principal_type, body.reason or "", expires_at)


async def get(call: Call) -> Response:
    return json(200, access_list_of(await access_lists.get(call.team, call.caller, call.params["intent_id"])))


async def replace_all(call: Call) -> Response:
    body: AclIn = call.body
    drafts = [_draft(entry, f"entries[{number}].expires_at") for number, entry in enumerate(body.entries)]
    intent_id = call.params["intent_id"]
    access = await access_lists.replace_all(call.team, with_trace(call), intent_id, body.default_policy, drafts)
    return json(200, access_list_of(access))


async def grant(call: Call) -> Response:
    intent_id = call.params["intent_id"]
    new_grant = await access_lists.grant(call.team, with_trace(call), intent_id, _draft(call.body, "expires_at"))
    return json(201, grant_of(intent_id, new_grant))


async def _grant_again(call: Call, grant_id: str) -> Response:
    intent_id = call.params["intent_id"]
    for entry in (await access_lists.get(call.team, call.caller, intent_id)).grants:
        if entry.id == grant_id:
            return json(201, grant_of(intent_id, entry))
    raise NotFound.no_such("entry")


async def revoke(call: Call) -> Response:
    await access_lists.revoke(call.team, with_trace(call), call.params["intent_id"], call.params["entry_id"])
    return Response(204)


async def request(call: Call) -> Response:
    body: AccessRequestIn = call.body
    draft = RequestDraft(
        body.requested_permission, body.principal_type, body.reason or "", tuple(body.capabilities or ())
    )
    caller = with_trace(call, await call.speaker(body.principal_id))
    access_request = await access_lists.request(call.team, caller, call.params["intent_id"], draft)
    return json(201, access_request_of(access_request))


async def requests(call: Call) -> Response:
    access_requests = await access_lists.requests(call.team, call.caller, call.params["intent_id"])
    return json(200, AccessRequestList([access_request_of(request) for request in access_requests]))


async def approve(call: Call) -> Response:
    body: ApproveIn = call.body
    decided = await access_lists.approve(
        call.team,
        with_trace(call, await call.speaker(body.decided_by)),
        call.params["intent_id"],
        call.params["request_id"],
        permission=body.permission,
        expires_at=moment(body.expires_at, "expires_at"),
        reason=body.reason or "",
    )
    return json(200, access_request_of(decided))


async def deny(call: Call) -> Response:
    body: DenyIn = call.body
    decided = await access_lists.deny(
        call.team,
        with_trace(call, await call.speaker(body.decided_by)),
        call.params["intent_id"],
        call.params["request_id"],
        body.reason or "",
    )
    return json(200, access_request_of(decided))


_TAG = "access"
_ACL = "/intents/{intent_id}/acl"
_REQUESTS = "/intents/{intent_id}/access-requests"
_TRACED = (TRACEPARENT,)
ROUTES = (
    Route("GET", _ACL, get, "Get an intent's access list", _TAG, {200: AccessList}),
    Route("PUT", _ACL, replace_all, "Replace the access list", _TAG, {200: AccessList}, body=AclIn, headers=_TRACED),
    Route(
        "POST",
        _ACL + "/entries",
        grant,
        "Grant access",
        _TAG,
        {201: Grant},
        body=GrantIn,
        headers=_TRACED,
        again=_grant_again,
    ),
    Route("DELETE", _ACL + "/entries/{entry_id}", revoke, "Revoke access", _TAG, {204: None}, headers=_TRACED),
    Route(
        "POST",
        _REQUESTS,
        request,
        "Request access",
        _TAG,
        {201: AccessRequest},
        body=AccessRequestIn,
        headers=_TRACED,
        written=access_request_of,
    ),
    Route("GET", _REQUESTS, requests, "List access requests", _TAG, {200: AccessRequestList}),
    Route(
        "POST",
        _REQUESTS + "/{request_id}/approve",
        approve,
        "Approve an access request",
        _TAG,
        {200: AccessRequest},
        body=ApproveIn,
        body_optional=True,
        headers=_TRACED,
        written=access_request_of,
    ),
    Route(
        "POST",
        _REQUESTS + "/{request_id}/deny",
        deny,
        "Deny an access request",
        _TAG,
        {200: AccessRequest},
        body=DenyIn,
        body_optional=True,
        headers=_TRACED,
        written=access_request_of,
    ),
)
