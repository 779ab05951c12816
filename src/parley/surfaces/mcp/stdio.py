"""MCP on standard input and output: one JSON document a line."""

from __future__ import annotations

import json
import os
import select
from typing import TYPE_CHECKING

from parley.surfaces.mcp.protocol import INVALID_REQUEST, failure_of, handle_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.surfaces.mcp.protocol import Document, ToolServer

_CHUNK_BYTES = 65_536
# More than any message may have.
_LINE_MAX_BYTES = 4 * 1024 * 1024


# Stands for a line that is too long, and is no JSON.
TOO_LONG = b"\n"


class LineInput:
    """Lines of a file descriptor, without a buffer that would hide from `select` what is there to read."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._buffer = b""
        self._ended = False

    def read_line(self) -> bytes | None:
        """The next line that is not empty, or `TOO_LONG`; None at the end."""
        too_long = False
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                if line.strip() or too_long:
                    return TOO_LONG if too_long else line
                continue
            if len(self._buffer) > _LINE_MAX_BYTES:
                too_long, self._buffer = True, b""
            chunk = b"" if self._ended else os.read(self.descriptor, _CHUNK_BYTES)
            if not chunk:
                self._ended = True
                line, self._buffer = self._buffer, b""
                return line or None
            self._buffer += chunk

    def has_more(self, seconds: float) -> bool:
        """Whether there is something to read, or the end, within so many seconds."""
        return bool(self._buffer) or self._ended or bool(select.select([self.descriptor], [], [], seconds)[0])


def serve(
    lines: LineInput, write: Callable[[bytes], object], server: ToolServer, log: Callable[[Exception], object]
) -> None:
    """Answer every line until the input ends. A bug in one call is answered and logged, and the server goes on."""
    while (line := lines.read_line()) is not None:
        try:
            answer: Document | None = _refusal() if line == TOO_LONG else handle_line(line, server)
        except Exception as error:  # noqa: BLE001  # the outermost frame of a surface
            log(error)
            answer = failure_of(line)
        if answer is not None:
            # ASCII, so that text which is no Unicode cannot end the connection.
            write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")


def _refusal() -> Document:
    error = {"code": INVALID_REQUEST, "message": f"longer than {_LINE_MAX_BYTES:,} bytes"}
    return {"jsonrpc": "2.0", "id": None, "error": error}
