"""Links to approvals over HTTP: create one, by which a person decides in a browser that has not signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.decisions import links
from parley.domain.errors.team import UnsafeMode
from parley.surfaces.http.link_pages import path_of
from parley.surfaces.http.route import EVERYBODY, Call, Route, json
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import ApprovalLink

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.surfaces.http.http1.message import Request, Response


def routes(is_private: Callable[[Request], bool]) -> tuple[Route, ...]:
    """The routes of links. `is_private`: whether nobody can read along between the client and this server."""

    async def create(call: Call) -> Response:
        if call.team.approval_links and not is_private(call.request):
            raise UnsafeMode(
                "a link would travel in the clear: this server was reached over http:// from another machine",
                hint="use https://, or its own machine; a proxy that encrypts has to set X-Forwarded-Proto",
            )
        created = await links.create(call.team, call.caller, call.params["approval_id"])
        approval_id, path = created.link.approval_id, path_of(created.secret)
        return json(201, fill_record(ApprovalLink, approval=approval_id, path=path, expires_at=created.ends_at))

    return (
        Route(
            "POST",
            "/approvals/{approval_id}/link",
            create,
            "Create a link by which you decide about a held message without signing in",
            "approvals",
            {201: ApprovalLink},
            scope=EVERYBODY,
            confidential=True,
        ),
    )
