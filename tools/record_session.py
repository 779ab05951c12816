"""Record a terminal session: run the README's commands in a pseudo-terminal, write the cast, draw it.

    record_session.py           docs/pictures/session.cast (asciinema, version 2) and docs/pictures/session.svg
    record_session.py --draw    only the picture again, from the cast that is there

The commands are those of the block below `<!-- recorded as NAME -->` in README.md, in a fresh home folder, which is
shown as /home/me. Typing has a steady pace of its own; what a command prints comes when it came.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 80, 24
SHOWN_HOME = "/home/me"
_BLOCK = re.compile(r"^<!-- recorded as session -->\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = "\x1b[1;32m$\x1b[0m "
_SECONDS_PER_KEY = 0.04
_SECONDS_TO_READ = 0.9
_LONGEST_COMMAND_SECONDS = 60
_READ_BYTES = 65_536


class Event(NamedTuple):
    """What appears on the screen, and when."""

    at: float
    text: str


# ---------------------------------------------------------------- record


def commands(readme: str) -> list[str]:
    """The commands that the README shows beside the picture."""
    (block,) = _BLOCK.findall(readme)
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def record(lines: list[str]) -> list[Event]:
    """Run command lines one after the other; what a person at the terminal sees."""
    events: list[Event] = []
    now = 0.0
    with tempfile.TemporaryDirectory() as home:
        for line in lines:
            events.append(Event(now, _PROMPT))
            now += _SECONDS_TO_READ / 2
            for key in line:
                events.append(Event(now, key))
                now += _SECONDS_PER_KEY
            events.append(Event(now, "\r\n"))
            for passed, text in run(line, Path(home)):
                events.append(Event(now + passed, text.replace(home, SHOWN_HOME)))
            now = events[-1].at + _SECONDS_TO_READ
    return [*events, Event(now, _PROMPT)]


def run(line: str, home: Path) -> Iterator[tuple[float, str]]:
    """Run one command line in a pseudo-terminal; what it prints, with the seconds since its start."""
    master, terminal = pty.openpty()
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    path = f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
    environment = {"HOME": str(home), "PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    start = time.monotonic()
    with subprocess.Popen(
        ["/bin/sh", "-c", line], stdin=terminal, stdout=terminal, stderr=terminal, cwd=home, env=environment
    ) as process:
        os.close(terminal)
        try:
            yield from _output(master, start)
        finally:
            os.close(master)
        if process.wait(_LONGEST_COMMAND_SECONDS):
            raise SystemExit(f"{line}: exit code {process.returncode}")


def _output(master: int, start: float) -> Iterator[tuple[float, str]]:
    """What comes from a terminal until its last process has closed it, in whole characters."""
    rest = b""
    while select.select([master], [], [], _LONGEST_COMMAND_SECONDS)[0]:
        try:
            data = os.read(master, _READ_BYTES)
        except OSError:  # Linux says so when the other end is closed
            return
        if not data:
            return
        text = (rest + data).decode(errors="ignore")
        rest = (rest + data)[len(text.encode()) :]
        yield round(time.monotonic() - start, 6), text
    raise SystemExit(f"a command took longer than {_LONGEST_COMMAND_SECONDS} s")


def as_cast(events: list[Event]) -> str:
    """The recording as asciinema reads it."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "Parley", "env": {"TERM": "xterm-256color"}}
    return "".join(
        [json.dumps(header) + "\n", *[json.dumps([round(event.at, 3), "o", event.text]) + "\n" for event in events]]
    )


def from_cast(text: str) -> list[Event]:
    _, *lines = text.splitlines()
    return [Event(at, output) for at, _, output in map(json.loads, lines)]


# ---------------------------------------------------------------- draw

_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_COLOURS = {
    31: "#ff7b72",
    32: "#7ee787",
    33: "#e3b341",
    34: "#79c0ff",
    35: "#d2a8ff",
    36: "#76e3ea",
    90: "#8b949e",
}
_BACKGROUND, _TEXT, _DIM = "#0d1117", "#e6edf3", "#8b949e"
_CHAR_WIDTH, _LINE_HEIGHT, _MARGIN, _BAR = 8.4, 19, 16, 28


_CSS = """<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre }
.line { animation: show 1ms both }
@keyframes show { from { opacity: 0 } to { opacity: 1 } }
@media (prefers-reduced-motion: reduce) { .line { animation: none } }
</style>"""


class Span(NamedTuple):
    """Characters of one line in one style."""

    column: int
    text: str
    style: str


class Line(NamedTuple):
    """A line of the screen, and when its last character came."""

    at: float
    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


def screen_lines(events: list[Event]) -> list[Line]:
    """The lines that stand on an endless screen in the end, wrapped where the terminal wraps."""
    lines: list[Line] = []
    spans: list[Span] = []
    style, column, at = "", 0, 0.0

    def end_line() -> None:
        nonlocal spans, column
        lines.append(Line(at, tuple(spans)))
        spans, column = [], 0

    for event in events:
        at = event.at
        for index, part in enumerate(_SGR.split(event.text)):
            if index % 2:
                style = _style(part, style)
                continue
            for character in part.replace("\r\n", "\n"):
                if character == "\n" or column == COLUMNS:
                    end_line()
                if character == "\n":
                    continue
                if spans and spans[-1].style == style:
                    spans[-1] = spans[-1]._replace(text=spans[-1].text + character)
                else:
                    spans.append(Span(column, character, style))
                column += 1
    if spans:
        end_line()
    return lines


def _style(codes: str, style: str) -> str:
    """The style after a sequence of codes: an attribute list for SVG."""
    for code in [int(code or 0) for code in codes.split(";")]:
        if code == 0:
            style = ""
        elif code == 1:
            style += ' font-weight="700"'
        elif code == 2:
            style += f' fill="{_DIM}"'
        elif code in _COLOURS:
            style += f' fill="{_COLOURS[code]}"'
    return style


def as_svg(events: list[Event], title: str) -> str:
    """The recording as a picture: each line appears when it came, once; without animation where none is wanted."""
    lines = screen_lines(events)
    width = round(COLUMNS * _CHAR_WIDTH + 2 * _MARGIN)
    height = _BAR + len(lines) * _LINE_HEIGHT + 2 * _MARGIN
    drawn = [_drawn_line(line, _BAR + _MARGIN + (row + 0.7) * _LINE_HEIGHT) for row, line in enumerate(lines)]
    label = f'aria-label="{escape(title)}"'
    dots = [
        f'<circle cx="{20 + 18 * index}" cy="{_BAR // 2 + 2}" r="5" fill="{colour}"/>'
        for index, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {label}>',
            _CSS,
            f'<rect width="{width}" height="{height}" rx="8" fill="{_BACKGROUND}"/>',
            *dots,
            *drawn,
            "</svg>\n",
        ]
    )


def _drawn_line(line: Line, y: float) -> str:
    spans = [
        f'<tspan x="{_MARGIN + span.column * _CHAR_WIDTH:g}" '
        f'textLength="{len(span.text) * _CHAR_WIDTH:g}"{span.style or f" fill={chr(34)}{_TEXT}{chr(34)}"}>'
        f"{escape(span.text)}</tspan>"
        for span in line.spans
        if span.text.strip()
    ]
    when = f'style="animation-delay:{line.at:.2f}s"'
    return f'<text class="line" xml:space="preserve" {when} y="{y:g}">{"".join(spans)}</text>'


def main(arguments: list[str]) -> None:
    cast, picture = PICTURES / "session.cast", PICTURES / "session.svg"
    if "--draw" not in arguments:
        cast.write_text(as_cast(record(commands((ROOT / "README.md").read_text(encoding="utf-8")))), encoding="utf-8")
    picture.write_text(as_svg(from_cast(cast.read_text(encoding="utf-8")), TITLE), encoding="utf-8")


TITLE = "A terminal: two agents get mailboxes, one asks, the other answers"

if __name__ == "__main__":
    main(sys.argv[1:])
