"""Approvals over HTTP: list, get, decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.decisions import approvals
from parley.app.team.decisions.approvals import ApprovalDecision
from parley.domain.exchange.approval import ApprovalStatus
from parley.surfaces.http.listing import json_list
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, encode, json
from parley.wire.api import approvals as governance
from parley.wire.api.approvals import DecisionIn
from parley.wire.api.records.rules import Approval

if TYPE_CHECKING:
    from parley.domain.exchange.approval import Approval as StoredApproval
    from parley.surfaces.http.http1.message import Response


async def _approval(call: Call, stored: StoredApproval) -> Approval:
    standing = await approvals.standing(call.team, call.caller, stored)
    return governance.approval_of(stored, standing, await approvals.closed_with(call.team, stored))


async def list_page(call: Call) -> Response:
    text = call.choice("status", "", *[status.value for status in ApprovalStatus])
    page = approvals.list_page(
        call.team,
        call.caller,
        status=ApprovalStatus(text) if text else None,
        after=call.query.get("after", ""),
        limit=call.whole("limit", 100, 1, call.team.limits.page),
    )
    return await json_list(encode(await _approval(call, stored)) async for stored in page)


async def get(call: Call) -> Response:
    approval = await approvals.get(call.team, call.caller, call.params["approval_id"])
    return json(200, await _approval(call, approval))


async def decide(call: Call) -> Response:
    body: DecisionIn = call.body
    deciding = ApprovalDecision(body.decision, body.digest, body.note, governance.answer_payload(body.answer))
    approval = await approvals.decide(call.team, call.caller, call.params["approval_id"], deciding)
    return json(200, await _approval(call, approval))


async def _decide_again(call: Call, message_id: str) -> Response:
    del message_id
    return await get(call)


_TAG = "approvals"
ROUTES = (
    Route(
        "GET",
        "/approvals",
        list_page,
        "List approvals, pending and decided",
        _TAG,
        {200: list[Approval]},
        scope=EVERYBODY,
        query=(
            Param(
                "status", "Only approvals with this status.", choices=tuple(status.value for status in ApprovalStatus)
            ),
            Param("after", "The id of the approval after which the page starts."),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
        ),
    ),
    Route("GET", "/approvals/{approval_id}", get, "Get an approval", _TAG, {200: Approval}, scope=EVERYBODY),
    Route(
        "POST",
        "/approvals/{approval_id}/decision",
        decide,
        "Approve or reject a held message, or answer in its place",
        _TAG,
        {200: Approval},
        scope=EVERYBODY,
        body=DecisionIn,
        keyed=True,
        again=_decide_again,
        unsaved=True,
    ),
)
