"""A project with three agents for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.app.rig import Rig, a_rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = a_rig(tmp_path / "home")
    yield made
    made.close()
