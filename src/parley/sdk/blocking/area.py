# Written by tools/gen_client.py from sdk/client/area.py. Change that, then run: make docs
"""What every area of the client builds on: send a request, and read its answer as a record."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, TypeVar

from parley.domain.errors.errors import Unavailable
from parley.domain.lookup import is_id
from parley.sdk.protocol import lookup
from parley.sdk.records import read_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.blocking.connection import Connection

R = TypeVar("R")


def name_methods(client: type[Area]) -> None:
    """Call the methods of all areas after the client: `Client.ask() missing ...`, and no area that nobody imported."""
    for area in client.__mro__:
        if issubclass(area, Area):
            for name, method in vars(area).items():
                if isinstance(method, FunctionType):
                    method.__qualname__ = f"{client.__name__}.{name}"


class Area:
    """A client's connection. Each module of this package adds the methods of one area to it."""

    connection: Connection

    def _intent_id(self, intent: str) -> str:
        """The id of an intent that is given by its id, its title or the end of its id. An id costs no request."""
        if is_id(intent, lookup.INTENT.prefix):
            return intent
        return (self.connection.run(lookup.find_intent(self.connection.session, intent))).id

    def _fetch(
        self,
        kind: type[R],
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 0.0,
    ) -> R:
        """Send a request and read its answer as a record of this kind."""
        answer = self.connection.send(
            method, *path, body=body, query=query, headers=headers, timeout=timeout, parsed=False
        )
        try:
            return read_answer(answer.content, kind)
        except Unavailable as error:
            url = self.connection.url
            raise Unavailable(f"{url} does not answer like a Parley server: {error.message}") from None

    def _tell(self, method: str, *path: str, query: Mapping[str, object] | None = None) -> None:
        """Send a request whose answer has no content."""
        self.connection.send(method, *path, query=query, parsed=False)
