"""Our server as a process, and the real SDK's clients for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.process import ServerProcess, running

VERSION = "0.17.0"


@pytest.fixture(scope="session", autouse=True)
def peer() -> None:
    """Skip without the real SDK at home; in CI it must be there, in the version we know."""
    try:
        import openintent
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail(f"openintent {VERSION} is missing")
        pytest.skip(f"openintent {VERSION} is missing")
    assert openintent.__version__ == VERSION


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data: Path = tmp_path_factory.mktemp("team") / "data"
    with running(data, environment={"PARLEY_EVENT_NAMES": "sdk", "PARLEY_NEW_INTENTS": "open"}) as process:
        yield process
