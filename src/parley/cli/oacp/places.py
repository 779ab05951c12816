"""Where the drop-in acts: the home as the OACP tool finds it, and paths as it prints them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley.cli.oacp.refusal import Refusal
from parley.domain.names import is_name
from parley.wiring import find_home

if TYPE_CHECKING:
    from parley.settings import Settings

NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
BAD_PROJECT = "project name must not contain path separators or start with '.'"


def home_of(oacp_dir: str | None, settings: Settings) -> str:
    """The home: `--oacp-dir`, else the environment, else a marker above the working directory, else ~/oacp."""
    home = find_home(settings).value if oacp_dir is None else os.path.expanduser(oacp_dir)
    return shown(home)


def shown(*parts: str) -> str:
    """A path as the tool prints it: as given, without `./` and doubled slashes."""
    path = os.path.join(*parts)
    inner = "/".join(part for part in path.split("/") if part not in ("", "."))
    return f"/{inner}" if path.startswith("/") else inner or "."


def check_project(name: str) -> None:
    """Refuse what could leave the home, and what no project of ours can be called."""
    if name.startswith(".") or "/" in name or "\\" in name:
        raise Refusal(BAD_PROJECT)
    if not name:
        raise Refusal("project name must not be empty")
    if not is_name(name):
        rule = "must start with alphanumeric, contain only [A-Za-z0-9._-], and be 1-64 chars"
        raise Refusal(f"Invalid project name {name!r}: {rule}")


def require_agent(home: str, project: str, agent: str) -> None:
    """Refuse a project or an agent that is not there; the tool itself would make it up on the spot."""
    check_project(project)
    if not os.path.isdir(f"{home}/projects/{project}"):
        raise Refusal(f"project '{project}' not found under {shown(home, 'projects')}")
    if not is_name(agent) or not os.path.isdir(f"{home}/projects/{project}/agents/{agent}"):
        raise Refusal(f"agent '{agent}' not found in project '{project}'")
