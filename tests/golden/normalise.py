"""The one place that says which parts of an answer are left out of a comparison, and why.

Clocks are fixed and ids are counted, so answers over HTTP need almost nothing: the server's port and no more.
Commands print paths of temporary folders and the address of the server.
"""

from __future__ import annotations

from collections.abc import Mapping


def normal_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer, in a fixed order."""
    return dict(sorted(headers.items()))


def normal_text(text: str, places: Mapping[str, str]) -> list[str]:
    """The lines of a command's output, with names in the place of what differs from run to run."""
    for value, name in sorted(places.items(), key=lambda item: -len(item[0])):
        text = text.replace(value, name)
    return text.splitlines(keepends=True)
