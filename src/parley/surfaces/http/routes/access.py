"""Access lists and access requests over HTTP."""

from __future__ import annotations

from parley.app.team.directory import access as access_lists
from parley.app.team.directory.access import GrantDraft, RequestDraft
from parley.surfaces.http.headers import TRACEPARENT, traced
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


def _draft(given: GrantIn, field: str) -> GrantDraft:
    expires_at = moment(given.expires_at, field)
    return GrantDraft(given.principal_id, given.permission, given.principal_type, given.reason or "", expires_at)


async def show(call: Call) -> Response:
    return json(200, access_list_of(await access_lists.show(call.team, call.caller, call.params["intent_id"])))


async def replace_all(call: Call) -> Response:
    given: AclIn = call.body
    drafts = [_draft(one, f"entries[{number}].expires_at") for number, one in enumerate(given.entries)]
    intent_id = call.params["intent_id"]
    access = await access_lists.replace_all(call.team, traced(call), intent_id, given.default_policy, drafts)
    return json(200, access_list_of(access))


async def grant(call: Call) -> Response:
    intent_id = call.params["intent_id"]
    given = await access_lists.grant(call.team, traced(call), intent_id, _draft(call.body, "expires_at"))
    return json(201, grant_of(intent_id, given))


async def revoke(call: Call) -> Response:
    await access_lists.revoke(call.team, traced(call), call.params["intent_id"], call.params["entry_id"])
    return Response(204)


async def request(call: Call) -> Response:
    given: AccessRequestIn = call.body
    draft = RequestDraft(
        given.requested_permission, given.principal_type, given.reason or "", tuple(given.capabilities or ())
    )
    caller = traced(call, call.speaker(given.principal_id))
    asked = await access_lists.request(call.team, caller, call.params["intent_id"], draft)
    return json(201, access_request_of(asked))


async def requests(call: Call) -> Response:
    found = await access_lists.requests(call.team, call.caller, call.params["intent_id"])
    return json(200, AccessRequestList([access_request_of(request) for request in found]))


async def approve(call: Call) -> Response:
    given: ApproveIn = call.body
    decided = await access_lists.approve(
        call.team,
        traced(call, call.speaker(given.decided_by)),
        call.params["intent_id"],
        call.params["request_id"],
        permission=given.permission,
        expires_at=moment(given.expires_at, "expires_at"),
        reason=given.reason or "",
    )
    return json(200, access_request_of(decided))


async def deny(call: Call) -> Response:
    given: DenyIn = call.body
    decided = await access_lists.deny(
        call.team,
        traced(call, call.speaker(given.decided_by)),
        call.params["intent_id"],
        call.params["request_id"],
        given.reason or "",
    )
    return json(200, access_request_of(decided))


_TAG = "access"
_ACL = "/intents/{intent_id}/acl"
_REQUESTS = "/intents/{intent_id}/access-requests"
_TRACED = (TRACEPARENT,)
ROUTES = (
    Route("GET", _ACL, show, "Get an intent's access list", _TAG, {200: AccessList}),
    Route("PUT", _ACL, replace_all, "Replace the access list", _TAG, {200: AccessList}, body=AclIn, headers=_TRACED),
    Route("POST", _ACL + "/entries", grant, "Grant access", _TAG, {201: Grant}, body=GrantIn, headers=_TRACED),
    Route("DELETE", _ACL + "/entries/{entry_id}", revoke, "Revoke access", _TAG, {204: None}, headers=_TRACED),
    Route(
        "POST",
        _REQUESTS,
        request,
        "Ask for access",
        _TAG,
        {201: AccessRequest},
        body=AccessRequestIn,
        headers=_TRACED,
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
    ),
)
