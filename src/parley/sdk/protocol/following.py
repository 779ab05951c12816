"""Following a stream of events across breaks, without any I/O: where it stands, and what a break means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Forbidden, ParleyError
from parley.sdk.protocol.event_stream import EventParser, StreamEvent
from parley.sdk.protocol.flow import header
from parley.sdk.protocol.refusal import passes
from parley.sdk.transport.port import Broken, Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from parley.sdk.protocol.flow import ApiSession

# An idle stream says every 15 seconds that it is there.
_STREAM_SECONDS = 45.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 5.0


class Following:
    """One stream that is followed. After a break it goes on behind the last event that was dealt with.

    Until the stream was open once, what the server refuses or cannot do is raised; afterwards only what it refuses.
    `begun` says that the server is known to be there, so that it is waited for from the beginning.
    """

    def __init__(
        self,
        session: ApiSession,
        path: tuple[str, ...],
        after: str = "",
        broken: Callable[[str], None] | None = None,
        *,
        begun: bool = False,
    ) -> None:
        self.after = after
        self._session = session
        self._path = path
        self._told = broken
        self._begun = begun
        self._pause = _FIRST_PAUSE
        self._parser = EventParser()

    def request(self) -> Request:
        """What opens the stream where it stands now."""
        self._parser = EventParser()
        fields = {"last-event-id": header("last-event-id", self.after)} if self.after else None
        return self._session.request("GET", *self._path, headers=fields, timeout=_STREAM_SECONDS, streams=True)

    def opened(self, response: Response[Any]) -> None:
        """The server has answered; raises what it refuses."""
        if response.status != 200:
            self._session.answer(response)
        self._begun, self._pause = True, _FIRST_PAUSE

    def events(self, content: bytes) -> Iterator[StreamEvent]:
        """The events that end in these bytes. One counts as dealt with when the next one is asked for."""
        for event in self._parser.feed(content):
            self._pause = _FIRST_PAUSE
            if event.name == "revoked":
                raise Forbidden("you may no longer follow this", hint="was the key revoked, or the access taken back?")
            if event.name:
                yield event
            self.after = event.id or self.after

    def broke(self, error: ParleyError | Broken | None) -> float:
        """How long to wait before the next try; raises when there is to be none. None: the server ended the stream."""
        if isinstance(error, Broken):
            error = self._session.connection_error(error, arrived=error.arrived)
        if error is not None and not (self._begun and passes(error)):
            raise self._session.with_hint(error) from None
        if self._told is not None:
            self._told(error.message if error is not None else "the server ended the stream")
        rest = error.facts.get("retry_after") if error is not None else None
        pause = max(self._pause, min(float(rest), 60.0)) if isinstance(rest, int) else self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return pause
