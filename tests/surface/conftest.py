"""What every surface test stands on: a home, and commands that run on it."""

from pathlib import Path

import pytest

from parley.surfaces.http import api
from tests.surface.stage import Stage, a_home, a_stage


@pytest.fixture(scope="session")
def home_to_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home_to_copy: Path) -> Stage:
    """A project `demo` with claude, codex and gemini; the environment names its home and nothing else."""
    return a_stage(tmp_path, monkeypatch, home_to_copy)


@pytest.fixture
def streams_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are about who is refused, not about the second that a refused stream waits for its answer."""
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
