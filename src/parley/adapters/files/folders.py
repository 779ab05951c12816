"""Folders by descriptor: every step from the home to an inbox is opened by name in its parent, never through a link.

A path is checked once and used later; a descriptor is what was checked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parley.domain.errors.errors import DiskFull, Forbidden, NotFound, NotRegular, ParleyError, Unavailable
from parley.durable_files import flush

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

# O_PATH lets others drop files into a folder that they may enter but not list; elsewhere reading is needed.
_O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Folder:
    """An open directory. `listable` is False when it may only be entered."""

    def __init__(self, fd: int, path: str, *, listable: bool) -> None:
        self.fd = fd
        self.path = path
        self.listable = listable
        self._identity: tuple[int, int] | None = None

    @classmethod
    def root(cls, path: str) -> Folder:
        """The one folder that is opened by path: the home, which its user may have linked elsewhere."""
        with os_errors(path):
            try:
                return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path, listable=True)
            except PermissionError:  # a shared home may be passed through, not listed
                return cls(os.open(path, _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), path, listable=False)

    def sub(self, name: str) -> Folder:
        """The folder `name` in this one, not through a link."""
        path = f"{self.path}/{name}"
        try:
            return Folder(os.open(name, os.O_RDONLY | _FOLDER, dir_fd=self.fd), path, listable=True)
        except PermissionError:
            with os_errors(path):
                return Folder(os.open(name, _O_PATH | _FOLDER, dir_fd=self.fd), path, listable=False)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and self.is_link(name):
                raise NotRegular(f"{path} is a symbolic link; Parley follows none below its home") from None
            raise to_parley_error(error, path) from None

    def walk(self, *names: str) -> Folder:
        """Several steps down; the folders between are closed again."""
        current = self
        for name in names:
            try:
                child = current.sub(name)
            finally:
                if current is not self:
                    current.close()
            current = child
        return current

    def make(self, name: str, mode: int) -> Folder:
        """The folder `name`, created with exactly `mode` when it is not there."""
        try:
            return self.sub(name)
        except NotFound:
            pass
        with os_errors(f"{self.path}/{name}"):
            try:
                os.mkdir(name, mode & 0o777, dir_fd=self.fd)
            except FileExistsError:
                return self.sub(name)
            folder = self.sub(name)
            os.fchmod(folder.fd, mode)
        self.sync()
        return folder

    def names(self) -> list[str]:
        """What lies in the folder; `Forbidden` when it may only be entered."""
        if not self.listable:
            raise Forbidden(f"{self.path} may not be listed by this user")
        with os_errors(self.path):
            return os.listdir(self.fd)

    def is_link(self, name: str) -> bool:
        info = self.stat(name)
        return info is not None and stat.S_ISLNK(info.st_mode)

    def stat(self, name: str) -> os.stat_result | None:
        """What `name` is, links not followed; None when it is not there."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise to_parley_error(error, f"{self.path}/{name}") from None

    def is_still_there(self) -> bool:
        """Whether this folder's path leads to it now. An open folder keeps its number, so no other can have it."""
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        if self._identity is None:
            here = os.fstat(self.fd)
            self._identity = (here.st_dev, here.st_ino)
        return (there.st_dev, there.st_ino) == self._identity

    def sync(self) -> None:
        """Make the folder's entries durable, where the file system lets us."""
        if self.listable:
            with os_errors(self.path):
                flush(self.fd)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class os_errors:  # noqa: N801  # reads like the function it would be, and takes a third of its time
    """Raise operating system errors as Parley errors."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise to_parley_error(error, self._path) from error


@contextmanager
def lock_folder(folder: Folder) -> Iterator[None]:
    """One process at a time; the lock dies with its process."""
    with os_errors(folder.path):
        fcntl.flock(folder.fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(folder.fd, fcntl.LOCK_UN)


def to_parley_error(error: OSError, path: str) -> ParleyError:
    """The error of our tree that an operating system's error means."""
    detail = f"{path}: {os.strerror(error.errno or 0)}"
    if error.errno in _FULL:
        return DiskFull(detail, hint="free some space and try again; nothing was lost")
    if error.errno in _FORBIDDEN:
        return Forbidden(detail, facts={"path": path})
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFound(detail)
    if error.errno == errno.ELOOP:
        return NotRegular(f"{path} is a symbolic link; Parley follows none below its home")
    if error.errno == errno.ENXIO:
        return NotRegular(f"{path} is not a regular file")  # a socket, or a device that is not there
    return Unavailable(detail)
