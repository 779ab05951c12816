"""Signed checkpoints as lines of a file for each tenant, outside of the store and best on another disk."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from parley.domain.errors.errors import DiskFull, Unavailable
from parley.durable_files import sync_folder
from parley.wire.proofs.audit_log import checkpoint_line, read_checkpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.domain.audit.checkpoint import AuditCheckpoint

# A line is a few hundred bytes long.
_TAIL_BYTES = 65_536


class CheckpointFiles:
    """See `ports.outside.CheckpointArchive`. Only the server writes; anyone who may read the folder can compare."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    async def covered(self, tenant: str) -> int:
        return await asyncio.to_thread(self._covered, tenant)

    async def append(self, checkpoints: Sequence[AuditCheckpoint]) -> None:
        await asyncio.to_thread(self._append, checkpoints)

    def _covered(self, tenant: str) -> int:
        path = self._path(tenant)
        try:
            with open(path, "r+b") as file:
                end = file.seek(0, os.SEEK_END)
                start = file.seek(max(0, end - _TAIL_BYTES))
                tail = file.read()
                complete = tail.rfind(b"\n") + 1
                if complete < len(tail):
                    # A write that was interrupted: what it was about to say is said again.
                    file.truncate(start + complete)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise _to_parley_error(path, error) from None
        begin = tail.rfind(b"\n", 0, max(0, complete - 1)) + 1
        return max((checkpoint.size for checkpoint in read_checkpoints([tail[begin:complete]])), default=0)

    def _append(self, checkpoints: Sequence[AuditCheckpoint]) -> None:
        if not checkpoints:
            return
        path = self._path(checkpoints[0].tenant_id)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            new = not os.path.exists(path)
            flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
                file.write(b"".join(map(checkpoint_line, checkpoints)))
                file.flush()
                os.fsync(file.fileno())
            if new:
                sync_folder(self._folder)
        except OSError as error:
            raise _to_parley_error(path, error) from None

    def _path(self, tenant: str) -> str:
        return os.path.join(self._folder, f"{tenant}.jsonl")


def _to_parley_error(path: str, error: OSError) -> Unavailable:
    kind = DiskFull if error.errno in (28, 122) else Unavailable
    return kind(f"{path}: {error.strerror or error}")
