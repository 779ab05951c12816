"""Delivery into other agents' inboxes and the copy in one's own outbox."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parley.adapters.files.folders import Folder, os_errors
from parley.adapters.files.place import place
from parley.adapters.files.workspace import LEDGER_FOLDER, Workspace
from parley.domain.errors.errors import InboxFull, NameExists, NotFound
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.names import is_message_file

if TYPE_CHECKING:
    from collections.abc import Iterator

# No file system spends less on one directory entry, so a small folder cannot hold many files.
_LEAST_ENTRY_BYTES = 16
# Folders that a courier keeps open, its own two among them.
_OPEN_FOLDERS_LIMIT = 32


class FileCourier:
    """Carries the files of one agent."""

    def __init__(
        self, workspace: Workspace, agent: str, limits: Limits = DEFAULT_LIMITS, *, use_tmpfile: bool = True
    ) -> None:
        self._workspace = workspace
        self._agent = agent
        self._limits = limits
        self._use_tmpfile = use_tmpfile
        # By agent and name; a folder closes when it is dropped.
        self._open: dict[tuple[str, str], Folder] = {}

    async def taken(self, agents: tuple[str, ...], name: str) -> bool:
        statuses = [self._inbox_of(agent).stat(name) for agent in agents]
        return any(statuses) or self._own("outbox").stat(name) is not None

    async def deliver(self, agent: str, name: str, content: bytes) -> None:
        inbox = self._inbox_of(agent)
        self._check_quota(inbox, agent)
        self._place(inbox, name, content)

    async def keep_copy(self, name: str, content: bytes) -> None:
        self._place(self._own("outbox"), name, content)

    def _place(self, folder: Folder, name: str, content: bytes) -> None:
        try:
            place(folder, name, content, use_tmpfile=self._use_tmpfile)
        except NameExists:
            if not _has_content(folder, name, content):
                raise
            folder.sync()

    async def has_copy(self, name: str, content: bytes) -> bool:
        return _has_content(self._own("outbox"), name, content)

    @contextmanager
    def sending(self) -> Iterator[None]:
        with self._lock(fcntl.LOCK_SH):
            yield

    @contextmanager
    def alone(self) -> Iterator[bool]:
        with self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB) as has_lock:
            yield has_lock

    @contextmanager
    def _lock(self, mode: int) -> Iterator[bool]:
        """Whether we have the lock; it dies with its process, so it tells a crashed sender from a slow one."""
        private = self._own(LEDGER_FOLDER)
        fd = -1
        try:
            with os_errors(f"{private.path}/sending.lock"):
                fd = os.open("sending.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=private.fd)
                try:
                    fcntl.flock(fd, mode)
                    has_lock = True
                except BlockingIOError:
                    has_lock = False
            yield has_lock
        finally:
            if fd >= 0:
                os.close(fd)

    def _inbox_of(self, agent: str) -> Folder:
        try:
            return self._open_folder(agent, "inbox") or self._remember(
                agent, self._workspace.agent(agent).folder("inbox")
            )
        except NotFound:
            raise self._workspace.unknown_agent(agent) from None

    def _own(self, name: str) -> Folder:
        return self._open_folder(self._agent, name) or self._remember(
            self._agent, self._workspace.agent(self._agent).make_folder(name)
        )

    def _open_folder(self, agent: str, name: str) -> Folder | None:
        """A folder that is open from before, if its path still leads to it: a tenth of the time of walking there."""
        folder = self._open.get((agent, name))
        if folder is None or folder.is_still_there():
            return folder
        del self._open[agent, name]
        return None

    def _remember(self, agent: str, folder: Folder) -> Folder:
        if len(self._open) >= _OPEN_FOLDERS_LIMIT:
            self._open.clear()
        self._open[agent, folder.path.rsplit("/", 1)[-1]] = folder
        return folder

    def _check_quota(self, inbox: Folder, agent: str) -> None:
        """Refuse more than `inbox_messages` files of one user; files are counted only if the folder is large enough."""
        limit = self._limits.inbox_messages
        if not inbox.listable or os.fstat(inbox.fd).st_size // _LEAST_ENTRY_BYTES < limit:
            return
        user = os.geteuid()
        with os_errors(inbox.path):
            names = [name for name in os.listdir(inbox.fd) if is_message_file(name)]
        if len(names) < limit:
            return
        owned = sum(1 for name in names if (info := inbox.stat(name)) and info.st_uid == user)
        if owned >= limit:
            raise InboxFull(
                f"the inbox of {agent} holds {owned} messages from this user, at most {limit} are allowed",
                hint="wait until they are processed",
            )


def _has_content(folder: Folder, name: str, content: bytes) -> bool:
    """Whether the file `name` is a regular one with exactly this content."""
    info = folder.stat(name)
    if info is None or not stat.S_ISREG(info.st_mode) or info.st_size != len(content):
        return False
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.fd)
    except OSError:
        return False  # vanished or not ours to read: then it is not surely the same
    try:
        return os.read(fd, len(content) + 1) == content
    finally:
        os.close(fd)
