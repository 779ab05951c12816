"""What both clients are made of: reading an answer as a record, and running a flow their own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from parley.domain.errors.errors import Invalid, Unavailable
from parley.domain.times import stamp
from parley.sdk.records.channels import read
from parley.sdk.transport.port import Broken

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from parley.sdk.protocol.connection import AsyncConnection, Connection
    from parley.sdk.protocol.flow import Flow, Speaker
    from parley.sdk.transport.port import Response

    # A time: with its zone, or as RFC 3339 has it.
    Moment: TypeAlias = datetime | str

R = TypeVar("R")
T = TypeVar("T")

NOTHING: Mapping[str, Any] = {}


class Session:
    """A blocking client's connection; the areas in this folder add their methods to it."""

    connection: Connection

    @property
    def _speaker(self) -> Speaker:
        return self.connection.speaker

    def _run(self, flow: Flow[T]) -> T:
        return self.connection.run(flow)


class AsyncSession:
    """An asynchronous client's connection; the areas in this folder add their methods to it."""

    connection: AsyncConnection

    @property
    def _speaker(self) -> Speaker:
        return self.connection.speaker

    async def _run(self, flow: Flow[T]) -> T:
        return await self.connection.run(flow)


def fetch(
    speaker: Speaker,
    kind: type[R],
    method: str,
    *path: str,
    body: object = None,
    query: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 0.0,
) -> Flow[R]:
    """Send a request and read its answer as a record of this kind."""
    answer = yield from speaker.send(
        method, *path, body=body, query=query, headers=headers, timeout=timeout, parsed=False
    )
    try:
        return read(answer.content, kind)
    except Unavailable as error:
        raise Unavailable(f"{speaker.url} does not answer like a Parley server: {error.message}") from None


def tell(
    speaker: Speaker, method: str, *path: str, body: object = None, query: Mapping[str, object] | None = None
) -> Flow[None]:
    """Send a request whose answer says no more than that it was carried out."""
    yield from speaker.send(method, *path, body=body, query=query, parsed=False)


def fetch_bare(speaker: Speaker, kind: type[R], path: str) -> Flow[R]:
    """Read a document that is not below the API's own path, in one try: whoever asks wants to know how it is now."""
    request = speaker.request("GET")._replace(target=f"{speaker.place.prefix}{path}")
    try:
        response: Response[Any] = yield request
    except Broken as broken:
        raise speaker.with_hint(speaker.lost(broken, arrived=broken.arrived)) from None
    return read(speaker.answer(response, parsed=False).content, kind)


def given(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  # whatever JSON holds
    """The fields that were given, for a body or query whose other fields have defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def spelled(moment: Moment | None) -> str | None:
    """A time as the server reads it."""
    if moment is None or isinstance(moment, str):
        return moment
    if moment.tzinfo is None:
        raise Invalid(f"{moment} has no time zone", hint="use datetime.now(UTC)")
    return stamp(moment)


def for_version(version: int | None) -> dict[str, str]:
    """The header that says which version a change is for; without one it is for whatever is there."""
    return {"if-match": "*" if version is None else f'"{version}"'}
