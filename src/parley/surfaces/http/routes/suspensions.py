"""The kill switch over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.rules import suspension_preview, suspensions
from parley.domain.rules.suspension import Stopped
from parley.domain.times import stamp
from parley.surfaces.http.route import ADMINS, READ_BY_ADMINS, Call, Param, Route, json
from parley.wire.api.approvals import SuspensionIn, suspension_of
from parley.wire.api.channels import moment
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import Suspension, SuspensionPreview

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def list_page(call: Call) -> Response:
    return json(200, [suspension_of(stored) for stored in await suspensions.list_all(call.team, call.caller)])


async def suspend(call: Call) -> Response:
    body: SuspensionIn = call.body
    until = moment(body.until, "until")
    suspension = await suspensions.suspend(
        call.team, call.caller, body.what, body.name, body.reason, stamp(until) if until else ""
    )
    return json(201, suspension_of(suspension))


async def _suspend_again(call: Call, record_id: str) -> Response:
    del record_id
    body: SuspensionIn = call.body
    return json(201, suspension_of(await suspensions.get(call.team, call.caller, body.what, body.name)))


async def preview(call: Call) -> Response:
    what, name = _subject_of(call)
    halted = await suspension_preview.preview(call.team, call.caller, what, name)
    return json(200, fill_record(SuspensionPreview, halted))


async def lift(call: Call) -> Response:
    what, name = _subject_of(call)
    await suspensions.lift(call.team, call.caller, what, name)
    return json(200, {"status": "lifted"})


def _subject_of(call: Call) -> tuple[Stopped, str]:
    return Stopped(call.choice("what", *[kind.value for kind in Stopped])), call.query.get("name", "")


_SUBJECT = (
    Param("what", "The kind of what is suspended.", choices=tuple(kind.value for kind in Stopped)),
    Param("name", "Its name; for a pair, two names separated by a comma."),
)
_TAG = "suspensions"
ROUTES = (
    Route("GET", "/suspensions", list_page, "List suspensions", _TAG, {200: list[Suspension]}, scope=READ_BY_ADMINS),
    Route(
        "POST",
        "/suspensions",
        suspend,
        "Suspend an agent, a pair, an org unit or the tenant",
        _TAG,
        {201: Suspension},
        scope=ADMINS,
        body=SuspensionIn,
        again=_suspend_again,
    ),
    Route(
        "DELETE",
        "/suspensions",
        lift,
        "Lift a suspension",
        _TAG,
        {200: dict[str, str]},
        scope=ADMINS,
        query=_SUBJECT,
    ),
    Route(
        "GET",
        "/suspensions/preview",
        preview,
        "Preview what a suspension would halt",
        _TAG,
        {200: SuspensionPreview},
        scope=ADMINS,
        query=_SUBJECT,
    ),
)
