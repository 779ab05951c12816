"""Replacing a file in one step that neither a crash nor a power cut can leave half done.

    write aside ─ fchmod ─ fsync(file) ─ rename ─ fsync(folder)
                              └ after an error the file is given up: fsync is not tried twice

Every adapter that replaces a file does it with this. New names of messages are linked: see `adapters/files/place`.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from contextlib import suppress

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_serial = itertools.count()


def replace_file(path: str, content: bytes, mode: int = 0o600) -> None:
    """Give the file at `path` another content and mode, or create it; `OSError` when it could not be made durable."""
    folder, name = os.path.split(path)
    descriptor = os.open(folder or ".", _FOLDER)
    try:
        replace_in(descriptor, name, content, mode)
    finally:
        os.close(descriptor)


def replace_in(folder: int, name: str, content: bytes, mode: int = 0o600, *, is_listable: bool = True) -> None:
    """The same in an open folder. One that cannot be listed cannot be synced: then the file is, behind the rename."""
    staged, file = _create_aside(folder, name)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(file, view) :]
            os.fchmod(file, mode)
            flush(file)
            os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(staged, dir_fd=folder)
            raise
        flush(folder if is_listable else file)
    finally:
        os.close(file)


def _create_aside(folder: int, name: str) -> tuple[str, int]:
    """A new file beside `name`. A process that was killed may have left one under the first number."""
    while True:
        staged = temporary_name(name)
        with suppress(FileExistsError):
            return staged, os.open(staged, _NEW, 0o600, dir_fd=folder)


def temporary_name(name: str) -> str:
    """A name beside `name` that begins with a dot and does not end in .yaml, so that nobody takes it for a message."""
    return f".{name}.{os.getpid()}-{next(_serial)}.tmp"


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, _FOLDER)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def flush(descriptor: int) -> None:
    """Make a file or folder durable. macOS keeps data in the drive unless it is asked with its own command."""
    if _FULL_SYNC is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, _FULL_SYNC)
