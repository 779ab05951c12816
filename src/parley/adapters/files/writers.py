"""Whether a file is still being written: by whom it is open, and when it last changed."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps: every command would pay for its enums
import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from parley.adapters.files.folders import Folder

# A file that cannot be read may be half of one for this long after its last change.
SETTLING_SECONDS = 10
_SET_LEASE: int | None = getattr(fcntl, "F_SETLEASE", None)
_SET_SIGNAL: int = getattr(fcntl, "F_SETSIG", 0)
_OPEN_ELSEWHERE = frozenset({errno.EAGAIN, errno.EBUSY})
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def has_writer(fd: int) -> bool:
    """Whether any process has this file, open here for reading, open for writing.

    Linux gives a read lease only on a file that nobody writes. It is given back at once; a writer that comes in
    between is announced by a signal that is ignored unless handled, because the default one would end this process.
    False where it cannot be known: for a file of another user, on file systems and systems without leases.
    """
    if _SET_LEASE is None:
        return False
    try:
        fcntl.fcntl(fd, _SET_SIGNAL, _signal.SIGURG)
        fcntl.fcntl(fd, _SET_LEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, _SET_LEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno in _OPEN_ELSEWHERE
    return False


def is_unfinished(folder: Folder, name: str, now: datetime) -> bool:
    """Whether a regular file that cannot be read may still become a message."""
    info = folder.stat(name)
    if info is None or not stat.S_ISREG(info.st_mode):
        return False
    # A time in the future is no reason to wait for it.
    if abs(now.timestamp() - info.st_mtime) < SETTLING_SECONDS:
        return True
    try:
        fd = os.open(name, _READ, dir_fd=folder.fd)
    except OSError:
        return False
    try:
        return has_writer(fd)
    finally:
        os.close(fd)
