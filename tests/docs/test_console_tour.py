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
from tools.palette import as_palette, encode_chunk, read_chunks
from tools.record_console import PICTURES, SHOTS, WITHOUT_PICTURE, save

TOUR = ROOT / "docs" / "tutorial" / "tour-of-the-console.md"
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+/console/[^)\s]+\.png)\)")
MAX_BYTES, MAX_BYTES_OF_ALL = 120_000, 1_500_000


def size_of(picture: Path) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", picture.read_bytes(), 16)
    return width, height


def test_every_page_of_the_console_has_a_picture_or_needs_none() -> None:
    pages = {route.steps for route in ROUTES if route.show is not None}

    assert {shot.steps for shot in SHOTS} | WITHOUT_PICTURE == pages, "add it to tools/record_console.py"
    assert not {shot.steps for shot in SHOTS} & WITHOUT_PICTURE


def test_the_tour_shows_every_picture_with_its_words() -> None:
    shown = PICTURE.findall(TOUR.read_text(encoding="utf-8"))

    assert sorted(path for _, path in shown) == sorted(f"../pictures/console/{shot.name}.png" for shot in SHOTS)
    assert [path for words, path in shown if len(words) < 20] == []
    ((_, first),) = PICTURE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert (ROOT / first).is_file()


def test_the_pictures_are_those_of_the_script_and_small() -> None:
    pictures = {path.name: path for path in PICTURES.iterdir()}

    assert sorted(pictures) == sorted(f"{shot.name}.png" for shot in SHOTS)
    assert {shot.name: shot.width for shot in SHOTS} == {path.stem: size_of(path)[0] for path in pictures.values()}
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


@pytest.mark.slow
@needs_browser
def test_the_script_takes_pictures_of_a_real_server(tmp_path: Path) -> None:
    save(tmp_path, ["approval", "approvals-phone", "mailboxes"])

    assert sorted(path.name for path in tmp_path.iterdir()) == ["approval.png", "approvals-phone.png", "mailboxes.png"]
    for path in tmp_path.iterdir():
        assert size_of(path)[0] == size_of(PICTURES / path.name)[0]
        # An empty page, an error or the sign-in page would be a small part of it.
        assert path.stat().st_size > (PICTURES / path.name).stat().st_size / 2
