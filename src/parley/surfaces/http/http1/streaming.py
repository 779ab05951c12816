"""A streamed answer: its pieces are sent as they come, as fast as the client takes them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol, cast

from parley.surfaces.http.http1.shared import Shared, end_stream

# A stream that never waits yields to the event loop after this many pieces.
_PIECES_IN_A_ROW = 32
_LAST_CHUNK = b"0\r\n\r\n"


class StreamConnection(Protocol):
    """The connection on which a stream is sent."""

    @property
    def is_streaming(self) -> bool:
        """Whether it still sends the stream: the client is there, and nothing has ended it."""

    @property
    def is_choked(self) -> bool:
        """Whether the client takes less than it is sent, so that nothing more is written for now."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def break_off(self, error: BaseException) -> None:
        """End the connection, so that what was sent does not look complete."""


class StreamedAnswer:
    """One stream on its way to a client. `ends` says whether it ends by itself."""

    def __init__(
        self, connection: StreamConnection, shared: Shared, stream: AsyncIterator[bytes], *, chunked: bool, ends: bool
    ) -> None:
        self.ends = ends
        self._connection = connection
        self._shared = shared
        self._stream = stream
        # HTTP/1.0 knows no chunks: there a stream ends with the connection.
        self._chunked = chunked
        self._task: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None

    async def send(self, *, wanted: bool) -> None:
        """Send all of it; nothing of what is not `wanted`. The stream is closed in any case."""
        # Only now is there anything to cancel: a task cancelled before its first step would never close the stream.
        task = self._task = cast("asyncio.Task[None]", asyncio.current_task())
        connection = self._connection
        try:
            if connection.is_streaming and not self._shared.draining and wanted:
                await self._send_pieces()
        except asyncio.CancelledError as error:
            if not connection.is_streaming:
                raise
            if not self._shared.draining:
                connection.break_off(error)
                raise
            # Cancelled because the server drains: send the last chunk, so that the client knows that it is complete.
            task.uncancel()
        except Exception as error:  # noqa: BLE001  # the outermost frame
            connection.break_off(error)
        finally:
            self._task = None
            await end_stream(self._stream)
        if connection.is_streaming and self._chunked:
            connection.write(_LAST_CHUNK)

    def resume(self) -> None:
        """Go on: the client has taken what it was sent."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def cancel(self) -> None:
        """End it. It cleans up by itself and must not be cancelled twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _send_pieces(self) -> None:
        connection, chunked, in_a_row = self._connection, self._chunked, 0
        if connection.is_choked:
            await self._until_room()
        async for piece in self._stream:
            if not connection.is_streaming:
                return
            if piece:
                connection.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            if connection.is_choked:
                await self._until_room()
            if self._shared.draining:
                return
            in_a_row += 1
            if in_a_row % _PIECES_IN_A_ROW == 0:
                await asyncio.sleep(0)

    async def _until_room(self) -> None:
        self._room = self._shared.loop.create_future()
        try:
            await self._room
        finally:
            self._room = None
