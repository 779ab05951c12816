"""Files that nobody is writing any more: readers leave one that they cannot read alone until its last change is old."""

from __future__ import annotations

import os
from pathlib import Path


def settle(*paths: Path) -> None:
    """Let the last change of these files be long ago."""
    for path in paths:
        os.utime(path, (0, 0), follow_symlinks=False)
