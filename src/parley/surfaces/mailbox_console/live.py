"""Tells an open page that a mailbox has changed. The page loads itself again then: what it shows is its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.mailbox.overview import ProjectReader
    from parley.surfaces.console.live import OpenStreams

_LOOK_SECONDS = 0.5
# A sign of life for the browser, counted in looks.
_LOOKS_BETWEEN_SIGNS = 30
_BEGIN = b": open\n\n"
_CHANGED = b"event: changed\ndata: {}\n\n"
_RETRY = b"retry: 5000\n\n"
# All pages of this console are one person's.
_READER = "reader"

Pulses = tuple[tuple[str, tuple[int, int]], ...]


class ChangeStream:
    """The stream of one open page. A browser opens six connections: the fifth stream ends at once, and asks again."""

    def __init__(self, project: ProjectReader, streams: OpenStreams) -> None:
        self._project = project
        self._streams = streams
        self._is_counted = streams.enter(_READER)
        self._is_ended = False
        self._pulses: Pulses | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._is_ended:
            raise StopAsyncIteration
        if not self._is_counted:
            self._is_ended = True
            return _CHANGED + _RETRY
        if self._pulses is None:
            self._pulses = self._look()
            return _BEGIN
        for _ in range(_LOOKS_BETWEEN_SIGNS):
            await asyncio.sleep(_LOOK_SECONDS)
            pulses = self._look()
            if pulses != self._pulses:
                self._pulses = pulses
                return _CHANGED
        return _BEGIN

    def _look(self) -> Pulses:
        try:
            return tuple([(reader.agent, reader.pulse()) for reader in self._project.readers()])
        except ParleyError:
            return ()  # the page that loads itself again says why

    async def aclose(self) -> None:
        """Count it no more."""
        self._is_ended = True
        if self._is_counted:
            self._is_counted = False
            self._streams.leave(_READER)
