"""A workspace made by the real tool, copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interop.peer import require_peer, theirs


@pytest.fixture(scope="session")
def their_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_peer()
    root = tmp_path_factory.mktemp("theirs")
    assert theirs(root, "init", "p", "--agents", "alice,bob,carol").status == 0
    assert theirs(root, "agent", "add", "p", "dave", "--runtime", "codex").status == 0
    return root


@pytest.fixture
def place(their_workspace: Path, tmp_path: Path) -> Path:
    """A folder whose `h` is a home with project p and agents alice, bob, carol, dave."""
    shutil.copytree(their_workspace, tmp_path / "place")
    return tmp_path / "place"
