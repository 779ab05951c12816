import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.app.rig import Rig, a_rig


@pytest.fixture(scope="session")
def home_to_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Making a project syncs every file to disk; once is enough."""
    return a_rig(tmp_path_factory.mktemp("app") / "home").folder


@pytest.fixture
def rig(tmp_path: Path, home_to_copy: Path) -> Iterator[Rig]:
    """A project `demo` with claude, codex and gemini, half past two on a Friday."""
    rig = Rig(shutil.copytree(home_to_copy, tmp_path / "home"))
    yield rig
    rig.close()
