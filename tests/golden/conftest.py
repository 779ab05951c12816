"""What the golden tests stand on."""

from pathlib import Path

import pytest

from tests.surface.stage import a_home


@pytest.fixture(scope="session")
def home_to_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_home(tmp_path_factory.mktemp("home"))
