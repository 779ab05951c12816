"""Exchanges over HTTP: list, get, close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.decisions import exchanges, transcripts
from parley.app.team.decisions.exchanges import ExchangeQuery
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.domain.exchange.exchange import Outcome
from parley.surfaces.http.listing import encoded, json_list
from parley.surfaces.http.route import EVERYBODY, READ_BY_ALL, Call, Param, Route, json
from parley.wire.api.approvals import CloseIn, exchange_of
from parley.wire.api.intents import moment
from parley.wire.api.records.rules import Exchange

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def list_page(call: Call) -> Response:
    query = call.query
    outcome, purpose = call.choice("outcome", "", *_OUTCOMES), call.choice("purpose", "", *_PURPOSES)
    level = call.choice("classification", "", *_LEVELS)
    wanted = ExchangeQuery(
        outcome=Outcome(outcome) if outcome else None,
        agent=query.get("agent", ""),
        conversation_id=query.get("conversation_id", ""),
        user=query.get("user", ""),
        org_unit=query.get("org_unit", ""),
        pair=call.pair("pair"),
        purpose=Purpose(purpose) if purpose else None,
        classification=Classification(level) if level else None,
        since=moment(query.get("since"), "since"),
        until=moment(query.get("until"), "until"),
        after=query.get("after", ""),
        before=query.get("before", ""),
        newest=call.choice("order", *_ORDERS) == "newest",
        limit=call.whole("limit", 100, 1, call.team.limits.page),
    )
    return await json_list(encoded(exchanges.list_page(call.team, call.caller, wanted), exchange_of))


async def get(call: Call) -> Response:
    exchange = await exchanges.get(call.team, call.caller, call.params["exchange_id"])
    messages = await transcripts.messages_of(call.team, call.caller, exchange)
    return json(200, exchange_of(exchange, messages))


async def close(call: Call) -> Response:
    body: CloseIn = call.body
    exchange = await exchanges.close(call.team, call.caller, call.params["exchange_id"], body.reason)
    return json(200, exchange_of(exchange))


async def _close_again(call: Call, exchange_id: str) -> Response:
    del exchange_id
    return json(200, exchange_of(await exchanges.get(call.team, call.caller, call.params["exchange_id"])))


_TAG = "exchanges"
_OUTCOMES = tuple([outcome.value for outcome in Outcome])
_PURPOSES = tuple([purpose.value for purpose in Purpose])
_LEVELS = tuple([level.value for level in Classification])
_ORDERS = ("oldest", "newest")
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
            Param("outcome", "Only exchanges with this outcome.", choices=_OUTCOMES),
            Param("agent", "Only exchanges of this agent."),
            Param("conversation_id", "Only exchanges of this conversation."),
            Param("user", "Only exchanges of an agent that acts for this person."),
            Param("org_unit", "Only exchanges of an agent in this org unit."),
            Param("pair", "Only exchanges between two agents: their names, separated by a comma."),
            Param("purpose", "Only exchanges with this purpose.", choices=_PURPOSES),
            Param("classification", "Only exchanges whose messages are at most and once of this.", choices=_LEVELS),
            Param("since", "Only exchanges that began at this time or later."),
            Param("until", "Only exchanges that began before this time."),
            Param("order", "The order of the list.", choices=_ORDERS),
            Param("after", "The id of the exchange after which the page starts."),
            Param("before", "The id of the exchange before which the page starts; newest first."),
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
