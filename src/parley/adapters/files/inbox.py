"""One agent's own files: looking at them, claiming one, and moving it where it belongs afterwards."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.adapters.files.folders import Folder, os_errors, to_parley_error
from parley.adapters.files.place import candidate_names, is_temporary, place
from parley.adapters.files.workspace import DEAD_LETTERS, LEDGER_FOLDER, PRIVATE, AgentFolder, Workspace
from parley.domain.errors.errors import (
    AlreadyClaimed,
    Forbidden,
    NameExists,
    NotFound,
    NotRegular,
    NotText,
    ParleyError,
    TooLarge,
    Unfinished,
)
from parley.domain.limits import DEFAULT_LIMITS, HARD_FILE_BYTES, Limits
from parley.domain.mailbox.listing import NO_INDEX
from parley.domain.names import is_message_file, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from parley.domain.mailbox.listing import FileKey, HeadingIndex, KnownHeading, RefusedFile

# A file's name, its bytes or why it cannot be read, the user who owns it, and its number.
Peeked = tuple[str, "bytes | ParleyError", int, int]

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# The owner of a file that could not be opened.
_NOBODY = -1
_PLACES = {
    "inbox": ("inbox",),
    "archive": ("inbox", "archive"),
    "outbox": ("outbox",),
    "dead_letter": (DEAD_LETTERS,),
}
# Linking may be refused: by the file system, or by the kernel for a file that belongs to another user.
_NO_LINK = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.ENOSYS})
# Rivals hold a lock for as long as it takes to see that the message is not theirs: milliseconds, two seconds at most.
_LOCK_PAUSES_SECONDS = (0.001, 0.002, 0.005, *(0.01 for _ in range(200)))
# Batch size when reading: reading several files before parsing makes a large listing a seventh faster.
_PEEK_BATCH = 32


class HeldFile:
    """A message file under its lock."""

    def __init__(self, fd: int, name: str, content: bytes, owner: int) -> None:
        self._fd = fd
        self.name = name
        self.content = content
        self.owner = owner

    def has_writer(self) -> bool:
        from parley.adapters.files.writers import has_writer  # a listing does not ask

        return has_writer(self._fd)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileInbox:
    """The inbox, archive, outbox and dead letters of one agent. `keeps_index`: what was read is kept on disk."""

    def __init__(
        self,
        workspace: Workspace,
        agent: AgentFolder,
        limits: Limits = DEFAULT_LIMITS,
        *,
        keeps_index: bool = True,
    ) -> None:
        self._keeps_index = keeps_index
        self._workspace = workspace
        self._agent = agent
        self._limits = limits
        self._max_bytes = min(limits.file_bytes, HARD_FILE_BYTES)
        # How each place was before its files were looked at.
        self._folders: dict[str, os.stat_result] = {}

    async def names(self, place: str = "inbox", *, exact: bool = False) -> list[tuple[str, int]]:
        try:
            folder = self._open(place)
        except NotFound:
            if place == "inbox":
                raise
            return []  # a foreign tool made no archive or outbox; looking makes none either
        if not folder.listable:
            folder.close()
            raise Forbidden(f"{folder.path} may not be listed by this user")
        self._folders[place] = os.fstat(folder.fd)
        with folder, os_errors(folder.path), os.scandir(folder.fd) as entries:
            messages = [entry for entry in entries if is_message_file(entry.name)]
            if exact:
                return [(entry.name, number) for entry in messages if (number := _file_number(entry)) is not None]
            return [(entry.name, entry.inode()) for entry in messages]

    def peek(self, names: Iterable[str], place: str = "inbox") -> Iterator[Peeked]:
        with self._open(place) as folder:
            batch: list[Peeked] = []
            for name in names:
                peeked = self._peek_file(folder, name, place)
                if peeked is not None:
                    batch.append(peeked)
                if len(batch) == _PEEK_BATCH:
                    yield from batch
                    batch.clear()
            yield from batch

    def _peek_file(self, folder: Folder, name: str, place: str) -> Peeked | None:
        """A file; None when it is gone."""
        if not _is_text(name):
            return name, _not_text_error(name), _NOBODY, 0
        try:
            fd = os.open(name, _READ, dir_fd=folder.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            return name, to_parley_error(error, f"{folder.path}/{name}"), _NOBODY, 0
        try:
            info = os.fstat(fd)
            number = (info.st_ino << 64) | info.st_ctime_ns
            if not stat.S_ISREG(info.st_mode):
                return name, NotRegular(f"{name} is not a regular file"), info.st_uid, number
            if info.st_nlink > 1 and place == "inbox" and self._is_hard_link(folder, fd):
                return name, _hard_link_error(name), info.st_uid, number
            content = os.read(fd, min(info.st_size, self._max_bytes) + 1)
        finally:
            os.close(fd)
        if len(content) > self._max_bytes:
            return name, _too_large_error(name, self._max_bytes), info.st_uid, number
        return name, content, info.st_uid, number

    def index(self, place: str) -> HeadingIndex:
        name = f"headings-{place}"
        # Most inboxes are small and have none.
        if not os.path.exists(f"{self._agent.path}/{LEDGER_FOLDER}/{name}"):
            return NO_INDEX
        from parley.adapters.files import heading_index

        try:
            with self._open(place) as folder, self._agent.folder(LEDGER_FOLDER) as private:
                return heading_index.load(private, name, os.fstat(folder.fd), self._limits)
        except ParleyError:
            return NO_INDEX

    def keep_index(self, place: str, entries: dict[FileKey, KnownHeading], files: int) -> None:
        if not self._keeps_index:
            return
        from parley.adapters.files import heading_index

        # A reader who may not write there lists without an index.
        with suppress(ParleyError), self._agent.make_folder(LEDGER_FOLDER) as private:
            heading_index.save(private, f"headings-{place}", self._folders[place], self._limits, entries, files)

    def _open(self, place: str) -> Folder:
        return self._agent.folder(*_PLACES[place])

    async def take(self, name: str, *, wait: bool = False, finished: bool = False) -> HeldFile | None:
        with self._agent.folder("inbox") as inbox:
            held = self._take(inbox, name, _LOCK_PAUSES_SECONDS if wait else ())
        # Asked after reading: what was open for writing meanwhile is read again later.
        if finished and held is not None and held.has_writer():
            held.release()
            raise Unfinished(f"{name} is still being written")
        return held

    def _take(self, inbox: Folder, name: str, pauses: Iterable[float] = ()) -> HeldFile | None:
        before = inbox.stat(name)
        if before is None:
            return None
        if not _is_text(name):
            raise _not_text_error(name)
        if not stat.S_ISREG(before.st_mode):
            raise NotRegular(f"{name} is not a regular file")
        try:
            fd = os.open(name, _READ, dir_fd=inbox.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise to_parley_error(error, f"{inbox.path}/{name}") from None
        try:
            _lock(fd, name, pauses)
            held = self._read_locked(inbox, name, fd)
        except BaseException:
            os.close(fd)
            raise
        if held is None:
            os.close(fd)
        return held

    def _read_locked(self, inbox: Folder, name: str, fd: int) -> HeldFile | None:
        info = os.fstat(fd)
        now = inbox.stat(name)
        if info.st_nlink == 0 or now is None or (now.st_dev, now.st_ino) != (info.st_dev, info.st_ino):
            return None  # moved away before we had the lock
        if not stat.S_ISREG(info.st_mode):
            raise NotRegular(f"{name} is not a regular file")
        if info.st_nlink > 1 and not self._finish_interrupted_move(inbox, info):
            raise _hard_link_error(name)
        if info.st_size > self._max_bytes:
            raise _too_large_error(name, self._max_bytes)
        content = self._read(fd, inbox, name)
        return HeldFile(fd, name, content, info.st_uid)

    def _read(self, fd: int, inbox: Folder, name: str) -> bytes:
        parts, left = [], self._max_bytes + 1
        with os_errors(f"{inbox.path}/{name}"):
            while left and (part := os.read(fd, left)):
                parts.append(part)
                left -= len(part)
        if not left:
            raise _too_large_error(name, self._max_bytes)
        return b"".join(parts)

    def _is_hard_link(self, inbox: Folder, fd: int) -> bool:
        """Whether a file's second name is a stranger's, and not one that delivering or archiving gives for a moment."""
        info = os.fstat(fd)
        if info.st_nlink > 2:
            return True  # ours never have more than two
        if _temporary_names(inbox, info) or _in_archive(inbox, info):
            return False
        return os.fstat(fd).st_nlink > 1  # the moment may have passed while we looked

    def _finish_interrupted_move(self, inbox: Folder, info: os.stat_result) -> bool:
        """Whether the second name is ours. A sender may have died before it dropped the temporary one, a reader
        between giving the file its name in the archive and dropping this one; it is archived again then.
        """
        if info.st_nlink > 2:
            return False
        for name in _temporary_names(inbox, info):
            os.unlink(name, dir_fd=inbox.fd)
            return True
        return _in_archive(inbox, info)

    async def archive(self, name: str, content: bytes) -> None:
        """`name` is locked by the caller."""
        with self._agent.folder("inbox") as inbox, _own_archive(inbox) as archive:
            for target in candidate_names(name):
                if self._move_into(inbox, name, archive, target, content):
                    break
            archive.sync()
            _unlink(inbox, name)
            inbox.sync()

    def _move_into(self, inbox: Folder, name: str, archive: Folder, target: str, content: bytes) -> bool:
        """Whether the file is now in the archive under `target`; False when that name is another's."""
        try:
            os.link(name, target, src_dir_fd=inbox.fd, dst_dir_fd=archive.fd, follow_symlinks=False)
        except FileExistsError:
            return _has_content(archive, target, content)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise to_parley_error(error, f"{archive.path}/{target}") from None
            try:
                place(archive, target, content)
            except NameExists:
                return _has_content(archive, target, content)
        return True

    async def preserve(self, name: str, content: bytes) -> None:
        """Write `content` into the archive: for a message whose file is no longer what was processed."""
        with self._agent.folder("inbox") as inbox, _own_archive(inbox) as archive:
            for target in candidate_names(name):
                try:
                    place(archive, target, content)
                except NameExists:
                    if not _has_content(archive, target, content):
                        continue
                return

    async def archived(self, name: str, content: bytes) -> bool:
        try:
            with self._agent.folder("inbox", "archive") as archive:
                for target in candidate_names(name):
                    if archive.stat(target) is None:
                        return False
                    if _has_content(archive, target, content):
                        return True
        except NotFound:
            pass
        return False

    async def delete(self, name: str) -> None:
        with self._agent.folder("inbox") as inbox:
            _unlink(inbox, name)
            inbox.sync()

    async def bury(self, refused: RefusedFile) -> None:
        from parley.adapters.files import dead_letters

        with self._agent.folder("inbox") as inbox, self._agent.make_folder(DEAD_LETTERS) as dead:
            dead_letters.bury(inbox, dead, refused)

    async def sync_dead_letters(self) -> None:
        with self._agent.folder("inbox") as inbox, self._agent.make_folder(DEAD_LETTERS) as dead:
            dead.sync()
            inbox.sync()

    async def dead_letters(self) -> list[RefusedFile]:
        try:
            with self._agent.folder(DEAD_LETTERS) as dead:
                if not any(is_message_file(name) for name in dead.names()):
                    return []
                from parley.adapters.files import dead_letters

                return list(dead_letters.dead_letters(dead))
        except (NotFound, Forbidden):
            return []

    async def unfinished(self, names: Iterable[str], now: datetime) -> frozenset[str]:
        from parley.adapters.files.writers import is_unfinished

        with self._agent.folder("inbox") as inbox:
            return frozenset(name for name in names if is_unfinished(inbox, name, now))

    def owner_of(self, agent: str) -> int | None:
        try:
            with self._workspace.agent(agent).open() as folder:
                return os.fstat(folder.fd).st_uid
        except (NotFound, Forbidden, NotRegular):
            return None

    def packet(self, path: str) -> bytes | None:
        *folders, name = _inside(path)
        try:
            with self._workspace.open() as project, project.walk(*folders) as folder:
                fd = os.open(name, _READ, dir_fd=folder.fd)
                try:
                    if not stat.S_ISREG(os.fstat(fd).st_mode):
                        raise NotRegular(f"{path!r} is not a regular file")
                    return self._read(fd, folder, name)
                finally:
                    os.close(fd)
        except (NotFound, FileNotFoundError):
            return None
        except OSError as error:
            raise to_parley_error(error, path) from None

    async def put_packet(self, path: str, content: bytes) -> None:
        *folders, name = _inside(path)
        with self._workspace.open() as project, project.walk(*folders) as folder:
            place(folder, name, content)

    def pulse(self) -> tuple[int, int]:
        with os_errors(self._agent.path):
            info = os.stat(f"{self._agent.path}/inbox")
        return info.st_mtime_ns, info.st_ino


def _inside(path: str) -> list[str]:
    """The parts of a path that stays inside the project."""
    from parley.domain.message.bodies import is_inside

    if not is_inside(path):
        raise NotRegular(f"{path!r} does not stay inside the project")
    return path.split("/")


def _file_number(entry: os.DirEntry[str]) -> int | None:
    """The inode and when it last changed: file systems give a freed inode to the next file at once."""
    try:
        info = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return (info.st_ino << 64) | info.st_ctime_ns


def _temporary_names(inbox: Folder, info: os.stat_result) -> list[str]:
    """The temporary names in an inbox of the file that was found."""
    names = [name for name in os.listdir(inbox.fd) if is_temporary(name)]
    return [name for name in names if (other := inbox.stat(name)) and other.st_ino == info.st_ino]


def _own_archive(inbox: Folder) -> Folder:
    """The archive in an inbox, made when it is missing; one that another user planted is not used."""
    archive = inbox.make("archive", PRIVATE)
    owner = os.fstat(archive.fd).st_uid
    if owner not in (os.geteuid(), os.fstat(inbox.fd).st_uid):
        archive.close()
        raise Forbidden(f"{archive.path} belongs to another user", hint="remove it and try again")
    return archive


def _in_archive(inbox: Folder, info: os.stat_result) -> bool:
    try:
        with inbox.sub("archive") as archive, os.scandir(archive.fd) as entries:
            return any(entry.inode() == info.st_ino for entry in entries)
    except NotFound:
        return False


def _is_text(name: str) -> bool:
    """Whether the bytes of a file name are UTF-8: what cannot be written down cannot be claimed."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_text_error(name: str) -> NotText:
    return NotText(f"the file name {printable(name)} is not UTF-8")


def _hard_link_error(name: str) -> NotRegular:
    return NotRegular(f"{name} is a hard link to another file")


def _lock(fd: int, name: str, pauses: Iterable[float]) -> None:
    """Lock a file, retrying after each pause; `AlreadyClaimed` when another reader keeps the lock."""
    for pause in (*pauses, None):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if pause is None:
                raise AlreadyClaimed(f"another reader holds {name}") from None
            time.sleep(pause)
        except OSError as error:
            raise to_parley_error(error, name) from None
        else:
            return


def _too_large_error(name: str, max_bytes: int) -> TooLarge:
    return TooLarge(f"{name} is larger than the {max_bytes} bytes a message may have")


def _has_content(folder: Folder, name: str, content: bytes) -> bool:
    try:
        fd = os.open(name, _READ, dir_fd=folder.fd)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode) and os.read(fd, len(content) + 1) == content
    finally:
        os.close(fd)


def _unlink(folder: Folder, name: str) -> None:
    with os_errors(f"{folder.path}/{name}"):
        try:
            os.unlink(name, dir_fd=folder.fd)
        except FileNotFoundError:
            return
