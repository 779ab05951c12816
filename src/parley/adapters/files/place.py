"""Putting a complete file under a name, so that a power cut leaves all of it or nothing.

    O_TMPFILE ─ write ─ fchmod ─ fsync(file) ─ linkat ─ fsync(folder)
                                     │            └ an existing name is an error, never an overwrite
                                     └ after an error the file is given up: fsync is not tried twice

The file is opened again for reading before it gets its name, so that no reader meets it while it is open for writing.
Without O_TMPFILE (macOS, some file systems) the file has a temporary name that no reader looks at, under a lock that
tells readers to wait while the file has two names.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from functools import cache
from typing import TYPE_CHECKING

from parley.adapters.files.folders import Folder, os_errors
from parley.domain.errors.errors import NameExists
from parley.durable_files import flush, replace_in, temporary_name

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_MODE = 0o640
# Names have 255 bytes at most; a number and .reason.json must find room behind.
_NAME_MAX_BYTES = 230
_TMPFILE: int = getattr(os, "O_TMPFILE", 0)
_NO_TMPFILE = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})


def place(
    folder: Folder,
    name: str,
    content: bytes,
    mode: int = FILE_MODE,
    *,
    use_tmpfile: bool = True,
    sync_name: bool = True,
) -> None:
    """Write `content` durably under a new name; `NameExists` when the name is taken.

    Without `sync_name` the caller syncs the folder.
    """
    with os_errors(f"{folder.path}/{name}"):
        unnamed = _open_unnamed(folder) if use_tmpfile and _TMPFILE else None
        if unnamed is None:
            _place_by_temporary_name(folder, name, content, mode, sync_name=sync_name)
            return
        written = _write_and_reopen(unnamed, f"/proc/self/fd/{unnamed}", content, mode)
        try:
            try:
                os.link(f"/proc/self/fd/{written}", name, dst_dir_fd=folder.fd, follow_symlinks=True)
            except FileExistsError:
                raise NameExists(f"{folder.path}/{name} exists") from None
            if sync_name:
                _sync_name(folder, written)
        finally:
            os.close(written)


def replace(folder: Folder, name: str, content: bytes, mode: int = 0o600) -> None:
    """Another content under a name, in one step; a file that is there keeps its mode. Not for messages."""
    before = folder.stat(name)
    mode = stat.S_IMODE(before.st_mode) if before else mode
    with os_errors(f"{folder.path}/{name}"):
        replace_in(folder.fd, name, content, mode, is_listable=folder.listable)


def candidate_names(name: str) -> Iterator[str]:
    """The name, then the name with _2, _3 and so on before its ending; short enough for what is put behind it."""
    raw = os.fsencode(name)
    if len(raw) > _NAME_MAX_BYTES:
        name = raw[: _NAME_MAX_BYTES - len(".yaml")].decode("utf-8", "ignore") + ".yaml"
    yield name
    stem, dot, ending = name.rpartition(".")
    number = 2
    while True:
        yield f"{stem}_{number}{dot}{ending}" if dot else f"{name}_{number}"
        number += 1


def is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


@cache
def _has_descriptor_names() -> bool:
    """An unnamed file gets its name through /proc, which a container may lack."""
    return os.path.isdir("/proc/self/fd")


def _open_unnamed(folder: Folder) -> int | None:
    if not _has_descriptor_names():
        return None
    try:
        return os.open(".", _TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=folder.fd)
    except OSError as error:
        if error.errno in _NO_TMPFILE:
            return None
        raise


def _place_by_temporary_name(folder: Folder, name: str, content: bytes, mode: int, *, sync_name: bool) -> None:
    temporary = temporary_name(name)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder.fd)
    try:
        fd = _write_and_reopen(fd, temporary, content, mode, folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder.fd)
        raise
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                os.link(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
            except FileExistsError:
                raise NameExists(f"{folder.path}/{name} exists") from None
        finally:
            os.unlink(temporary, dir_fd=folder.fd)
        if sync_name:
            _sync_name(folder, fd)
    finally:
        os.close(fd)


def _write_and_reopen(fd: int, path: str, content: bytes, mode: int, folder: Folder | None = None) -> int:
    """Write, sync and close `fd`; the same file, by its path, open for reading only."""
    try:
        _write_and_sync(fd, content, mode)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd if folder else None)
    finally:
        os.close(fd)


def _write_and_sync(fd: int, content: bytes, mode: int) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.fchmod(fd, mode)
    flush(fd)


def _sync_name(folder: Folder, fd: int) -> None:
    """Make the new name durable: through the folder, or through the file where the folder cannot be read."""
    if folder.listable:
        flush(folder.fd)
    else:
        flush(fd)
