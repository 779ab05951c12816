"""The style sheet and the script of the console, at addresses that name their content."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from parley.surfaces.console.html import address

_TYPES = {
    "console.css": b"text/css; charset=utf-8",
    "console.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}


class StaticFile(NamedTuple):
    """A file that pages refer to."""

    content: bytes
    content_type: bytes
    path: str


@cache
def static_file(name: str) -> StaticFile | None:
    """The file with this name; None when there is none."""
    if name not in _TYPES:
        return None
    content = (files("parley.surfaces.console") / "static" / name).read_bytes()
    return StaticFile(content, _TYPES[name], address("static", sha256(content).hexdigest()[:16], name))


def path_of(name: str) -> str:
    """The address of a file of the console."""
    file = static_file(name)
    if file is None:
        raise ValueError(name)
    return file.path
