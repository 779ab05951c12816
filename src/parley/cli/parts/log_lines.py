"""The server's log: one line of JSON for each thing that went wrong, on standard error. Never a body, never a key."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

# What a record has by itself; everything else was given as `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A record as one line; what is not plain text is escaped, so that no line can be forged."""

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
    """Log from here on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
