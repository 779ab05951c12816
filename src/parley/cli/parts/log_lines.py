"""The server's log: JSON lines on standard error, without message bodies and keys."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Attributes of every record; all others come from `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON. Control characters are escaped, so that no line can be forged."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        document |= {name: str(value) for name, value in vars(record).items() if name not in _OWN}
        return json.dumps(document)


@contextmanager
def logging_as_json() -> Iterator[None]:
    """Log as JSON lines, and nothing else, while the context is open."""
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handlers, level = list(root.handlers), root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
