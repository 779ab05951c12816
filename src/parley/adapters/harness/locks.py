"""A lock by name for processes of one user: it ends with its process, and leaves no file behind where it can."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

_ENDING = ".lock"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class NamedLock:
    """A lock that its process holds until it releases it or ends."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Remove the file, and give the lock back."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(self._descriptor)
            self._descriptor = -1


def acquire(folder: str, name: str) -> NamedLock | None:
    """The lock of that name; None when another process holds it. What processes that were killed left is removed."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{name}{_ENDING}")
    descriptor = _lock(path)
    if descriptor is None:
        return None
    for other in os.listdir(folder):
        left = os.path.join(folder, other)
        if other.endswith(_ENDING) and left != path and (free := _lock(left, os.O_RDWR | os.O_CLOEXEC)) is not None:
            NamedLock(left, free).release()
    return NamedLock(path, descriptor)


def _lock(path: str, flags: int = _FLAGS) -> int | None:
    """A descriptor of the file that is there under this path, locked; None when another process has the lock."""
    while True:
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed the file after we opened it.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        os.close(descriptor)
