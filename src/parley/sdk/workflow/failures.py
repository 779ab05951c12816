"""Errors of somebody else's code on one line, with the place in it."""

from __future__ import annotations

import traceback

from parley.domain.errors.errors import ParleyError
from parley.sdk.agent.logs import code_location, error_text

_LONGEST = 500


def describe_error(error: BaseException) -> str:
    """What went wrong, and where in the code of whoever wrote the handler."""
    if isinstance(error, ParleyError):
        return error_text(error)[:_LONGEST]
    first = (error_text(error).splitlines() or [""])[0]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    if isinstance(error, SyntaxError):
        return text if "line" in text else f"{text} (line {error.lineno})"
    where = code_location(traceback.extract_tb(error.__traceback__))
    return f"{text[:_LONGEST]} ({where})" if where else text[:_LONGEST]
