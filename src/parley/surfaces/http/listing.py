"""Lists of any length as JSON: a short one is one body, a long one is sent piece by piece as it is read.

What the server holds of a list is bounded, however long it is and however slowly it is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")

# A list up to this size is sent as one body; a longer one in pieces of about this size.
PIECE_BYTES = 256 * 1024


async def encoded(items: AsyncIterable[T], record_of: Callable[[T], object]) -> AsyncIterator[bytes]:
    """Each item as the JSON of its record."""
    async for item in items:
        yield encode(record_of(item))


async def each(items: Iterable[T]) -> AsyncIterator[T]:
    """Items that are here already, as those that have to be waited for."""
    for item in items:
        yield item


async def json_list(
    items: AsyncIterator[bytes],
    *,
    opening: bytes = b"[",
    closing: bytes = b"]",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Response:
    """Items that are JSON already, as a list. What goes wrong before the first piece is full is raised here."""
    pieces = _pieces(items, opening, closing)
    first = await anext(pieces)
    if len(first) < PIECE_BYTES:
        # Then it is the whole, whether or not the generator was asked for more.
        return Response(200, first, headers=headers)
    return Response(200, headers=headers, stream=_with_first(first, pieces), ends=True)


async def _pieces(items: AsyncIterator[bytes], opening: bytes, closing: bytes) -> AsyncIterator[bytes]:
    piece, size, separator = [opening], len(opening), b""
    async for item in items:
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
        piece += (separator, item)
        size += len(item) + 1
        separator = b","
    piece.append(closing)
    yield b"".join(piece)


async def _with_first(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece
