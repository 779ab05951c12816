"""Make a PNG of a page small: at most 256 colours, one byte a pixel. Text stays sharp, and only zlib is needed."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB, _RGBA, _PALETTE = 2, 6, 3
_COLOURS_MAX = 256

Colour = tuple[int, int, int]


def as_palette(png: bytes) -> bytes:
    """The same picture with its most frequent colours; any other becomes the nearest of them."""
    return _encode(_read(png))


def side_by_side(pngs: list[bytes], gap: int, ground: Colour) -> bytes:
    """One picture of several, with so many pixels of a ground between and below them."""
    pictures = [_read(png) for png in pngs]
    between = [ground] * gap
    rows: list[list[Colour]] = []
    for place in range(max(len(picture) for picture in pictures)):
        row: list[Colour] = []
        for picture in pictures:
            row += between if row else []
            row += picture[place] if place < len(picture) else [ground] * len(picture[0])
        rows.append(row)
    return _encode(rows)


def with_margin(png: bytes, margin: int, ground: Colour) -> bytes:
    """A picture with so many pixels of a ground around it."""
    rows = _read(png)
    empty = [[ground] * (len(rows[0]) + 2 * margin)] * margin
    side = [ground] * margin
    return _encode([*empty, *[side + row + side for row in rows], *empty])


def _encode(rows: list[list[Colour]]) -> bytes:
    counts: Counter[Colour] = Counter()
    for row in rows:
        counts.update(row)
    # Of equally frequent ones the darker first, so that the same picture gives the same bytes.
    palette = sorted(sorted(counts, key=lambda colour: (-counts[colour], colour))[:_COLOURS_MAX])
    index = {colour: place for place, colour in enumerate(palette)}
    for colour in counts:
        if colour not in index:
            index[colour] = min(range(len(palette)), key=lambda place: _distance(colour, palette[place]))
    data = b"".join([b"\0" + bytes([index[pixel] for pixel in row]) for row in rows])
    return b"".join(
        [
            _SIGNATURE,
            encode_chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, _PALETTE, 0, 0, 0)),
            encode_chunk(b"PLTE", bytes([value for colour in palette for value in colour])),
            encode_chunk(b"IDAT", zlib.compress(data, 9)),
            encode_chunk(b"IEND", b""),
        ]
    )


def _distance(colour: Colour, other: Colour) -> int:
    return sum((value - near) ** 2 for value, near in zip(colour, other, strict=True))


def encode_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def read_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(_SIGNATURE)
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        place += length + 12


def _read(png: bytes) -> list[list[Colour]]:
    """The rows of a picture in eight bits a colour, without transparency."""
    chunks = list(read_chunks(png))
    width, _, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in (_RGB, _RGBA) or interlaced:
        raise ValueError("a PNG as Chromium takes it was expected")
    pixel_bytes = 3 if kind == _RGB else 4
    raw = zlib.decompress(b"".join([data for name, data in chunks if name == b"IDAT"]))
    step = width * pixel_bytes + 1
    before = bytearray(step - 1)
    rows = []
    for start in range(0, len(raw), step):
        before = _unfiltered(raw[start], bytearray(raw[start + 1 : start + step]), before, pixel_bytes)
        rows.append(list(zip(before[0::pixel_bytes], before[1::pixel_bytes], before[2::pixel_bytes], strict=True)))
    return rows


def _unfiltered(kind: int, row: bytearray, above: bytearray, step: int) -> bytearray:
    """A row without the filter that its first byte names: none, left, above, their mean, or Paeth's choice."""
    if kind == 0:
        return row
    for place, value in enumerate(row):
        left = row[place - step] if place >= step else 0
        up = above[place]
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) >> 1
        else:
            corner = above[place - step] if place >= step else 0
            to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
            guess = left if to_left <= to_up and to_left <= to_corner else up if to_up <= to_corner else corner
        row[place] = (value + guess) & 255
    return row
