"""What every SQLite file needs: splitting scripts, quoting paths, and SQLite's errors as Parley errors."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import TYPE_CHECKING

from parley.domain.errors.errors import DiskFull, Forbidden, NotText, ParleyError, Unavailable
from parley.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

# The index beside the log grows by this many bytes.
_INDEX_STEP = 32 * 1024
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# Characters of a value that an error names.
_NAMED_CHARS = 80


def split_statements(script: str) -> Iterator[str]:
    """The statements of a script, triggers whole: `executescript` would commit our transaction."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def quote_path(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


class sqlite_errors:  # noqa: N801  # reads like the function it would be, and takes a third of its time
    """Raise SQLite's errors as Parley errors."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, sqlite3.Error | OSError):
            raise to_parley_error(error, self._path) from error
        if isinstance(error, UnicodeEncodeError):
            raise NotText(f"{printable(str(error.object))[:_NAMED_CHARS]} is not UTF-8 text") from None


def to_parley_error(error: sqlite3.Error | OSError, path: str) -> ParleyError:
    if isinstance(error, OSError):
        detail = f"{path}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(detail, hint="free some space and try again")
        return Forbidden(detail, facts={"path": path}) if error.errno in _FORBIDDEN else Unavailable(detail)
    name = getattr(error, "sqlite_errorname", "") or ""
    # Where the index beside the log cannot grow, SQLite calls a full disk an I/O error.
    if name == "SQLITE_FULL" or (name.startswith("SQLITE_IOERR") and _is_full(path)):
        return DiskFull(f"{path}: the disk is full", hint="free some space and try again")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return Forbidden(f"{path}: cannot be opened for writing", facts={"path": path})
    return Unavailable(f"{path}: {error}")


def _is_full(path: str) -> bool:
    try:
        disk = os.statvfs(os.path.dirname(path))
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _INDEX_STEP
