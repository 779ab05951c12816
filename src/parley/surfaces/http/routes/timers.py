"""Timers over HTTP: messages that are posted later."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from parley.app.team.channels import timers
from parley.domain.errors.errors import Invalid, Problem
from parley.surfaces.entrance.authentication import sender_of
from parley.surfaces.entrance.proofs import check_proof
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.listing import json_list
from parley.surfaces.http.route import EVERYBODY, Call, Route, encode, json
from parley.wire.api import channels as rfc0021
from parley.wire.api.channels import TimerIn, timer_of
from parley.wire.api.records.channels import Timer

if TYPE_CHECKING:
    from datetime import datetime


async def schedule(call: Call) -> Response:
    body: TimerIn = call.body
    caller = await sender_of(call.team, call.caller, body.sender)
    channel_id = call.params["channel_id"]
    draft = rfc0021.draft_of(body, call.team.limits, call.request.header(b"traceparent"))
    await check_proof(call.team, caller, channel_id, body, draft)
    timer = await timers.schedule(call.team, caller, channel_id, draft, _moment(call, body))
    return json(201, timer_of(timer))


def _moment(call: Call, body: TimerIn) -> datetime:
    at = rfc0021.moment(body.deliver_at, "deliver_at")
    if (at is None) == (body.after_seconds is None):
        raise Invalid.because([Problem("required", "deliver_at", "give deliver_at or after_seconds, one of them")])
    return at if at is not None else call.team.now() + timedelta(seconds=body.after_seconds or 0)


async def list_page(call: Call) -> Response:
    return await json_list(encode(timer_of(timer)) async for timer in timers.list_page(call.team, call.caller))


async def get(call: Call) -> Response:
    return json(200, timer_of(await timers.get(call.team, call.caller, call.params["timer_id"])))


async def cancel(call: Call) -> Response:
    await timers.cancel(call.team, call.caller, call.params["timer_id"])
    return Response(204, b"")


_TAG = "timers"
_ONE = "/timers/{timer_id}"
ROUTES = (
    Route(
        "POST",
        "/channels/{channel_id}/timers",
        schedule,
        "Post a message later",
        _TAG,
        {201: Timer},
        body=TimerIn,
        written=timer_of,
        scope=EVERYBODY,
    ),
    Route("GET", "/timers", list_page, "List your timers", _TAG, {200: list[Timer]}, scope=EVERYBODY),
    Route("GET", _ONE, get, "Get a timer", _TAG, {200: Timer}, scope=EVERYBODY),
    Route("DELETE", _ONE, cancel, "Cancel a timer", _TAG, {204: None}, scope=EVERYBODY),
)
