"""What to do when the mailboxes cannot be written: which setting of a sandbox is missing, or whose folder it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley.adapters.files.binding import OWN_HOME
from parley.domain.errors.errors import ParleyError
from parley.wiring import find_home

if TYPE_CHECKING:
    from parley.settings import Settings

_SETTINGS = {
    "codex": "start Codex with --add-dir {home}, or add it to sandbox_workspace_write.writable_roots in"
    " ~/.codex/config.toml",
    "claude": "add {home} to sandbox.filesystem.allowWrite in the settings.json of Claude Code",
}
_ANY = "allow writing to {home} in the settings of the sandbox"


def sandbox_hint(settings: Settings, path: object) -> str:
    """What to do about a file below the home that a sandbox keeps from being written; "" when it is not a sandbox."""
    try:
        home = find_home(settings).value
    except ParleyError:
        return ""
    if not isinstance(path, str) or not f"{path}/".startswith(f"{home}/") or not _is_sandboxed(settings, path):
        return ""
    hint = f"this looks like a sandbox: {_SETTINGS.get(settings.runtime, _ANY).format(home=home)}"
    if os.path.basename(home) == OWN_HOME:
        return hint
    return f"{hint}, or keep the mailboxes in the repository: parley init --here"


def owner_hint(settings: Settings, path: object) -> str:
    """What to do about a folder below the home that belongs to another user; "" when it does not."""
    try:
        home = find_home(settings).value
        folder = _nearest_folder(path) if isinstance(path, str) and f"{path}/".startswith(f"{home}/") else ""
        owner = os.stat(folder).st_uid if folder else os.geteuid()
    except (ParleyError, OSError):
        return ""
    if owner == os.geteuid():
        return ""
    from pwd import getpwuid

    try:
        name = getpwuid(owner).pw_name
    except KeyError:
        name = str(owner)
    hint = (
        f"{folder} belongs to user {name}: run the command as {name}, or let {name} share the project with your group"
    )
    if os.path.basename(home) == OWN_HOME:
        return hint
    return f"{hint}, or keep the mailboxes in the repository: parley init --here"


def _nearest_folder(path: str) -> str:
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _is_sandboxed(settings: Settings, path: str) -> bool:
    """Whether the file system is read-only, or a coding agent may not write what its user may."""
    path = _nearest_folder(path)
    try:
        read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
    return read_only or (bool(settings.runtime) and os.access(path, os.W_OK | os.X_OK))
