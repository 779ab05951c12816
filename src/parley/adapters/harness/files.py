"""Reading and replacing the settings files of other programs, and the record of what they were before."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.errors import Forbidden, Invalid, Unavailable
from parley.domain.hashes import digest
from parley.durable_files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_BYTES = 1024 * 1024


class FirstState(NamedTuple):
    """A file as it was before Parley changed it (None: it was not there), and the digest of what Parley wrote."""

    before: bytes | None
    after: str


def read_text(path: str) -> str | None:
    """The text of a file; None when it is not there. `Invalid` for what is no text file."""
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Invalid(f"{path} is not a regular file")
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise Invalid(f"{os.path.dirname(path)} is not a folder") from None
    except OSError as error:
        raise Forbidden(f"cannot read {path}: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise Invalid(f"{path} is too large to be a settings file")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8") from None


def replace(path: str, content: bytes) -> None:
    """Replace a file as a whole, or make it, with its folders. A link stays a link; the mode stays as it is."""
    target = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        mode = 0o644
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(target).st_mode)
        replace_file(target, content, mode)
    except OSError as error:
        refusal = Forbidden if isinstance(error, PermissionError) or error.errno == errno.EROFS else Unavailable
        raise refusal(f"cannot write {path}: {error.strerror}", hint="--print shows what to add by hand") from None


def remove(path: str, root: str) -> None:
    """Remove a file, and the folders below `root` that are empty without it."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Forbidden(f"cannot remove {path}: {error.strerror}") from None
    folder = os.path.dirname(path)
    with suppress(OSError):  # it is not empty
        while folder.startswith(f"{root}/"):
            os.rmdir(folder)
            folder = os.path.dirname(folder)


class SetupRecord:
    """What the files of one repository were before, in one file outside of it."""

    def __init__(self, state: str, root: str) -> None:
        self._path = os.path.join(state, "setup", f"{digest(os.fsencode(root))[:32]}.json")
        self._root = root

    def load(self) -> dict[str, FirstState]:
        """File -> its first state; nothing where there is no record, or one that cannot be read."""
        try:
            text = read_text(self._path)
            entries = json.loads(text)["files"] if text else {}
            return dict(_states(entries))
        except (Forbidden, Invalid, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def save(self, files: dict[str, FirstState]) -> None:
        """Replace the record; without files there is none."""
        if not files:
            with suppress(OSError):
                os.unlink(self._path)
            return
        entries = {
            path: {
                "before": base64.b64encode(state.before).decode() if state.before is not None else None,
                "after": state.after,
            }
            for path, state in files.items()
        }
        replace(self._path, json.dumps({"root": self._root, "files": entries}, indent=1).encode())


def _states(entries: dict[str, Any]) -> Iterator[tuple[str, FirstState]]:
    for path, entry in entries.items():
        before = entry["before"]
        yield path, FirstState(base64.b64decode(before) if before is not None else None, str(entry["after"]))
