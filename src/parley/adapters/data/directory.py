"""A server's data directory: private, and held by one server at a time."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Conflict, Forbidden, NotFound, Unavailable
from parley.domain.errors.team import UnsafeMode
from parley.domain.store.tables import Servers
from parley.durable_files import replace_file, sync_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

_STORE = "parley.db"
_MOVED_SUFFIX = ".moved"
_LOCK = "lock"
_OTHERS = 0o077


def store_path_in(data: str) -> str:
    """The path of the store in a data directory that has one."""
    path = os.path.join(data, _STORE)
    if not os.path.exists(path):
        raise NotFound(f"no store in {data}", hint="name the server's data directory with --data")
    return path


def check_not_copying(path: str) -> None:
    """Refuse a store that is still being filled from another: beside it an empty one would begin."""
    if os.path.exists(f"{path}.copying") and not os.path.exists(path):
        raise Conflict(f"a copy into {path} has not ended", hint="run `parley store copy` again")


def check_not_moved(path: str) -> None:
    """Refuse a store that was moved elsewhere: what it accepts would be missing there."""
    place = _moved_to(path)
    if place:
        data = os.path.dirname(path)
        hint = f"start the server there; to use this one again on purpose: parley store reopen {data}"
        raise Conflict(f"{data} was moved to {place}", hint=hint)


def _moved_to(path: str) -> str:
    try:
        with open(f"{path}{_MOVED_SUFFIX}", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise Unavailable(f"{path}{_MOVED_SUFFIX}: {error.strerror}") from None


class DirectoryUse:
    """See `ports.team.StoreUse`. On a file that is no data directory no server ever starts."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._path = os.path.join(place, _STORE)
        self._is_directory = os.path.isdir(place)
        self._held = False

    async def servers(self) -> Servers:
        # A server holds its data directory for as long as it lives.
        running = not self._held and is_in_use(self._place)
        return Servers((f"the one of {self._place}",)) if running else Servers()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        lock = -1
        try:
            if self._is_directory:
                lock = os.open(os.path.join(self._place, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._held = True
        except OSError:
            self._held = False  # by a server; or it cannot be written, and no server starts on it
        try:
            yield
        finally:
            self._held = False
            if lock >= 0:
                os.close(lock)

    async def moved_to(self) -> str:
        return _moved_to(self._path)

    async def mark_moved(self, place: str) -> None:
        if self._is_directory:
            _write_moved(self._path, place)


def _write_moved(path: str, place: str) -> None:
    """Durably, and never half of it."""
    mark = f"{path}{_MOVED_SUFFIX}"
    try:
        if place:
            replace_file(mark, place.encode("utf-8", "surrogateescape"))
        elif os.path.exists(mark):
            os.unlink(mark)
            sync_folder(os.path.dirname(path))
    except OSError as error:
        raise Unavailable(f"{mark}: {error.strerror}") from None


def is_in_use(data: str) -> bool:
    """Whether a server runs on a data directory at this moment."""
    try:
        lock = os.open(os.path.join(data, _LOCK), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


class DataDirectory:
    """The directory of one running server; made, mode 0700, when it does not exist."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = -1

    @property
    def store_path(self) -> str:
        return os.path.join(self._path, _STORE)

    def __enter__(self) -> DataDirectory:
        try:
            os.makedirs(self._path, mode=0o700, exist_ok=True)
            self._check_modes()
            self._lock = os.open(os.path.join(self._path, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise Forbidden(f"{self._path}: {error.strerror}") from None
        except OSError as error:
            raise Unavailable(f"{self._path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            hint = "stop it first, or name another directory with --data"
            raise Conflict(f"a server is running on {self._path}", hint=hint) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    def _check_modes(self) -> None:
        """Refuse files that another user could read: they hold keys, messages and logs."""
        about = os.stat(self._path)
        if not stat.S_ISDIR(about.st_mode):
            raise Unavailable(f"{self._path} is not a directory")
        if about.st_uid != os.geteuid():
            raise UnsafeMode(f"{self._path} belongs to another user", hint="run the server as its owner")
        if about.st_mode & _OTHERS:
            raise UnsafeMode(f"{self._path} is open to other users", hint=f"chmod 700 {self._path}")
        for name in os.listdir(self._path):
            path = os.path.join(self._path, name)
            if name.startswith((_STORE, _LOCK)) and os.stat(path).st_mode & _OTHERS:
                raise UnsafeMode(f"{path} is open to other users", hint=f"chmod 600 {path}")
