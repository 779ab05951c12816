"""Who talks to whom, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.decisions import traffic
from parley.app.team.decisions.traffic import Grouping
from parley.surfaces.http.route import READ_BY_ALL, Call, Param, Route, json
from parley.wire.api.intents import moment
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import Traffic, TrafficPair

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response

_CHOICES = tuple(grouping.value for grouping in Grouping)
_PAIRS_MAX = 1_000


async def count(call: Call) -> Response:
    since, until = (moment(call.query.get(name, ""), name) for name in ("since", "until"))
    grouping = Grouping(call.choice("by", *_CHOICES))
    limit = call.whole("limit", _PAIRS_MAX, 1, _PAIRS_MAX)
    counted = await traffic.count(call.team, call.caller, grouping, since, until, limit)
    pairs = [fill_record(TrafficPair, pair) for pair in counted.pairs]
    return json(200, fill_record(Traffic, counted, pairs=pairs, by=counted.by.value))


ROUTES = (
    Route(
        "GET",
        "/traffic",
        count,
        "Count who talked to whom: delivered, held and denied messages",
        "messages",
        {200: Traffic},
        scope=READ_BY_ALL,
        query=(
            Param(
                "since",
                "Only messages from this moment on; without it, those of the last day. Evicted ones by whole hours.",
            ),
            Param("until", "Only messages before this moment; without it, up to now."),
            Param("by", "Whether to count by agents, by the people they act for, or by org units.", choices=_CHOICES),
            Param("limit", "The maximum number of pairs.", "integer", 1, _PAIRS_MAX),
        ),
    ),
)
