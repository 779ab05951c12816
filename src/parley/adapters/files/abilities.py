"""What the file system under a folder can do, found out by doing it."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.adapters.files.folders import Folder


class Ability(NamedTuple):
    """One thing safe delivery rests on. `vital` ones have no substitute."""

    name: str
    works: bool
    vital: bool
    detail: str


def probe(folder: Folder) -> list[Ability]:
    """Try every ability in `folder`, leaving nothing behind."""
    name = f".parley-probe.{os.getpid()}.tmp"
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder.fd)
    try:
        return [
            _try("exclusive link", lambda: _link(folder, name), vital=True, without="delivery needs it"),
            _try("lock", lambda: _lock(folder, name), vital=True, without="two readers could claim one message"),
            _try("folder sync", lambda: os.fsync(folder.fd), vital=True, without="a power cut could lose a message"),
            _try("file sync", lambda: os.fsync(fd), vital=True, without="a power cut could lose a message"),
            _try("unnamed file", lambda: _unnamed(folder), vital=False, without="a temporary name is used instead"),
        ]
    finally:
        os.close(fd)
        os.unlink(name, dir_fd=folder.fd)


def _try(name: str, act: Callable[[], object], *, vital: bool, without: str) -> Ability:
    try:
        act()
    except OSError as error:
        return Ability(name, False, vital, f"{os.strerror(error.errno or 0)}; {without}")
    return Ability(name, True, vital, "")


def _link(folder: Folder, name: str) -> None:
    other = f"{name}.link.tmp"
    os.link(name, other, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
    try:
        os.link(name, other, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
    except FileExistsError:
        return
    finally:
        os.unlink(other, dir_fd=folder.fd)
    raise OSError(errno.EOPNOTSUPP, "an existing name was overwritten")


def _lock(folder: Folder, name: str) -> None:
    """A lock counts when a second descriptor is refused while the first holds it."""
    first = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
    second = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
    try:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        raise OSError(errno.EOPNOTSUPP, "a lock did not hold")
    finally:
        os.close(first)
        os.close(second)


def _unnamed(folder: Folder) -> None:
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag or not os.path.isdir("/proc/self/fd"):
        raise OSError(errno.EOPNOTSUPP, "no O_TMPFILE")
    os.close(os.open(".", flag | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=folder.fd))
