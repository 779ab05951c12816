"""The recorded terminal session of the README: really run, in 80 columns, with the README's commands."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, without_varying
from tools.record_session import (
    COLUMNS,
    PICTURES,
    TITLE,
    Event,
    as_cast,
    as_svg,
    commands,
    from_cast,
    record,
    run,
    screen_lines,
)

README = (ROOT / "README.md").read_text(encoding="utf-8")
CAST = (PICTURES / "session.cast").read_text(encoding="utf-8")
PICTURE = (PICTURES / "session.svg").read_text(encoding="utf-8")


def shown(events: list[Event]) -> list[str]:
    return [line.text for line in screen_lines(events)]


def comparable(line: str) -> str:
    """A line without ids, in full or their ends, and times."""
    return re.sub(r"(reply |done |…|\b(?:AGE|AGO) )[a-z0-9]{4,10}\b", r"\1ID", without_varying(line))


def typed(events: list[Event]) -> list[str]:
    return [line.removeprefix("$ ") for line in shown(events) if line.startswith("$ ") and line != "$ "]


def test_the_recorded_commands_are_the_readmes() -> None:
    assert typed(from_cast(CAST)) == commands(README)
    assert f"![{TITLE}](docs/pictures/session.svg)" in README


def test_recorded_again_it_shows_the_same_but_for_ids_and_times() -> None:
    again = record(commands(README))

    assert [comparable(line) for line in shown(again)] == [comparable(line) for line in shown(from_cast(CAST))]
    assert from_cast(as_cast(again)) == [Event(round(event.at, 3), event.text) for event in again]


def test_the_cast_is_asciinemas_second_version_and_goes_forward() -> None:
    header, *events = map(json.loads, CAST.splitlines())

    assert (header["version"], header["width"]) == (2, COLUMNS)
    assert all((kind, type(text)) == ("o", str) for _, kind, text in events)
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    assert times[-1] < 30


def test_no_line_is_wrapped_and_there_are_few() -> None:
    lines = shown(from_cast(CAST))

    assert max(map(len, lines)) < COLUMNS
    assert len(lines) <= 36


def test_the_picture_is_drawn_from_the_cast_and_needs_nothing_else() -> None:
    assert as_svg(from_cast(CAST), TITLE) == PICTURE
    root = ET.fromstring(PICTURE)
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    # What is blank is not drawn.
    assert [text.replace(" ", "") for text in texts] == [line.replace(" ", "") for line in shown(from_cast(CAST))]
    assert not re.search(r"<script|href=|url\(", PICTURE)


def test_what_a_command_prints_is_that_of_a_terminal_of_80_columns(tmp_path: Path) -> None:
    printed = "".join(text for _, text in run("stty size; printf '\\033[1mäß\\033[0m<&\\n'", tmp_path))

    assert printed == "24 80\r\n\x1b[1mäß\x1b[0m<&\r\n"
    drawn = as_svg([Event(0, printed)], "x")
    assert 'font-weight="700"' in drawn
    assert "&lt;&amp;" in drawn


def test_a_command_that_fails_ends_the_recording(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="false: exit code 1"):
        list(run("false", tmp_path))


def test_a_long_line_is_shown_where_the_terminal_wraps_it() -> None:
    assert [len(line) for line in shown([Event(0, "x" * 85 + "\r\n" + "y" * 80 + "\r\nz")])] == [80, 5, 80, 1]
