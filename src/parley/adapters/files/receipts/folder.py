"""Receipts in a mailbox: what became of a message at its recipient, in a file that only the recipient writes.

    agents/<name>/receipts/<message id>    one line of JSON for each step, appended in one write
    agents/<name>/receipts/.position       how much of the ledger is in these files

The folder is beside those of OACP. Others may open a file in it by name, as they may drop a message into the inbox, but
list nothing. A step begins and ends with a line break, so that what a power cut left of another spoils none.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from parley.adapters.files.folders import Folder, os_errors
from parley.adapters.files.place import FILE_MODE
from parley.adapters.files.receipts.lines import decode_steps, encode_step, file_name
from parley.adapters.files.workspace import PASSAGE, AgentFolder, Workspace
from parley.domain.errors.errors import Forbidden, NotFound, ParleyError
from parley.domain.receipts import ReceiptState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from parley.domain.receipts import ReceiptStep

FOLDER = "receipts"
_POSITION = ".position"
_POSITION_DIGITS = 20
# A message that is offered for ever does not fill the disk: then only claims and ends are added, then nothing.
_OFFERS_MAX_BYTES = 16 * 1024
_FILE_MAX_BYTES = 64 * 1024
# The newest receipts that are kept, and how many more there may be before the oldest go.
_KEPT_FILES = 10_000
_SPARE_FILES = 2_000
_OFFERS = frozenset({ReceiptState.QUEUED, ReceiptState.OFFERED, ReceiptState.INJECTED})
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileReceipts:
    """The receipts of one agent, and those of the agents that it writes to."""

    def __init__(self, workspace: Workspace, agent: AgentFolder) -> None:
        self._workspace = workspace
        self._agent = agent

    def append(self, message_id: str, file: str, steps: Sequence[ReceiptStep]) -> None:
        lines = "".join(encode_step(step, file) for step in steps).encode()
        name = file_name(message_id)
        with self._own() as folder, os_errors(f"{folder.path}/{name}"):
            fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _OPEN, 0o600, dir_fd=folder.fd)
            try:
                info = os.fstat(fd)
                limit = _OFFERS_MAX_BYTES if all(step.state in _OFFERS for step in steps) else _FILE_MAX_BYTES
                if not stat.S_ISREG(info.st_mode) or info.st_size + len(lines) > limit:
                    return
                if not info.st_size:
                    os.fchmod(fd, FILE_MODE)
                os.write(fd, lines)
            finally:
                os.close(fd)

    def steps(self, agent: str, message_id: str, file: str) -> tuple[ReceiptStep, ...] | None:
        name = file_name(message_id)
        try:
            owner = self._workspace.agent(agent)
            with owner.open() as home, home.sub(FOLDER) as folder:
                try:
                    fd = os.open(name, os.O_RDONLY | _OPEN, dir_fd=folder.fd)
                except FileNotFoundError:
                    return ()
                try:
                    info = os.fstat(fd)
                    # Nobody but the recipient says what the recipient did.
                    if not stat.S_ISREG(info.st_mode) or info.st_uid != os.fstat(home.fd).st_uid:
                        return ()
                    content = os.read(fd, _FILE_MAX_BYTES)
                finally:
                    os.close(fd)
        except (NotFound, Forbidden):
            return None
        except (OSError, ParleyError):
            return ()
        return decode_steps(content, file)

    @contextmanager
    def position(self, *, make: bool) -> Iterator[list[int] | None]:
        try:
            folder = self._own() if make else self._agent.folder(FOLDER)
        except NotFound:
            yield None
            return
        with folder, os_errors(f"{folder.path}/{_POSITION}"):
            flags = os.O_RDWR | _OPEN | (os.O_CREAT if make else 0)
            try:
                fd = os.open(_POSITION, flags, 0o600, dir_fd=folder.fd)
            except FileNotFoundError:
                yield None
                return
            try:
                # The lock dies with its process; whoever waits for it sees what the other has written.
                fcntl.flock(fd, fcntl.LOCK_EX)
                text = os.pread(fd, _POSITION_DIGITS, 0)
                before = int(text) if text.isdigit() else -1
                place = [before]
                yield place
                if place[0] != before:
                    os.pwrite(fd, b"%020d" % place[0], 0)
                    if place[0] // 256 != before // 256:
                        _prune(folder)
            finally:
                os.close(fd)

    def _own(self) -> Folder:
        return self._agent.make_folder(FOLDER, mode=PASSAGE)


def _prune(folder: Folder) -> None:
    """Remove the oldest files when there are too many."""
    names = [name for name in folder.names() if name != _POSITION]
    if len(names) <= _KEPT_FILES + _SPARE_FILES:
        return
    times = sorted((info.st_mtime_ns, name) for name in names if (info := folder.stat(name)) is not None)
    for _, name in times[:-_KEPT_FILES]:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder.fd)
