"""The tour of the console: a picture of every page, taken from a real server by a script that still works."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest

from parley.surfaces.console.routes import ROUTES
from tests.docs.snippets import ROOT
from tests.rigs.browser import needs_browser
from tools.palette import as_palette, encode_chunk, read_chunks, side_by_side, with_margin
from tools.record_console import OTHER_VIEWS, PAPER, PICTURES, SHEET_SUFFIX, SHOTS, WIDTH, WITHOUT_PICTURE, save

TOUR = ROOT / "docs" / "tutorial" / "tour-of-the-console.md"
VIEWS = ROOT / "docs" / "explanation" / "views-of-the-console.md"
# Before one has signed in, there is no page of a menu.
SIGN_IN = ("login",)
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+/console/[^)\s]+\.png)\)")
MAX_BYTES, MAX_BYTES_OF_ALL = 120_000, 3_000_000


def size_of(picture: Path) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", picture.read_bytes(), 16)
    return width, height


def test_every_page_of_the_console_has_a_picture_or_needs_none() -> None:
    pages = {route.steps for route in ROUTES if route.show is not None}

    assert {shot.steps for shot in SHOTS} - {SIGN_IN} | WITHOUT_PICTURE == pages, "add it to tools/record_console.py"
    assert not {shot.steps for shot in SHOTS} & WITHOUT_PICTURE


def test_the_tour_shows_every_picture_with_its_words() -> None:
    tour, views = [PICTURE.findall(page.read_text(encoding="utf-8")) for page in (TOUR, VIEWS)]

    assert sorted(path for _, path in tour) == sorted(f"../pictures/console/{shot.name}.png" for shot in SHOTS)
    sheets = [f"{shot.name}{SHEET_SUFFIX}" for shot in SHOTS]
    assert sorted(path for _, path in views) == sorted(f"../pictures/console/{name}.png" for name in [*sheets, PAPER])
    assert [path for words, path in [*tour, *views] if len(words) < 20] == []
    ((_, first),) = PICTURE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert (ROOT / first).is_file()


def test_the_pictures_are_those_of_the_script_and_small() -> None:
    pictures = {path.stem: path for path in PICTURES.iterdir()}
    names = {shot.name for shot in SHOTS}
    sheets = {f"{name}{SHEET_SUFFIX}" for name in names}

    assert set(pictures) == names | sheets | {PAPER}
    assert {size_of(pictures[name])[0] for name in names} == {WIDTH}
    # A sheet has its views side by side.
    assert {size_of(pictures[name])[0] for name in sheets} == {sum(view.width for view in OTHER_VIEWS) + 2 * 24}
    sizes = [path.stat().st_size for path in pictures.values()]
    assert max(sizes) < MAX_BYTES
    assert sum(sizes) < MAX_BYTES_OF_ALL


def test_a_picture_keeps_its_colours_whatever_its_rows_are_filtered_with() -> None:
    nothing, grey = bytes(6), bytes([10, 20, 30])
    # From the left, from above, by Paeth, by the mean, and plain: four rows of one colour, and a white one.
    rows = [b"\1" + grey + bytes(3), b"\2" + nothing, b"\4" + nothing, b"\3\5\n\x0f" + bytes(3), b"\0" + b"\xff" * 6]
    head = struct.pack(">IIBBBBB", 2, len(rows), 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + encode_chunk(b"IHDR", head) + encode_chunk(b"IDAT", zlib.compress(b"".join(rows)))

    chunks = dict(read_chunks(as_palette(png)))

    assert chunks[b"PLTE"] == grey + b"\xff\xff\xff"
    assert zlib.decompress(chunks[b"IDAT"]) == b"\0\0\0" * 4 + b"\0\1\1"


def test_pictures_side_by_side_have_a_ground_between_and_below_them() -> None:
    def png(colour: int, height: int) -> bytes:
        rows = (b"\0" + bytes([colour] * 3)) * height
        head = struct.pack(">IIBBBBB", 1, height, 8, 2, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + encode_chunk(b"IHDR", head) + encode_chunk(b"IDAT", zlib.compress(rows))

    sheet = dict(read_chunks(side_by_side([png(0, 2), png(255, 1)], 1, (9, 9, 9))))
    framed = dict(read_chunks(with_margin(png(255, 1), 1, (0, 0, 0))))

    assert zlib.decompress(sheet[b"IDAT"]) == b"\0\0\1\2" + b"\0\0\1\1"
    assert zlib.decompress(framed[b"IDAT"]) == b"\0\0\0\0" + b"\0\0\1\0" + b"\0\0\0\0"


@pytest.mark.slow
@needs_browser
def test_the_script_takes_pictures_of_a_real_server(tmp_path: Path) -> None:
    save(tmp_path, ["exchange", "mailboxes"])

    names = ["exchange", "exchange-paper", "exchange-views", "mailboxes", "mailboxes-views"]
    assert sorted(path.stem for path in tmp_path.iterdir()) == names
    for path in tmp_path.iterdir():
        assert size_of(path)[0] == size_of(PICTURES / path.name)[0]
        # An empty page, an error or the sign-in page would be a small part of it.
        assert path.stat().st_size > (PICTURES / path.name).stat().st_size / 2
