"""The dead letters of an agent: files that were put aside, each with the reason beside it."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import TYPE_CHECKING

from parley.adapters.files.folders import Folder, to_parley_error
from parley.adapters.files.place import candidate_names, place
from parley.adapters.files.workspace import DEAD_LETTERS
from parley.domain.errors.errors import NameExists
from parley.domain.mailbox.listing import RefusedFile

if TYPE_CHECKING:
    from collections.abc import Iterator

_REASON = ".reason.json"
_REASON_MAX_BYTES = 8_192
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def bury(inbox: Folder, dead: Folder, refused: RefusedFile) -> None:
    """Move a file to the dead letters, whatever it is; the folders are not synced. Gone already is no error."""
    reason = {"file": refused.file, "code": refused.code, "detail": refused.detail, "at": refused.at}
    document = (json.dumps(reason, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
    for target in candidate_names(refused.file):
        if dead.stat(target) is not None:
            continue
        try:
            # The exclusive reason file reserves the name, because rename would replace another's.
            place(dead, f"{target}{_REASON}", document, 0o600, sync_name=False)
        except NameExists:
            continue
        break
    try:
        os.rename(refused.file, target, src_dir_fd=inbox.fd, dst_dir_fd=dead.fd)
    except OSError as error:
        os.unlink(f"{target}{_REASON}", dir_fd=dead.fd)
        if error.errno != errno.ENOENT:
            raise to_parley_error(error, f"{dead.path}/{target}") from None


def dead_letters(dead: Folder) -> Iterator[RefusedFile]:
    """What was put aside, by name, with the reasons as far as they can be read."""
    names = dead.names()
    for name in sorted(name for name in names if not name.endswith(_REASON) and not name.startswith(".")):
        reason = _reason(dead, name)
        code, detail, at = (str(reason.get(key, "")) for key in ("code", "detail", "at"))
        yield RefusedFile(name, DEAD_LETTERS, code or "unknown", detail or "its reason is not recorded", at)


def _reason(dead: Folder, name: str) -> dict[str, object]:
    try:
        fd = os.open(f"{name}{_REASON}", _READ, dir_fd=dead.fd)
    except OSError:
        return {}
    try:
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
        document = json.loads(os.read(fd, _REASON_MAX_BYTES)) if regular else None
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(fd)
    return document if isinstance(document, dict) else {}
