"""Approvals over HTTP: list, get, decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.app.team.decisions import approvals, exchanges
from parley.app.team.decisions.approvals import ApprovalDecision, ApprovalFilter, ListOrder
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.exchange.approval import ApprovalStatus, Cause
from parley.surfaces.http.listing import json_list
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, encode, json
from parley.wire.api import approvals as governance
from parley.wire.api.approvals import DecisionIn
from parley.wire.api.records.rules import Approval, ApprovalCount

if TYPE_CHECKING:
    from parley.domain.exchange.approval import Approval as StoredApproval
    from parley.domain.exchange.exchange import Exchange
    from parley.surfaces.http.http1.message import Response

    Document = dict[str, Any]


async def _approval(call: Call, stored: StoredApproval) -> Approval:
    standing = await approvals.standing(call.team, call.caller, stored)
    closes, stale = await approvals.closed_with(call.team, stored), await approvals.is_stale(call.team, stored)
    return governance.approval_of(stored, standing, closes, stale=stale)


async def _response(call: Call, stored: StoredApproval) -> Response:
    return json(200, governance.approval_document(await _approval(call, stored)))


def _filter(call: Call, limit: int) -> ApprovalFilter:
    query = call.query
    status = call.choice("status", "", *_STATUSES, _DECIDED)
    order = call.choice("order", "", *ListOrder)
    if query.get("before") and (query.get("after") or order not in ("", ListOrder.NEWEST)):
        raise Invalid.because([Problem("invalid", "before", "goes with the order newest, and without after")])
    if query.get("after") and order == ListOrder.NEWEST:
        raise Invalid.because([Problem("invalid", "after", "goes with the orders oldest and expiring")])
    return ApprovalFilter(
        ApprovalStatus(status) if status in _STATUSES else None,
        decided=status == _DECIDED,
        agent=query.get("agent", ""),
        user=query.get("user", ""),
        to=query.get("to", ""),
        cause=call.choice("cause", "", *Cause),
        order=ListOrder(order or ListOrder.OLDEST),
        after=query.get("after", ""),
        before=query.get("before", ""),
        limit=limit,
    )


async def list_page(call: Call) -> Response:
    wanted = _filter(call, call.whole("limit", 100, 1, call.team.limits.page))
    render = _summary if call.flag("summary") else _document
    page = approvals.list_page(call.team, call.caller, wanted)
    return await json_list(encode(await render(call, stored)) async for stored in page)


async def _document(call: Call, stored: StoredApproval) -> Document:
    return governance.approval_document(await _approval(call, stored))


async def _summary(call: Call, stored: StoredApproval) -> Document:
    standing = await approvals.standing(call.team, call.caller, stored)
    return governance.approval_summary(stored, standing, stale=await approvals.is_stale(call.team, stored))


async def count(call: Call) -> Response:
    counted = await approvals.count(call.team, call.caller, _filter(call, _MOST_COUNTED + 1))
    return json(200, ApprovalCount(count=min(counted, _MOST_COUNTED), more=counted > _MOST_COUNTED))


async def get(call: Call) -> Response:
    expand = call.choice("expand", "", "exchange")
    stored = await approvals.get(call.team, call.caller, call.params["approval_id"])
    approval = await _approval(call, stored)
    exchange = await _exchange(call, stored) if expand else None
    return json(200, governance.approval_document(approval, exchange))


async def _exchange(call: Call, stored: StoredApproval) -> Exchange | None:
    """The exchange of an approval, if the caller may see it."""
    try:
        return await exchanges.get(call.team, call.caller, stored.exchange_id) if stored.exchange_id else None
    except NotFound:
        return None


async def decide(call: Call) -> Response:
    body: DecisionIn = call.body
    deciding = ApprovalDecision(body.decision, body.digest, body.note, governance.answer_payload(body.answer))
    approval = await approvals.decide(call.team, call.caller, call.params["approval_id"], deciding)
    return await _response(call, approval)


async def _decide_again(call: Call, message_id: str) -> Response:
    del message_id
    return await get(call)


_TAG = "approvals"
_STATUSES = tuple(status.value for status in ApprovalStatus)
_DECIDED = "decided"
# More are not counted.
_MOST_COUNTED = 1000
_FILTERS = (
    Param(
        "status",
        "Only approvals with this status; `decided` is every status but pending.",
        choices=(*_STATUSES, _DECIDED),
    ),
    Param("agent", "Only approvals of messages of this agent."),
    Param("user", "Only approvals of messages of agents that act for this person."),
    Param("to", "Only approvals of messages to this address."),
    Param("cause", "Only approvals with this cause.", choices=tuple(Cause)),
)
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
            *_FILTERS,
            Param("order", "The order of the list; the default is oldest.", choices=tuple(ListOrder)),
            Param("after", "The id of the approval after which the page starts."),
            Param("before", "The id of the approval before which the page starts; the newest come first."),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
            Param("summary", "Whether to leave out the content of the messages.", "boolean"),
        ),
    ),
    Route(
        "GET",
        "/approvals/count",
        count,
        "Count approvals, up to 1000",
        _TAG,
        {200: ApprovalCount},
        scope=EVERYBODY,
        query=_FILTERS,
    ),
    Route(
        "GET",
        "/approvals/{approval_id}",
        get,
        "Get an approval",
        _TAG,
        {200: Approval},
        scope=EVERYBODY,
        query=(Param("expand", "What to include: its exchange.", choices=("exchange",)),),
    ),
    Route(
        "POST",
        "/approvals/{approval_id}/decision",
        decide,
        "Approve or reject a held message, or answer in its place",
        _TAG,
        {200: Approval},
        scope=EVERYBODY,
        body=DecisionIn,
        decides=True,
        keyed=True,
        again=_decide_again,
        unsaved=True,
    ),
)
