"""What one part of Parley has logged during a test, whatever else was logged meanwhile."""

from __future__ import annotations

import logging

import pytest


def logged_by(part: str, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records of one logger.

    Anybody may log at any time (the event loop of an earlier test, when the garbage collector comes by): a test that
    counts records counts those it is about.
    """
    return [one for one in caplog.records if one.name == part]
