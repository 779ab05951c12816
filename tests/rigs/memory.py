"""Folders in memory: a disk with much behind it makes creating and removing files many times as slow."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM = 2 << 30


def roomy_folder() -> Path | None:
    """A folder in memory with room for tests; None where there is none."""
    is_roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM
    return _MEMORY if is_roomy else None
