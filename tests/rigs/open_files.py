"""What this process holds open of a test's own files, whatever else it opens and closes meanwhile."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def opened_below(folder: Path) -> list[str]:
    """The paths behind the descriptors that lead into a folder.

    All descriptors are no measure: the garbage collector closes those of earlier tests at any time.
    """
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed since; the one of the listing itself always is
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(one for one in found if Path(one).is_relative_to(folder))
