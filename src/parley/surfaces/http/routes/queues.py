"""Queues over HTTP: claim jobs, keep them, end them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimWish
from parley.surfaces.http.route import Call, Route, json
from parley.surfaces.http.routes.streams import name_and_data
from parley.wire.api.queues import ClaimIn, ClaimPatch, claimed_of
from parley.wire.api.records.queues import ClaimedJob, Job
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.app.team.queues.claims import ClaimedItem
    from parley.surfaces.http.http1.message import Response


def _claimed(items: Iterable[ClaimedItem]) -> Response:
    return json(200, [claimed_of(item.job, *name_and_data(item.item)) for item in items])


async def claim(call: Call) -> Response:
    body: ClaimIn = call.body
    wish = ClaimWish(body.max, body.lease_seconds, body.wait)
    return _claimed(await claims.claim(call.team, call.caller, call.params["agent_id"], wish))


async def _claimed_again(call: Call, created: str) -> Response:
    return _claimed(await claims.claimed_again(call.team, call.caller, call.params["agent_id"], created))


async def change(call: Call) -> Response:
    body: ClaimPatch = call.body
    which = (call.team, call.caller, call.params["agent_id"], call.params["job_id"], body.lease)
    if body.status == "done":
        job = await claims.finish(*which)
    elif body.status == "released":
        job = await claims.release(*which)
    elif body.status == "failed":
        job = await claims.fail(*which, body.error, body.retry_in)
    else:
        job = await claims.extend(*which, body.lease_seconds)
    return json(200, fill_record(Job, job))


_TAG = "queues"
_CLAIMS = "/agents/{agent_id}/claims"
ROUTES = (
    Route(
        "POST",
        _CLAIMS,
        claim,
        "Claim jobs for an agent",
        _TAG,
        {200: list[ClaimedJob]},
        body=ClaimIn,
        body_optional=True,
        keyed=True,
        again=_claimed_again,
        unsaved=True,
    ),
    Route(
        "PATCH",
        f"{_CLAIMS}/{{job_id}}",
        change,
        "Extend, finish, fail or release a claimed job",
        _TAG,
        {200: Job},
        body=ClaimPatch,
    ),
)
