"""Requests over HTTP: which wait for an answer, where one stands, withdrawing it, and handing it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from parley.app.team.channels import requests
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.exchange.exchange import summary_of
from parley.domain.message.message import Pattern
from parley.domain.store.changes import UnansweredQuery
from parley.surfaces.entrance.authentication import sender_of
from parley.surfaces.entrance.idempotency import scope_of
from parley.surfaces.http.listing import encoded, json_list
from parley.surfaces.http.responses import created, created_again, posted
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json, operation_name
from parley.surfaces.http.routes.messages import ASK, MESSAGES
from parley.wire.api.channels import ForwardIn, MessageIn, draft_of
from parley.wire.api.intents import moment
from parley.wire.api.records.channels import Ask, AskCount, ChannelMessage, RequestForward, RequestInfo
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import HeldMessage

if TYPE_CHECKING:
    from parley.app.team.channels.requests import RequestView, UnansweredRequest
    from parley.surfaces.http.http1.message import Response


def _status(view: RequestView) -> RequestInfo:
    return fill_record(
        RequestInfo,
        view.request,
        state=view.phase,
        withdrawn_at=view.state.withdrawn_at if view.state is not None else "",
        answers=[answer.id for answer in view.answers],
        parts=view.parts,
        forwards=[fill_record(RequestForward, forwarding) for forwarding in view.state.forwards] if view.state else [],
    )


async def list_unanswered(call: Call) -> Response:
    query = call.query
    states = {*filter(None, query.get("state", _WAITING).split(","))} or {_WAITING}
    if not states <= {_WAITING, _LATE}:
        raise Invalid.because([Problem("invalid", "state", f"names {_WAITING}, {_LATE} or both, with a comma between")])
    wanted = _filter(call)._replace(
        waiting=_WAITING in states,
        late=_LATE in states,
        newest=call.choice("order", "oldest", "newest") == "newest",
        limit=call.whole("limit", 100, 1, call.team.limits.page),
    )
    return await json_list(
        encoded(requests.list_unanswered(call.team, call.caller, wanted, query.get("after", "")), _ask)
    )


async def count_unanswered(call: Call) -> Response:
    wanted = _filter(call)
    late = wanted._replace(waiting=False, late=True)
    return json(
        200,
        AskCount(
            waiting=await requests.count_unanswered(call.team, call.caller, wanted),
            late=await requests.count_unanswered(call.team, call.caller, late),
        ),
    )


def _filter(call: Call) -> UnansweredQuery:
    query = call.query
    return UnansweredQuery(
        call.team.at(),
        agent=query.get("agent", ""),
        channel_id=query.get("channel_id", ""),
        since=moment(query.get("since", ""), "since"),
    )


def _ask(ask: UnansweredRequest) -> Ask:
    request = ask.request
    return fill_record(
        Ask,
        request,
        message_id=request.id,
        recipients=request.recipients or (),
        forwarded_to=ask.forwarded_to,
        state=_LATE if ask.late else _WAITING,
        asked_at=request.created_at,
        until=request.expires_at,
        summary=summary_of(msgspec.json.decode(request.payload)),
    )


async def get(call: Call) -> Response:
    view = await requests.get(call.team, call.caller, call.params["channel_id"], call.params["message_id"])
    return json(200, _status(view))


async def withdraw(call: Call) -> Response:
    return await _withdraw(call, call.params["message_id"])


async def withdraw_by_key(call: Call) -> Response:
    """The client of an `ask` that is given up does not know the id of its request yet, only the key it sent."""
    for path in (ASK, MESSAGES):
        operation = operation_name("POST", path, {"channel_id": call.params["channel_id"]})
        saved = await call.team.store.saved(scope_of(call.caller, operation, call.params["key"]))
        if saved is not None and saved.message_id:
            return await _withdraw(call, saved.message_id)
    raise NotFound("no request was sent with this key")


async def _withdraw(call: Call, request_id: str) -> Response:
    caller = await sender_of(call.team, call.caller, call.query.get("sender") or None)
    return json(200, _status(await requests.withdraw(call.team, caller, call.params["channel_id"], request_id)))


async def forward(call: Call) -> Response:
    body: ForwardIn = call.body
    caller = await sender_of(call.team, call.caller, body.sender)
    message = MessageIn(
        body.payload or {}, Pattern.REQUEST, body.sender, body.to, metadata=body.metadata, lease=body.lease
    )
    draft = draft_of(message, call.team.limits, call.request.header(b"traceparent"))
    if draft.proof:
        # It would have to be over what the server adds.
        raise Invalid.because([Problem("invalid", "metadata.proof", "a request that is handed on carries no proof")])
    payload = draft.payload if body.payload is not None else b""
    draft = draft._replace(
        forwards=call.params["message_id"], payload=payload, body=None, wait_for_responders=body.wait_for_responders
    )
    return await created(call, await requests.forward(call.team, caller, call.params["channel_id"], draft))


_TAG = "messages"
_MESSAGE = "/channels/{channel_id}/messages/{message_id}"
_SENDER = (Param("sender", "The agent that sent the request; only for a key that speaks for several agents."),)
_WAITING, _LATE = "waiting", "late"
_FILTERS = (
    Param("agent", "Only requests that this agent sent or was asked."),
    Param("channel_id", "Only requests in this channel."),
    Param("since", "Only requests that were asked at this moment or later."),
)
ROUTES = (
    Route(
        "GET",
        "/asks",
        list_unanswered,
        "List the requests that wait for an answer, and those that got none in time",
        _TAG,
        {200: list[Ask]},
        scope=EVERYBODY,
        query=(
            Param("state", f"{_WAITING} (the default), {_LATE}, or both with a comma between."),
            *_FILTERS,
            Param("order", "Which come first.", choices=("oldest", "newest")),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
            Param("after", "The message id of the request after which the page starts."),
        ),
    ),
    Route(
        "GET",
        "/asks/count",
        count_unanswered,
        "Count the requests that wait for an answer, and those that got none in time",
        _TAG,
        {200: AskCount},
        scope=EVERYBODY,
        query=_FILTERS,
    ),
    Route("GET", _MESSAGE + "/request", get, "Get the state of a request", _TAG, {200: RequestInfo}, scope=EVERYBODY),
    Route(
        "DELETE",
        _MESSAGE,
        withdraw,
        "Withdraw a request that is not answered yet",
        _TAG,
        {200: RequestInfo},
        query=_SENDER,
        scope=EVERYBODY,
    ),
    Route(
        "POST",
        _MESSAGE + "/forward",
        forward,
        "Hand a request on to another agent, which answers its sender",
        _TAG,
        {201: ChannelMessage, 202: HeldMessage},
        body=ForwardIn,
        keyed=True,
        again=created_again,
        posted=posted,
        scope=EVERYBODY,
        while_suspended=True,
    ),
    Route(
        "DELETE",
        "/channels/{channel_id}/asks/{key}",
        withdraw_by_key,
        "Withdraw the request that was sent with this Idempotency-Key",
        _TAG,
        {200: RequestInfo},
        query=_SENDER,
        scope=EVERYBODY,
    ),
)
