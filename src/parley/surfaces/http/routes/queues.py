"""Queues over HTTP: claim jobs, keep them, end them; dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.queues import claims, dead
from parley.app.team.queues.claims import ClaimWish
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.listing import json_list
from parley.surfaces.http.route import Call, Param, Route, encode, json
from parley.surfaces.http.routes.streams import name_and_data
from parley.wire.api.queues import ClaimIn, ClaimPatch, DeadLetterIn, claimed_of, letter_of
from parley.wire.api.records.queues import ClaimedJob, DeadLetter, Job, QueueCounts
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.app.team.queues.claims import ClaimedItem
    from parley.domain.channel.job import Job as StoredJob


def _claimed(items: Iterable[ClaimedItem]) -> Response:
    return json(200, [claimed_of(item.job, *name_and_data(item.item)) for item in items])


async def claim(call: Call) -> Response:
    body: ClaimIn = call.body
    done = {job.id: job.lease for job in body.done}
    wish = ClaimWish(
        body.max, body.lease_seconds, body.wait, body.shared, body.start, body.process, body.intent_id, done
    )
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
    return json(200, _job(job))


def _job(stored: StoredJob) -> Job:
    return fill_record(Job, stored)


async def report_dead(call: Call) -> Response:
    body: DeadLetterIn = call.body
    failure = (body.position, body.error, body.attempts)
    return json(201, _job(await dead.report(call.team, call.caller, call.params["agent_id"], *failure)))


async def list_dead(call: Call) -> Response:
    limit = call.whole("limit", 100, 1, call.team.limits.page)
    query = (call.query.get("queue", ""), call.query.get("after", ""), limit)
    letters = dead.list_page(call.team, call.caller, *query)
    return await json_list(encode(letter_of(letter.job, letter.post, call.team.at())) async for letter in letters)


async def get_dead(call: Call) -> Response:
    letter = await dead.get(call.team, call.caller, call.params["job_id"])
    return json(200, letter_of(letter.job, letter.post, call.team.at()))


async def retry_dead(call: Call) -> Response:
    return json(200, _job(await dead.retry(call.team, call.caller, call.params["job_id"])))


async def drop_dead(call: Call) -> Response:
    await dead.drop(call.team, call.caller, call.params["job_id"])
    return Response(204)


async def count(call: Call) -> Response:
    counts = await dead.count(call.team, call.caller)
    return json(200, [QueueCounts(queue=queue, **states) for queue, states in counts.items()])


_TAG = "queues"
_DEAD = "/dead/{job_id}"
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
        ends_with_client=True,
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
    Route("GET", "/queues", count, "Count the jobs of each queue", _TAG, {200: list[QueueCounts]}),
    Route(
        "GET",
        "/dead",
        list_dead,
        "List dead letters",
        _TAG,
        {200: list[DeadLetter]},
        query=(
            Param("queue", "Only those of this queue: any:ROLE, or an agent."),
            Param("after", "Only those after this id."),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
        ),
    ),
    Route("GET", _DEAD, get_dead, "Get a dead letter", _TAG, {200: DeadLetter}),
    Route(
        "POST", f"{_DEAD}/retry", retry_dead, "Put a dead letter back into its queue", _TAG, {200: Job}, written=_job
    ),
    Route("DELETE", _DEAD, drop_dead, "Drop a dead letter", _TAG, {204: None}),
    Route(
        "POST",
        "/agents/{agent_id}/dead",
        report_dead,
        "Report what an agent could not deal with",
        _TAG,
        {201: Job},
        body=DeadLetterIn,
        written=_job,
    ),
)
