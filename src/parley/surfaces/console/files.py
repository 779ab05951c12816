"""The style sheet and the script of the console, at addresses that name their content."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from parley.surfaces.console.html import address
from parley.surfaces.http.files import file_response
from parley.surfaces.http.problem import problem

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Request, Response

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


def static_response(request: Request, steps: list[str]) -> Response:
    """The answer to a request for a file at these steps below `static`."""
    file = static_file(steps[-1]) if steps else None
    if file is None or file.path != address("static", *steps):
        return problem(404, "not_found", "nothing at this path")
    if request.method not in ("GET", "HEAD"):
        return problem(405, "method_not_allowed", "method not allowed for this path")
    return file_response(request, file.content, file.content_type)
