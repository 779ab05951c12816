"""The profile of an agent across projects: home / agents / <agent> / profile.yaml."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from parley.adapters.files import seeds
from parley.adapters.files.folders import Folder, lock_folder, os_errors
from parley.adapters.files.place import place, replace
from parley.adapters.files.workspace import PRIVATE
from parley.domain.errors.errors import BadConfig, NotAMapping, NotFound, NotRegular, NotText, TooLarge, Unreadable
from parley.domain.limits import DEFAULT_LIMITS
from parley.wire.yaml.plain import is_blank
from parley.wire.yaml.scalars import read_scalars

if TYPE_CHECKING:
    from parley.domain.message.message import Value

PROFILE_FILE = "profile.yaml"
_FILE_MODE = 0o600


def read_scalars_of(folder: Folder, name: str) -> dict[str, str]:
    """The top-level scalars of a small YAML file, as texts; none when there is no such file."""
    text = read_text(folder, name)
    if text is None:
        return {}
    scalars = read_scalars(text, DEFAULT_LIMITS)
    if scalars is None:
        scalars = {key: value for key, value in _read_strict(text).items() if isinstance(value, str)}
    return scalars


def read_profile(home: Folder, agent: str) -> dict[str, object] | None:
    """The profile with its types; None when the agent has none, `BadConfig` when it cannot be used."""
    try:
        with home.walk("agents", agent) as folder:
            return _read_profile(folder)
    except NotFound:
        return None


def _read_profile(folder: Folder) -> dict[str, object] | None:
    path = f"{folder.path}/{PROFILE_FILE}"
    text = read_text(folder, PROFILE_FILE)
    if text is None or is_blank(text):
        return None if text is None else {}
    try:
        _read_strict(text)
    except NotAMapping as error:
        raise BadConfig(f"top-level YAML must be a mapping: {path}") from error
    except Unreadable as error:
        raise BadConfig(f"invalid YAML in {path}: {error.message}") from error
    import yaml

    # The strict reader has seen that it is one plain bounded mapping; this one gives the types back.
    profile: dict[str, object] = yaml.safe_load(text)
    projects = profile.get("projects")
    if projects is not None and not (isinstance(projects, list) and all(isinstance(name, str) for name in projects)):
        raise BadConfig(f"projects must be a list of strings in {path}")
    return profile


def register(home: Folder, agent: str, project: str, runtime: str = "") -> str:
    """Note in the agent's profile that it takes part in a project: created, updated or unchanged."""
    with home.make("agents", PRIVATE) as agents, agents.make(agent, PRIVATE) as folder, lock_folder(folder):
        profile = _read_profile(folder)
        if profile is None:
            place(folder, PROFILE_FILE, seeds.profile(agent, runtime, project).encode(), _FILE_MODE)
            return "created"
        updated = {
            **profile,
            **{key: text for key, text in seeds.identity(agent, runtime).items() if key not in profile},
        }
        projects = profile.get("projects") or []
        if isinstance(projects, list) and project not in projects:
            updated["projects"] = [*projects, project]
        if updated == profile:
            return "unchanged"
        import yaml

        replace(folder, PROFILE_FILE, yaml.safe_dump(updated, sort_keys=False, allow_unicode=True).encode())
        return "updated"


def read_text(folder: Folder, name: str) -> str | None:
    path = f"{folder.path}/{name}"
    with os_errors(path):
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.fd)
        except FileNotFoundError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise NotRegular(f"{path} is not a regular file")
            content = os.read(fd, DEFAULT_LIMITS.file_bytes + 1)
        finally:
            os.close(fd)
    if len(content) > DEFAULT_LIMITS.file_bytes:
        raise TooLarge(f"{path} is larger than {DEFAULT_LIMITS.file_bytes} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise NotText(f"byte {error.start} is not UTF-8") from None


def _read_strict(text: str) -> dict[str, Value]:
    from parley.wire.yaml.strict import read_strict  # PyYAML costs 25 ms to import

    return read_strict(text, DEFAULT_LIMITS)
