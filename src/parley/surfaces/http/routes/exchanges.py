"""Exchanges over HTTP: list, get, close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.decisions import exchanges
from parley.app.team.decisions.exchanges import ExchangeQuery
from parley.domain.exchange.exchange import Outcome
from parley.surfaces.http.listing import encoded, json_list
from parley.surfaces.http.route import EVERYBODY, READ_BY_ALL, Call, Param, Route, json
from parley.wire.api.approvals import CloseIn, exchange_of
from parley.wire.api.records.rules import Exchange

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def list_page(call: Call) -> Response:
    query = call.query
    outcome = call.choice("outcome", "", *[choice.value for choice in Outcome])
    wanted = ExchangeQuery(
        Outcome(outcome) if outcome else None,
        query.get("agent", ""),
        query.get("conversation_id", ""),
        query.get("after", ""),
        call.whole("limit", 100, 1, call.team.limits.page),
    )
    return await json_list(encoded(exchanges.list_page(call.team, call.caller, wanted), exchange_of))


async def get(call: Call) -> Response:
    exchange = await exchanges.get(call.team, call.caller, call.params["exchange_id"])
    return json(200, exchange_of(exchange))


async def close(call: Call) -> Response:
    body: CloseIn = call.body
    exchange = await exchanges.close(call.team, call.caller, call.params["exchange_id"], body.reason)
    return json(200, exchange_of(exchange))


async def _close_again(call: Call, exchange_id: str) -> Response:
    del exchange_id
    return await get(call)


_TAG = "exchanges"
ROUTES = (
    Route(
        "GET",
        "/exchanges",
        list_page,
        "List exchanges",
        _TAG,
        {200: list[Exchange]},
        scope=READ_BY_ALL,
        query=(
            Param("outcome", "Only exchanges with this outcome.", choices=tuple(outcome.value for outcome in Outcome)),
            Param("agent", "Only exchanges of this agent."),
            Param("conversation_id", "Only exchanges of this conversation."),
            Param("after", "The id of the exchange after which the page starts."),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
        ),
    ),
    Route("GET", "/exchanges/{exchange_id}", get, "Get an exchange", _TAG, {200: Exchange}, scope=READ_BY_ALL),
    Route(
        "POST",
        "/exchanges/{exchange_id}/close",
        close,
        "Close an exchange",
        _TAG,
        {200: Exchange},
        scope=EVERYBODY,
        body=CloseIn,
        body_optional=True,
        again=_close_again,
        unsaved=True,
    ),
)
