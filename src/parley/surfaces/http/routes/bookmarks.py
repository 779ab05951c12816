"""An agent's bookmarks over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.channels import bookmarks
from parley.app.team.channels.bookmarks import SavedPosition
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import Call, Route, json
from parley.wire.api.bookmarks import BookmarkIn, BookmarkOpenIn, bookmark_of
from parley.wire.api.records.directory import Bookmark

if TYPE_CHECKING:
    from parley.app.team.channels.bookmarks import BookmarkWithHead


def _response(placed: BookmarkWithHead) -> Response:
    return json(200, bookmark_of(placed.bookmark, placed.head))


def _which(call: Call) -> tuple[str, str]:
    return call.params["agent_id"], call.params["name"]


async def open_(call: Call) -> Response:
    body: BookmarkOpenIn = call.body
    agent_id, name = _which(call)
    placed = await bookmarks.open_(
        call.team,
        call.caller,
        agent_id,
        name,
        body.start,
        body.process,
        unless_active=body.unless_active,
        replaces=body.replaces,
    )
    return _response(placed)


async def _open_again(call: Call, holder: str) -> Response:
    return _response(await bookmarks.get_as_holder(call.team, call.caller, *_which(call), holder))


async def save(call: Call) -> Response:
    body: BookmarkIn = call.body
    agent_id, name = _which(call)
    mark = SavedPosition(body.position, tuple(body.open), tuple(body.started), body.close)
    return _response(await bookmarks.save(call.team, call.caller, agent_id, name, body.holder, mark))


async def get(call: Call) -> Response:
    return _response(await bookmarks.get(call.team, call.caller, *_which(call)))


async def delete(call: Call) -> Response:
    await bookmarks.delete(call.team, call.caller, *_which(call))
    return Response(204)


_TAG = "agents"
_ONE = "/agents/{agent_id}/bookmarks/{name}"
ROUTES = (
    Route(
        "POST",
        f"{_ONE}/open",
        open_,
        "Claim an agent's bookmark (its read position)",
        _TAG,
        {200: Bookmark},
        body=BookmarkOpenIn,
        body_optional=True,
        again=_open_again,
    ),
    Route("PUT", _ONE, save, "Save an agent's bookmark", _TAG, {200: Bookmark}, body=BookmarkIn),
    Route("GET", _ONE, get, "Get an agent's bookmark", _TAG, {200: Bookmark}),
    Route("DELETE", _ONE, delete, "Delete an agent's bookmark", _TAG, {204: None}),
)
