"""Where a command acts: the home and the project, found from flags, variables, files and the working directory.

flag > variable > nearest of parley.toml, .oacp and .parley/ > repo_path > user file > the only project, ~/oacp
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from parley.adapters.files.binding import bound_projects, marker_in, own_home_in, repo_path
from parley.adapters.files.workspace import projects
from parley.domain.errors.errors import Ambiguous, UnknownProject
from parley.settings import Settings, Value, check_owner

if TYPE_CHECKING:
    # A home, a project, and the home in which alone the project counts, or "". Not a NamedTuple: see `binding`.
    Bound = tuple[Value | None, Value | None, str]

_BY_REPO_PATH = "repo_path in "


def find_home(settings: Settings) -> Value:
    """The home: as given, else as a folder up from the working directory says, else the user's, else ~/oacp."""
    bound_home = None if settings.is_given("home") else _bound(settings)[0]
    if bound_home is not None:
        return bound_home
    if settings.home:
        return Value("home", os.path.expanduser(settings.home), settings.source_of("home"))
    return Value("home", os.path.join(settings.user_home, "oacp"), "default")


def find_project(settings: Settings, home: str) -> Value:
    """The project: as given, else the one that the working directory is bound to, else the only one there is."""
    if settings.is_given("project"):
        return Value("project", settings.project, settings.source_of("project"))
    bound = find_bound_project(settings, home)
    if bound is not None:
        return bound
    if settings.project and _bound(settings)[0] is None:  # then the user's own file names it
        return Value("project", settings.project, settings.source_of("project"))
    existing = projects(home)
    if len(existing) == 1:
        _check_not_of_another_repository(settings, home, existing[0])
        return Value("project", existing[0], "the only project")
    if not existing:
        command = "parley init" if settings.repository else "parley init PROJECT"
        raise UnknownProject(f"no project in {home}", hint=f"create one with: {command}")
    hint = f"add --project with one of {', '.join(existing)}"
    if settings.repository:
        hint += ", or create one for this repository: parley init"
    raise Ambiguous(f"{len(existing)} projects in {home}", hint=hint)


def find_bound_project(settings: Settings, home: str) -> Value | None:
    """The project of a home that the working directory is bound to, by a file or by `repo_path`; None without one."""
    _, project, project_home = _bound(settings)
    if project is not None and (not project_home or _is_same(project_home, home)):
        return project
    names, folder = bound_projects(home, _ancestors(settings))
    if len(names) > 1:
        raise Ambiguous(
            f"projects {' and '.join(names)} in {home} both belong to {folder}",
            hint="add --project with one of them, or change repo_path in the workspace.json of the other",
        )
    if not names:
        return None
    return Value("project", names[0], f"{_BY_REPO_PATH}{home}/projects/{names[0]}/workspace.json")


def find_bound_place(settings: Settings) -> tuple[Value, Value] | None:
    """Home and project that the working directory is bound to, if the project is there."""
    home = find_home(settings)
    bound = find_bound_project(settings, home.value)
    existing = projects(home.value)
    if bound is None and _bound(settings)[0] is not None and len(existing) == 1:
        return home, Value("project", existing[0], home.source)
    return (home, bound) if bound is not None and bound.value in existing else None


def is_by_repo_path(project: Value) -> bool:
    """Whether a project was found by its `repo_path`, and not by a file or folder, which would go before it."""
    return project.source.startswith(_BY_REPO_PATH)


def only_project(home: str) -> str:
    """The only project of a home, wherever the working directory is."""
    existing = projects(home)
    if len(existing) == 1:
        return existing[0]
    if existing:
        raise Ambiguous(f"{len(existing)} projects in {home}", hint=f"name one of {', '.join(existing)}")
    raise UnknownProject(f"no project in {home}", hint="create one with: parley init")


def _check_not_of_another_repository(settings: Settings, home: str, project: str) -> None:
    """The only project is a fair guess, but not in a repository when it belongs to another one."""
    bound_home, _, _ = _bound(settings)
    if not settings.repository or (bound_home is not None and _is_same(bound_home.value, home)):
        return
    repository = repo_path(home, project)
    if repository:
        raise UnknownProject(
            f"no project for the repository {settings.repository}: the only one in {home}, {project}, belongs to"
            f" {repository}",
            hint=f"create one with: parley init, or add --project {project}",
        )


def _ancestors(settings: Settings) -> list[str]:
    """The working directory and all above it, then the same inside the repository of a linked worktree."""
    paths = _up(settings.cwd)
    main, linked = settings.repository, settings.folders[-2:-1]
    if main and settings.folders[-1] == main and linked and main not in paths:
        inside = os.path.relpath(settings.cwd, linked[0])
        paths += _up(os.path.normpath(os.path.join(main, inside)))
    return paths


def _up(folder: str) -> list[str]:
    paths = [folder]
    while (above := os.path.dirname(paths[-1])) != paths[-1]:
        paths.append(above)
    return paths


@lru_cache(4)
def _bound(settings: Settings) -> Bound:
    """The nearest home and project; a project above the nearest home belongs to another one.

    Files and homes count where `settings.folders` says; a marker is a part of OACP and counts wherever it is above. Its
    project counts only in its home.
    """
    project, project_home = None, ""
    for folder in dict.fromkeys((*settings.folders, *_up(settings.cwd))):
        home, nearer, nearer_home = _bound_in(settings, folder)
        if project is None:
            project, project_home = nearer, nearer_home
        if home is not None:
            return home, project, project_home
    return None, project, project_home


def _bound_in(settings: Settings, folder: str) -> Bound:
    """What the files of one folder say together. `Ambiguous` where they contradict each other."""
    marker = marker_in(folder)
    inside = own_home_in(folder) if folder in settings.folders else None
    values = [value for value in settings.places if os.path.dirname(value.source) == folder]
    if marker is None and inside is None and not values:
        return None, None, ""
    homes = [value for value in values if value.name == "home"]
    names = [value for value in values if value.name == "project"]
    project_home = marker[0] if marker is not None and not names else ""
    for home, project, source in filter(None, (marker, inside)):
        # A workspace.json that is no link is the project itself.
        if not project or os.path.islink(source):
            check_owner(source, settings.cwd)
        homes.append(Value("home", home, source))
        if project:
            names.append(Value("project", project, source))
    if not settings.is_given("home"):
        _check_agreement(homes, [os.path.realpath(value.value) for value in homes])
    if not settings.is_given("project"):
        _check_agreement(names, [value.value for value in names])
    return homes[0] if homes else None, names[0] if names else None, project_home


def _check_agreement(values: list[Value], meanings: list[str]) -> None:
    for value, meaning in zip(values, meanings, strict=True):
        if meaning != meanings[0]:
            first = values[0]
            raise Ambiguous(
                f"{first.source} names the {first.name} {first.value}, {value.source} names {value.value}",
                hint=f"remove one of them, or add --{first.name}",
            )


def _is_same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
