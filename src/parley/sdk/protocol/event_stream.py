"""Server-sent events, from bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 8 * 1024 * 1024


class StreamEvent(NamedTuple):
    """One event. Without a name it carries nothing but its id: how far the stream has come."""

    id: str
    name: str
    data: str


class EventParser:
    """Takes bytes as they come and gives the events that are complete. A line ends with a line feed."""

    def __init__(self) -> None:
        self._rest = b""
        self._id = ""
        self._name = ""
        self._data: list[str] = []
        self._data_bytes = 0
        self.retry_seconds = 1.0

    def feed(self, content: bytes) -> Iterator[StreamEvent]:
        """The events that end in `content`."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > _LONGEST:
            raise Unavailable("the server sent an event without end")
        for line in lines:
            if line.rstrip(b"\r"):
                if line.startswith(b"data"):
                    self._data_bytes += len(line)
                if self._data_bytes > _LONGEST:
                    raise Unavailable("the server sent an event without end")
                self._take(line.rstrip(b"\r").decode("utf-8", "replace"))
            elif self._data or self._id:
                yield StreamEvent(self._id, self._name or "message" if self._data else "", "\n".join(self._data))
                self._id, self._name, self._data, self._data_bytes = "", "", [], 0

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id":
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry_seconds = min(int(value) / 1000, 60.0)
