"""What binds a folder to a project: a marker, a home inside a repository, and `repo_path` in workspace.json."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley.adapters.files.workspace import projects

if TYPE_CHECKING:
    from collections.abc import Iterable

    # A home, a project or "", and what names them. A NamedTuple would take a millisecond of every command.
    Binding = tuple[str, str, str]

WORKSPACE_FILE = "workspace.json"
MARKERS = (".oacp", WORKSPACE_FILE)
# The home of a repository that keeps its own mailboxes. An agent's folder has one of the same name, without projects.
OWN_HOME = ".parley"
_MOST_BYTES = 65_536
_KEY = '"repo_path"'


def marker_in(folder: str) -> Binding | None:
    """The project that a marker in a folder points to.

    A marker is `.oacp` or `workspace.json` that, links followed, is home/projects/<project>/workspace.json.
    """
    for marker in MARKERS:
        path = os.path.join(folder, marker)
        if os.path.lexists(path):
            project, name = os.path.split(os.path.realpath(path))
            home, projects_folder = os.path.split(os.path.dirname(project))
            if name == WORKSPACE_FILE and projects_folder == "projects":
                return home, os.path.basename(project), path
    return None


def own_home_in(folder: str) -> Binding | None:
    """The home that a repository keeps inside itself."""
    path = os.path.join(folder, OWN_HOME)
    return (path, "", path) if os.path.isdir(os.path.join(path, "projects")) else None


def bound_projects(home: str, folders: Iterable[str]) -> tuple[list[str], str]:
    """The projects whose `repo_path` is the first of these folders that any project has, and that folder."""
    by_folder: dict[str, list[str]] = {}
    for project in projects(home):
        repository = repo_path(home, project)
        if repository:
            by_folder.setdefault(os.path.realpath(repository), []).append(project)
    return next(((by_folder[folder], folder) for folder in folders if folder in by_folder), ([], ""))


def repo_path(home: str, project: str) -> str:
    """The repository that a project is about, by its workspace.json; "" when it names none."""
    try:
        with open(f"{home}/projects/{project}/{WORKSPACE_FILE}", "rb") as file:
            text = file.read(_MOST_BYTES).decode()
    except (OSError, ValueError):
        return ""
    _, key, rest = text.partition(_KEY)
    value = rest.lstrip().removeprefix(":").lstrip()
    if not key or value.startswith("null"):
        return ""
    path = value[1:].partition('"')[0]
    if value.startswith('"') and "\\" not in path and _KEY not in rest:
        return path  # as every tool writes it; importing json takes a tenth of a command's time
    import json

    try:
        fields = json.loads(text)
    except ValueError:
        return ""
    parsed = fields.get("repo_path") if isinstance(fields, dict) else None
    return parsed if isinstance(parsed, str) else ""
