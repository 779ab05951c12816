"""Print errors of handlers on standard error while a workflow runs: a line each, or with traceback."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parley.cli.output import safe, safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Lines(logging.Handler):
    """Formats log records as lines for people."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__(logging.WARNING)
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        from parley.sdk.agent.logs import describe_error

        error = record.exc_info[1] if record.exc_info else None
        facts = vars(record)
        who = facts.get("agent", "")
        what = record.getMessage()
        if facts.get("action") == "agent_handler_failed":
            what = f"{facts.get('handler')} failed"
        why = describe_error(error) if error is not None else facts.get("why", "")
        # Log messages of agents may contain both already.
        who, why = "" if what.startswith(f"{who}: ") else who, "" if what.endswith(f"({why})") else why
        # The end of a step is printed anyway.
        if facts.get("action") != "workflow_step_failed":
            line = ": ".join(str(part) for part in ("warning", who, what, why) if part)
            sys.stderr.write(safe(line) + "\n")
        if self._verbose and error is not None:
            sys.stderr.write(safe_text("".join(traceback.format_exception(error))))
        sys.stderr.flush()


@contextmanager
def logging_to(*, verbose: bool) -> Iterator[None]:
    """Print Parley's log while the context is open."""
    logger, handler = logging.getLogger("parley"), _Lines(verbose=verbose)
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
