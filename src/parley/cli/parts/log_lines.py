"""The server's log: JSON lines on standard error, without message bodies and keys."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

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


def begin() -> None:
    """Start logging."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
