"""Requests over HTTP: where one stands, and withdrawing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.channels import requests
from parley.domain.errors.errors import NotFound
from parley.surfaces.entrance.authentication import sender_of
from parley.surfaces.entrance.idempotency import scope_of
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json
from parley.wire.api.records.channels import RequestInfo
from parley.wire.api.records.record import fill_record

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
