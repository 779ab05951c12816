"""Follow a stream of events across disconnects, without any I/O: its cursor, and when to reconnect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Forbidden, ParleyError
from parley.sdk.protocol.event_stream import EventParser, StreamEvent
from parley.sdk.protocol.flow import header
from parley.sdk.protocol.refusal import is_temporary
from parley.sdk.transport.port import Broken, Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from parley.sdk.protocol.flow import ApiSession

# The server sends a ping every 15 seconds.
_SILENCE_SECONDS = 45.0
_PAUSE_MIN = 1.0
_PAUSE_MAX = 5.0


class Following:
    """A stream and its cursor. After a disconnect it continues after the last event that was processed.

    Until the stream was open once, a server that cannot be reached is waited for as long as the session's patience
    lasts; afterwards, or with `begun`, for ever. What the server refuses is raised. `broken` is called with the reason
    of each disconnect, `back` when the stream is open again.
    """

    def __init__(
        self,
        session: ApiSession,
        path: tuple[str, ...],
        after: str = "",
        broken: Callable[[str], None] | None = None,
        *,
        begun: bool = False,
        back: Callable[[], None] | None = None,
        query: Mapping[str, object] | None = None,
    ) -> None:
        self.after = after
        self._session = session
        self._path = path
        self._query = query
        self._on_disconnect = broken
        self._back = back
        self._begun = begun
        self._interrupted = False
        self._waited = 0.0
        self._pause = _PAUSE_MIN
        self._parser = EventParser()

    def request(self) -> Request:
        """The request that opens the stream after the cursor."""
        self._parser = EventParser()
        fields = {"last-event-id": header("last-event-id", self.after)} if self.after else None
        return self._session.request(
            "GET", *self._path, query=self._query, headers=fields, timeout=_SILENCE_SECONDS, streams=True
        )

    def opened(self, response: Response[Any]) -> None:
        """Note that the server has answered; a refusal is raised."""
        if response.status != 200:
            self._session.answer(response)
        self._begun, self._pause = True, _PAUSE_MIN
        if self._interrupted and self._back is not None:
            self._back()
        self._interrupted = False

    def events(self, content: bytes) -> Iterator[StreamEvent]:
        """The events that these bytes complete. An event counts as processed when the next one is requested."""
        for event in self._parser.feed(content):
            self._pause = _PAUSE_MIN
            if event.name == "revoked":
                raise Forbidden("you may no longer follow this", hint="was the key revoked, or the access taken back?")
            if event.name:
                yield event
            self.after = event.id or self.after

    def disconnected(self, error: ParleyError | Broken | None) -> float:
        """Seconds until the next try, after an error or (None) the end of the stream; an error that no retry helps is
        raised.
        """
        if isinstance(error, Broken):
            error = self._session.connection_error(error, arrived=error.arrived)
        if error is not None and not (
            is_temporary(error) and (self._begun or self._waited + self._pause <= self._session.opening_patience)
        ):
            raise self._session.with_hint(error) from None
        self._interrupted = True
        if self._on_disconnect is not None:
            self._on_disconnect(error.message if error is not None else "the server ended the stream")
        retry_after = error.facts.get("retry_after") if error is not None else None
        pause = max(self._pause, min(float(retry_after), 60.0)) if isinstance(retry_after, int) else self._pause
        self._pause = min(self._pause * 2, _PAUSE_MAX)
        self._waited += pause
        return pause
