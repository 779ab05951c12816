"""Looking after a workspace's files: modes that are too open, strays that a crash left, folders that are missing."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files.abilities import probe
from parley.adapters.files.folders import Folder, os_errors
from parley.adapters.files.place import is_temporary
from parley.adapters.files.workspace import DEAD_LETTERS, INBOX_MODE, LEDGER_FOLDER, PRIVATE, AgentFolder
from parley.domain.errors.errors import NotFound, ParleyError
from parley.domain.names import MESSAGE_ENDINGS, is_message_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STRAY_SECONDS = 3600
# How many files of one folder are named.
_FILES_NAMED = 20
_OTHERS = 0o007
_GROUP_READ = 0o040


class CheckupFinding(NamedTuple):
    """A problem in a workspace that its owner should know; `fix` repairs it where that is possible."""

    level: str
    code: str
    agent: str
    detail: str
    fix: Callable[[], None] | None = None


def examine(agent: AgentFolder, now: float) -> Iterator[CheckupFinding]:
    """All findings about one agent's files; `now` in seconds since the epoch."""
    try:
        with agent.folder("inbox") as inbox:
            yield from _abilities(agent, inbox)
            yield from _strays(agent, inbox, now)
            yield from _never_read(agent, inbox)
    except NotFound:
        yield CheckupFinding(
            "fail", "no_inbox", agent.name, "has no inbox", lambda: agent.make_folder("inbox", mode=INBOX_MODE).close()
        )
        return
    except ParleyError as error:
        yield CheckupFinding("fail", error.code, agent.name, error.message)
        return
    yield from _modes(agent)
    yield from _unread(agent)


def _abilities(agent: AgentFolder, inbox: Folder) -> Iterator[CheckupFinding]:
    with os_errors(inbox.path):
        abilities = probe(inbox)
    for ability in abilities:
        if not ability.works:
            detail = f"{ability.name} does not work here: {ability.detail}"
            yield CheckupFinding("fail" if ability.vital else "note", "file_system", agent.name, detail)


def _strays(agent: AgentFolder, inbox: Folder, now: float) -> Iterator[CheckupFinding]:
    for name in inbox.names():
        info = inbox.stat(name)
        if is_temporary(name) and info and now - info.st_mtime > _STRAY_SECONDS:
            detail = f"inbox/{name} was left by a sender that died"
            yield CheckupFinding("warn", "stray_file", agent.name, detail, _stray_remover(agent, name))


def _never_read(agent: AgentFolder, inbox: Folder) -> Iterator[CheckupFinding]:
    """Report files that look like messages and that no reader takes for one: by their ending, or in a folder."""
    for name in sorted(inbox.names()):
        if not is_message_file(name) and name.lower().endswith(MESSAGE_ENDINGS):
            detail = f"inbox/{name} is not read; rename it, so that it ends in .yaml"
            yield CheckupFinding("warn", "not_read", agent.name, detail)
        info = inbox.stat(name)
        if info is None or not stat.S_ISDIR(info.st_mode) or name == "archive":
            continue
        with inbox.sub(name) as folder:
            names = sorted(folder.names()) if folder.listable else []
        for inner in [inner for inner in names if inner.lower().endswith(MESSAGE_ENDINGS)][:_FILES_NAMED]:
            detail = f"inbox/{name}/{inner} is not read; move it to inbox/"
            yield CheckupFinding("warn", "not_read", agent.name, detail)


def _stray_remover(agent: AgentFolder, name: str) -> Callable[[], None]:
    def remove() -> None:
        with agent.folder("inbox") as inbox, os_errors(inbox.path):
            os.unlink(name, dir_fd=inbox.fd)

    return remove


def _modes(agent: AgentFolder) -> Iterator[CheckupFinding]:
    for name in ("inbox", "outbox", DEAD_LETTERS, LEDGER_FOLDER):
        try:
            with agent.folder(name) as folder:
                mode = stat.S_IMODE(os.fstat(folder.fd).st_mode)
        except NotFound:
            continue
        too_open = mode & _OTHERS or (name == "inbox" and mode & _GROUP_READ) or (name != "inbox" and mode & 0o070)
        if too_open:
            detail = f"{name} is open to other users (mode {mode:04o})"
            yield CheckupFinding("warn", "open_mode", agent.name, detail, _mode_fixer(agent, name))


def _mode_fixer(agent: AgentFolder, name: str) -> Callable[[], None]:
    def close() -> None:
        with agent.folder(name) as folder, os_errors(folder.path):
            os.fchmod(folder.fd, INBOX_MODE if name == "inbox" else PRIVATE)

    return close


def _unread(agent: AgentFolder) -> Iterator[CheckupFinding]:
    """Report unread messages of an agent that has never read any."""
    unread = [name for name in os.listdir(f"{agent.path}/inbox") if is_message_file(name)]
    archive = f"{agent.path}/inbox/archive"
    has_read = os.path.isdir(archive) and any(is_message_file(name) for name in os.listdir(archive))
    if unread and not has_read and not agent.has_ledger:
        yield CheckupFinding("note", "no_reader", agent.name, f"mail waits ({len(unread)}) and nobody has read any yet")
