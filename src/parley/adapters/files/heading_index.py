"""What an earlier process has read of a folder of messages, so that a listing reads only what is new.

One text file for each place, private to its agent and safe to delete. It is trusted when it is whole, of this version,
and of the user who reads it. An entry counts for the file that has its name and number: the inode and when it last
changed. The folder's own state tells whether any name came or went, and then not even the numbers are looked at.

What is younger than ten seconds is left out: it may be written to within the same tick of the file system's clock.
"""

from __future__ import annotations

import os
import stat
import zlib
from typing import TYPE_CHECKING, Any

from parley.adapters.files.folders import os_errors
from parley.domain.mailbox.listing import NO_INDEX, HeadingIndex
from parley.domain.version import VERSION
from parley.durable_files import temporary_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parley.adapters.files.folders import Folder
    from parley.domain.limits import Limits
    from parley.domain.mailbox.listing import FileKey, KnownHeading

_FIELD, _COLUMN = "\x1f", "\n"
_FIELDS = 13
_MOST_BYTES = 64 * 1024 * 1024
_SETTLED_NS = 10_000_000_000
# The part of a file's number that says when it last changed.
_CHANGED_NS = (1 << 64) - 1
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def load(private: Folder, name: str, folder: os.stat_result, limits: Limits) -> HeadingIndex:
    """The index `name` of a folder that is as it is now; `NO_INDEX` where there is none that can be trusted."""
    try:
        fd = os.open(name, _READ, dir_fd=private.fd)
    except OSError:
        return NO_INDEX
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_size > _MOST_BYTES:
        os.close(fd)
        return NO_INDEX
    with open(fd, "rb") as file:
        head, _, columns = file.read().partition(b"\n")
    head_fields = head.decode("utf-8", "replace").split(_FIELD)
    if head_fields[:2] != [_edition(limits), f"{zlib.crc32(columns):x}"]:
        return NO_INDEX
    return _parse(columns.decode(), complete=head_fields[2:] == [*_state(folder)])


def _parse(text: str, *, complete: bool) -> HeadingIndex:
    if not text:
        return NO_INDEX._replace(complete=complete)
    # One split for each column: for each row they would take longer than the rest of a listing.
    names, numbers, owners, id_, sender, to, *others = [column.split(_FIELD) for column in text.split(_COLUMN)]
    owner_of = {owner: int(owner) for owner in set(owners)}
    recipients_of = {recipients: tuple(recipients.split(",")) for recipients in set(to)}
    headings: tuple[Sequence[Any], ...] = (id_, sender, [recipients_of[recipients] for recipients in to], *others)
    return HeadingIndex(names, numbers, [owner_of[owner] for owner in owners], headings, complete)


def save(
    private: Folder,
    name: str,
    folder: os.stat_result,
    limits: Limits,
    entries: Mapping[FileKey, KnownHeading],
    files: int,
) -> None:
    """Replace the index of a folder, as it was before its `files` files were looked at.

    Entries are in processing order. The index may be lost in a power cut, and is made again then.
    """
    staged = temporary_name(name)
    with os_errors(f"{private.path}/{staged}"):
        fd = os.open(staged, _WRITE, 0o600, dir_fd=private.fd)
        with open(fd, "wb") as file:
            # The file system's own clock gave the times that this is compared with.
            settled = os.fstat(fd).st_mtime_ns - _SETTLED_NS
            rows, text = _rows(entries, settled)
            # The user of another agent may still write to its files, so those are looked at each time.
            complete = len(rows) == files and max(folder.st_mtime_ns, folder.st_ctime_ns) < settled
            own = complete and {owner for _, owner in entries.values()} <= {os.geteuid()}
            state = _state(folder) if own else ("", "")
            columns = text.encode()
            file.write(_FIELD.join((_edition(limits), f"{zlib.crc32(columns):x}", *state)).encode() + b"\n" + columns)
        try:
            os.rename(staged, name, src_dir_fd=private.fd, dst_dir_fd=private.fd)
        except OSError:
            os.unlink(staged, dir_fd=private.fd)
            raise


def _state(folder: os.stat_result) -> tuple[str, str]:
    """Changes whenever a name in the folder comes or goes."""
    return f"{folder.st_dev}.{folder.st_ino}", f"{folder.st_mtime_ns}.{folder.st_ctime_ns}"


def _rows(entries: Mapping[FileKey, KnownHeading], settled_ns: int) -> tuple[list[tuple[str, ...]], str]:
    """The rows of entries that have settled, and their text, column by column."""
    rows = []
    for (name, number), (heading, owner) in entries.items():
        if number & _CHANGED_NS < settled_ns:
            id_, sender, to, *others = heading
            rows.append((name, str(number), str(owner), id_, sender, ",".join(to), *others))
    text = _text_of(rows)
    # Hardly ever is there a separator in a value. All rows are looked through at once: one by one it takes longer.
    if rows and (text.count(_FIELD), text.count(_COLUMN)) != (_FIELDS * (len(rows) - 1), _FIELDS - 1):
        rows = [row for row in rows if not any(_FIELD in value or _COLUMN in value for value in row)]
        text = _text_of(rows)
    return rows, text


def _text_of(rows: list[tuple[str, ...]]) -> str:
    return _COLUMN.join(map(_FIELD.join, zip(*rows, strict=True)))


def _edition(limits: Limits) -> str:
    """What decides how a heading is read."""
    return f"headings 2 {VERSION} {tuple(limits)}"
