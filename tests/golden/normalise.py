"""The one place that says which parts of an answer are left out of a comparison, and why.

Clocks are fixed and ids are counted, so an answer over HTTP differs in one thing only: a server spells its `Date`
header once per second of real time, so after the clock was moved it may be the old one or the new one. Commands print
paths of temporary folders and the address of the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_HTTP_DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT")


def normal_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer, in a fixed order; of a well-formed date only that it is there."""
    return {
        name: _HTTP_DATE.sub("<date>", headers[name]) if name == "date" else headers[name] for name in sorted(headers)
    }


def normal_text(text: str, places: Mapping[str, str]) -> list[str]:
    """The lines of a command's output, with names in the place of what differs from run to run."""
    for value, name in sorted(places.items(), key=lambda item: -len(item[0])):
        text = text.replace(value, name)
    return text.splitlines(keepends=True)
