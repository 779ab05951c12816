"""Times as people type them into a filter: a day, a time, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

_AGO = re.compile(r"([0-9]{1,6}) ?(m|h|d|w)", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
HINT = "2026-11-18, or 7d"


def as_time(text: str, now: datetime, *, ends: bool = False) -> str:
    """The time that the API takes; a day that `ends` a period is part of it. What is none goes to the API as it is."""
    text = text.strip()
    try:
        ago = _AGO.fullmatch(text)
        if ago is not None:
            return (now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).isoformat()
        day = datetime.combine(datetime.strptime(text, "%Y-%m-%d").date(), time(), UTC)  # noqa: DTZ007  # only its date
        return (day + timedelta(days=1) if ends else day).isoformat()
    except (ValueError, OverflowError):
        return text
