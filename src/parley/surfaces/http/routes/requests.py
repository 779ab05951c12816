"""Requests over HTTP: where one stands, withdrawing it, and handing it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.channels import requests
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.message.message import Pattern
from parley.surfaces.entrance.authentication import sender_of
from parley.surfaces.entrance.idempotency import scope_of
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json
from parley.surfaces.http.routes.messages import created, created_again
from parley.wire.api.channels import ForwardIn, MessageIn, draft_of
from parley.wire.api.records.channels import ChannelMessage, RequestForward, RequestInfo
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import HeldMessage

if TYPE_CHECKING:
    from parley.app.team.channels.requests import RequestView
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


async def get(call: Call) -> Response:
    view = await requests.get(call.team, call.caller, call.params["channel_id"], call.params["message_id"])
    return json(200, _status(view))


async def withdraw(call: Call) -> Response:
    return await _withdraw(call, call.params["message_id"])


async def withdraw_by_key(call: Call) -> Response:
    """The client of an `ask` that is given up does not know the id of its request yet, only the key it sent."""
    key, path = call.params["key"], call.request.path.rpartition("/asks/")[0]
    for operation in ("ask", "messages"):
        saved = await call.team.store.saved(scope_of(call.caller, f"POST\n{path}/{operation}", key))
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
    draft = draft._replace(forwards=call.params["message_id"], payload=payload, body=None)
    return await created(call, await requests.forward(call.team, caller, call.params["channel_id"], draft))


_TAG = "messages"
_MESSAGE = "/channels/{channel_id}/messages/{message_id}"
_SENDER = (Param("sender", "The agent that sent the request; only for a key that speaks for several agents."),)
ROUTES = (
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
