"""What was logged by an agent."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from parley.sdk.agent import runtime
from parley.sdk.agent.server import workplace as server_workplace
from tests.unit.sdk.agent.at_work import Ear


@pytest.fixture
def ear() -> Iterator[Ear]:
    """What is logged during the test."""
    one, log = Ear(), logging.getLogger("parley")
    before = log.level
    log.addHandler(one)
    log.setLevel(logging.INFO)
    yield one
    log.setLevel(before)
    log.removeHandler(one)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heart that beats fast, short rests, and little patience with what failed."""
    monkeypatch.setattr(server_workplace, "_LAZY_SECONDS", 0.02)
    monkeypatch.setattr(server_workplace, "_HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(server_workplace, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(runtime, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(runtime, "_HEARTBEAT_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(server_workplace, "_PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr("parley.sdk.protocol.flow._PAUSES", (0.01,))
    monkeypatch.setattr("parley.sdk.protocol.following._PAUSE_MIN", 0.01)
