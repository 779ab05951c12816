"""Exchanges over HTTP: list, show, close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.decisions import exchanges
from parley.app.team.decisions.exchanges import Wanted
from parley.domain.exchange.exchange import Outcome
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json
from parley.wire.api.approvals import CloseIn, exchange_of
from parley.wire.api.records.rules import Exchange

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def listed(call: Call) -> Response:
    query = call.query
    outcome = call.choice("outcome", "", *[one.value for one in Outcome])
    wanted = Wanted(
        Outcome(outcome) if outcome else None,
        query.get("agent", ""),
        query.get("conversation_id", ""),
        query.get("after", ""),
        call.whole("limit", 100, 1, call.team.limits.page),
    )
    found = await exchanges.list_page(call.team, call.caller, wanted)
    return json(200, [exchange_of(exchange) for exchange in found])


async def show(call: Call) -> Response:
    found = await exchanges.get(call.team, call.caller, call.params["exchange_id"])
    return json(200, exchange_of(found))


async def close(call: Call) -> Response:
    given: CloseIn = call.body
    found = await exchanges.close(call.team, call.caller, call.params["exchange_id"], given.reason)
    return json(200, exchange_of(found))


_TAG = "exchanges"
ROUTES = (
    Route(
        "GET",
        "/exchanges",
        listed,
        "List exchanges",
        _TAG,
        {200: list[Exchange]},
        scope=EVERYBODY,
        query=(
            Param("outcome", "Only those that stand so.", choices=tuple(one.value for one in Outcome)),
            Param("agent", "Only those that this agent is part of."),
            Param("conversation_id", "Only those of this conversation."),
            Param("after", "The id of an exchange: what comes after it."),
            Param("limit", "At most so many.", "integer", 1, 1000),
        ),
    ),
    Route("GET", "/exchanges/{exchange_id}", show, "Get an exchange", _TAG, {200: Exchange}, scope=EVERYBODY),
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
    ),
)
