"""Looking after a workspace's files: modes that are too open, strays that a crash left, folders that are missing."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files.abilities import probe
from parley.adapters.files.folders import Folder, reported
from parley.adapters.files.place import is_temporary
from parley.adapters.files.workspace import INBOX_MODE, LEDGER_FOLDER, PRIVATE, AgentFolder
from parley.domain.errors.errors import NotFound, ParleyError
from parley.domain.names import is_message_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STRAY_SECONDS = 3600
_OTHERS = 0o007
_GROUP_READ = 0o040


class Finding(NamedTuple):
    """Something about a workspace that its owner should know; `mend` does away with it where we can."""

    level: str
    code: str
    agent: str
    detail: str
    mend: Callable[[], None] | None = None


def examine(agent: AgentFolder, now: float) -> Iterator[Finding]:
    """All findings about one agent's files; `now` in seconds since the epoch."""
    try:
        with agent.folder("inbox") as inbox:
            yield from _abilities(agent, inbox)
            yield from _strays(agent, inbox, now)
    except NotFound:
        yield Finding(
            "fail", "no_inbox", agent.name, "has no inbox", lambda: agent.made("inbox", mode=INBOX_MODE).close()
        )
        return
    except ParleyError as error:
        yield Finding("fail", error.code, agent.name, error.message)
        return
    yield from _modes(agent)
    yield from _unread(agent)


def _abilities(agent: AgentFolder, inbox: Folder) -> Iterator[Finding]:
    with reported(inbox.path):
        abilities = probe(inbox)
    for ability in abilities:
        if not ability.works:
            detail = f"{ability.name} does not work here: {ability.detail}"
            yield Finding("fail" if ability.vital else "note", "file_system", agent.name, detail)


def _strays(agent: AgentFolder, inbox: Folder, now: float) -> Iterator[Finding]:
    for name in inbox.names():
        found = inbox.stat(name)
        if is_temporary(name) and found and now - found.st_mtime > _STRAY_SECONDS:
            detail = f"inbox/{name} was left by a sender that died"
            yield Finding("warn", "stray_file", agent.name, detail, _remover(agent, name))


def _remover(agent: AgentFolder, name: str) -> Callable[[], None]:
    def remove() -> None:
        with agent.folder("inbox") as inbox, reported(inbox.path):
            os.unlink(name, dir_fd=inbox.fd)

    return remove


def _modes(agent: AgentFolder) -> Iterator[Finding]:
    for name in ("inbox", "outbox", "dead_letter", LEDGER_FOLDER):
        try:
            with agent.folder(name) as folder:
                mode = stat.S_IMODE(os.fstat(folder.fd).st_mode)
        except NotFound:
            continue
        too_open = mode & _OTHERS or (name == "inbox" and mode & _GROUP_READ) or (name != "inbox" and mode & 0o070)
        if too_open:
            detail = f"{name} is open to other users (mode {mode:04o})"
            yield Finding("warn", "open_mode", agent.name, detail, _closer(agent, name))


def _closer(agent: AgentFolder, name: str) -> Callable[[], None]:
    def close() -> None:
        with agent.folder(name) as folder, reported(folder.path):
            os.fchmod(folder.fd, INBOX_MODE if name == "inbox" else PRIVATE)

    return close


def _unread(agent: AgentFolder) -> Iterator[Finding]:
    """Mail for somebody who has never been seen to read any."""
    waiting = [name for name in os.listdir(f"{agent.path}/inbox") if is_message_file(name)]
    archive = f"{agent.path}/inbox/archive"
    read_some = os.path.isdir(archive) and any(is_message_file(name) for name in os.listdir(archive))
    if waiting and not read_some and not agent.has_ledger:
        yield Finding("note", "no_reader", agent.name, f"mail waits ({len(waiting)}) and nobody has read any yet")
