"""The file of saved logins in the user's configuration directory: private, and replaced in one step.

It holds keys. One that another user can read or write, or that is a link, is not used.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from parley.domain.errors.errors import BadConfig, Forbidden, Unavailable
from parley.domain.errors.team import UnsafeMode
from parley.domain.logins import SavedLogins
from parley.durable_files import replace_in
from parley.wire.files.logins import read_logins, write_logins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parley.domain.errors.errors import ParleyError

_NAME = "logins.json"
_OTHERS_READ_OR_WRITE = 0o077
_OTHERS_WRITE = 0o022
_MAX_BYTES = 1 << 20
_LOGIN_AGAIN = "remove it and log in again: parley login URL"


class LoginFile:
    """The saved logins of one user."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.path = os.path.join(folder, _NAME) if folder else ""

    def load(self) -> SavedLogins:
        """The saved logins; none when there is no file."""
        if not self.path:
            return SavedLogins()
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return SavedLogins()
        except OSError as error:
            if os.path.islink(self.path):
                raise UnsafeMode(f"{self.path} is a link", hint=_LOGIN_AGAIN) from None
            raise BadConfig(f"{self.path}: {error.strerror}", hint=f"chmod 600 {self.path}") from None
        try:
            self._check_private(file)
            content = os.read(file, _MAX_BYTES)
        except OSError as error:
            raise BadConfig(f"{self.path}: {error.strerror}", hint="make it readable or remove it") from None
        finally:
            os.close(file)
        return read_logins(content, self.path)

    def change(self, decide: Callable[[SavedLogins], SavedLogins]) -> SavedLogins:
        """Replace the saved logins by what `decide` makes of them, while no other process does."""
        if not self.path:
            raise Unavailable("there is no home directory to save logins in", hint="set HOME or XDG_CONFIG_HOME")
        with self._lock() as folder:
            before = self.load()
            after = decide(before)
            if after != before:
                self._replace(folder, write_logins(after))
        return after

    def _check_private(self, file: int) -> None:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise UnsafeMode(f"{self.path} is not a file", hint=_LOGIN_AGAIN)
        if about.st_uid != os.geteuid():
            raise UnsafeMode(f"{self.path} belongs to another user", hint=_LOGIN_AGAIN)
        if about.st_mode & _OTHERS_READ_OR_WRITE:
            hint = f"chmod 600 {self.path}; others may know its keys: see parley key rotate"
            raise UnsafeMode(f"{self.path} can be read by other users", hint=hint)
        # Whoever can write the folder can put another file there.
        folder = os.stat(self._folder)
        if folder.st_uid not in (os.geteuid(), 0) or folder.st_mode & _OTHERS_WRITE:
            raise UnsafeMode(f"{self._folder} can be written by other users", hint=f"chmod 700 {self._folder}")

    @contextmanager
    def _lock(self) -> Iterator[int]:
        """The folder, mode 0700, created if missing and held against other processes."""
        try:
            os.makedirs(os.path.dirname(self._folder), exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self._folder, 0o700)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileExistsError:
            raise Unavailable(f"{os.path.dirname(self._folder)} is not a directory") from None
        except OSError as error:
            raise _to_parley_error(self._folder, error) from None
        try:
            about = os.fstat(folder)
            if about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) != 0o700:
                with suppress(OSError):  # a file system without modes; the file is checked when it is read
                    os.fchmod(folder, 0o700)
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)

    def _replace(self, folder: int, content: bytes) -> None:
        try:
            replace_in(folder, _NAME, content)
        except OSError as error:
            raise _to_parley_error(self.path, error) from None


def _to_parley_error(path: str, error: OSError) -> ParleyError:
    kind = Forbidden if isinstance(error, PermissionError) else Unavailable
    return kind(f"{path}: {error.strerror}")
