"""Sign-ins of browsers over HTTP: list, end, and links that sign in once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory import sessions
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json
from parley.wire.api.records.directory import EndedSessions, LoginLink, LoginSession
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def list_page(call: Call) -> Response:
    limit = call.whole("limit", 100, 1, call.team.limits.page)
    page = await sessions.list_page(call.team, call.caller, after=call.query.get("after", ""), limit=limit)
    return json(200, [fill_record(LoginSession, session) for session in page])


async def end(call: Call) -> Response:
    session = await sessions.end(call.team, call.caller, call.params["session_id"])
    return json(200, fill_record(LoginSession, session))


async def end_all(call: Call) -> Response:
    return json(200, EndedSessions(ended=await sessions.end_all(call.team, call.caller)))


async def create_link(call: Call) -> Response:
    link = await sessions.issue_link(call.team, call.caller)
    return json(201, LoginLink(once=link.secret, expires_at=link.expires_at))


_TAG = "sessions"
ROUTES = (
    Route(
        "GET",
        "/sessions",
        list_page,
        "List your sign-ins; an admin lists those of the tenant",
        _TAG,
        {200: list[LoginSession]},
        scope=EVERYBODY,
        query=(
            Param("after", "The id of the sign-in after which the page starts."),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
        ),
    ),
    Route("DELETE", "/sessions", end_all, "End all your own sign-ins", _TAG, {200: EndedSessions}, scope=EVERYBODY),
    Route(
        "DELETE",
        "/sessions/{session_id}",
        end,
        "End a sign-in",
        _TAG,
        {200: LoginSession},
        scope=EVERYBODY,
    ),
    Route(
        "POST",
        "/sessions/once",
        create_link,
        "Create a secret with which a browser signs in once, within ten minutes",
        _TAG,
        {201: LoginLink},
        scope=EVERYBODY,
        confidential=True,
    ),
)
