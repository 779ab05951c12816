"""One request of a person who signed in: what it asked for, who asks, and the API that answers the page's questions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from parley.surfaces.http.http1.message import Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import datetime

    from parley.surfaces.console.html import Html

    Run = Callable[[Request], Awaitable[Response]]

Document = dict[str, Any]
_FIELDS_MAX = 100


class ApiRefused(Exception):
    """The API refused what a page asked for."""

    def __init__(self, status: int, problem: Document) -> None:
        super().__init__(problem.get("detail", ""))
        self.status = status
        self.code: str = problem.get("code", "")
        self.detail: str = problem.get("detail", "")
        # What is wrong with each field, where that is the reason.
        self.fields: dict[str, str] = {error["field"]: error["detail"] for error in problem.get("errors", ())}


class Page(NamedTuple):
    """A page inside the frame: its title, its content, and the entry of the menu that it belongs to.

    `topics`: what of the live stream it shows. When one of them changes, or every so many seconds, the script loads the
    page again and puts its fresh parts (see `parts.fresh`) in place of the old ones.
    """

    title: str
    content: Html
    menu: str
    status: int = 200
    topics: str = ""
    every: int = 0
    # The agent through whose eyes the live stream is read.
    seat: str = ""


class Redirect(NamedTuple):
    """The address that the browser goes to instead."""

    address: str


class Visit:
    """A request, and calls of the API as the person who signed in."""

    def __init__(self, request: Request, run: Run, now: datetime, client: str = "") -> None:
        self.request = request
        self.now = now
        # The address of the browser, also behind a proxy.
        self._client = client
        self.query = fields_of(request.query)
        self._run = run
        self.who: Document = {}
        # Whether the form of this page is for the caller.
        self.has_form = False
        # Of the sign-in that this is a visit of.
        self.session_id = ""

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form that was sent."""
        return fields_of(self.request.body.decode("utf-8", "replace"))

    async def get(self, *steps: str, **query: str | int | None) -> Any:  # noqa: ANN401  # JSON
        """What the API has at this path."""
        fields = {name: value for name, value in query.items() if value not in (None, "")}
        return await self._call("GET", steps, urlencode(fields), b"")

    async def follow(self, *steps: str, **query: str) -> AsyncIterator[bytes]:
        """The pieces of a stream of the API."""
        fields = {name: value for name, value in query.items() if value}
        response = await self._run(self._request("GET", steps, urlencode(fields), b""))
        if response.stream is None:
            raise ApiRefused(response.status, json.loads(response.body))
        return response.stream

    async def post(self, *steps: str, body: Document) -> Any:  # noqa: ANN401  # JSON
        """Send this to the API."""
        return await self._call("POST", steps, "", json.dumps(body).encode())

    async def patch(self, *steps: str, body: Document) -> Any:  # noqa: ANN401  # JSON
        """Have the API change what is at this path."""
        return await self._call("PATCH", steps, "", json.dumps(body).encode())

    async def delete(self, *steps: str, **query: str) -> Any:  # noqa: ANN401  # JSON
        """Have the API delete what is at this path."""
        return await self._call("DELETE", steps, urlencode(query), b"")

    async def _call(self, method: str, steps: tuple[str, ...], query: str, body: bytes) -> Any:  # noqa: ANN401  # JSON
        response = await self._run(self._request(method, steps, query, body))
        document = json.loads(response.body)
        if response.status >= 400:
            raise ApiRefused(response.status, document)
        return document

    def _request(self, method: str, steps: tuple[str, ...], query: str, body: bytes) -> Request:
        path = "/api/v1/" + "/".join([quote(step, safe="") for step in steps])
        headers = {b"content-type": b"application/json"}
        return Request(method, path, path.encode(), query, headers, body, self._client)


def steps_of(request: Request) -> list[str]:
    """The steps of a path below /console, each decoded once: one may have a slash or a percent sign in it."""
    return [unquote(step) for step in request.raw_path.decode("ascii").split("/")[2:] if step]


def fields_of(text: str) -> dict[str, str]:
    """The fields of a query or form; the last one of a name wins, and what cannot be read is none."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        return {}
