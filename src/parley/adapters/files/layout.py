"""Making projects and agents: the folders and files that every OACP tool expects.

A project is built aside under a hidden name and renamed when it is complete and on disk, so that a crash leaves no
half of one; what a crash leaves aside is swept by the next attempt. An agent is added step by step into a project that
lives, each step idempotent.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files import seeds
from parley.adapters.files.binding import OWN_HOME
from parley.adapters.files.folders import Folder, lock_folder, os_errors
from parley.adapters.files.place import place
from parley.adapters.files.profiles import PROFILE_FILE, read_profile, read_scalars_of, register
from parley.adapters.files.workspace import INBOX_MODE, PASSAGE, PRIVATE, AgentFolder, Workspace
from parley.domain.errors.errors import Invalid, NameExists, NotFound, ParleyError, ProjectExists
from parley.domain.names import agent_name, project_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

_FILE_MODE = 0o600
_PLACEHOLDER = ".gitkeep"
_AGENT_FOLDERS = ("inbox", "inbox/archive", "outbox", "dead_letter", "audit/autonomy_decisions")
_PLACEHOLDER_FOLDERS = (
    "artifacts",
    "checkpoints",
    "merges",
    "packets/deploy",
    "packets/findings",
    "packets/review",
    "packets/test",
)
_PLAIN_FOLDERS = ("logs", "memory", "memory/archive", "state")
_CARD_FILE = "agent_card.yaml"
_CARD_KEYS = ("name", "runtime", "description")


class Action(NamedTuple):
    """One step of a plan; `target` is what a link points to."""

    path: str
    operation: str
    target: str = ""


class CreatedProject(NamedTuple):
    """A new project; links as (place under artifacts/, target)."""

    path: str
    links: list[tuple[str, str]]
    skipped: list[tuple[str, str]]


class AddedAgent(NamedTuple):
    """An agent of a project, with the files that were made and those that were there; paths inside the project."""

    path: str
    created: list[str]
    existing: list[str]
    profile: str
    profile_change: str


class _Tree(NamedTuple):
    """A project's folders and files by their path inside it, parents first, and its links."""

    folders: list[str]
    files: dict[str, str]
    links: list[tuple[str, str]]
    skipped: list[tuple[str, str]]


def plan_project(
    home: str, project: str, agents: Iterable[str], repo: str = "", links: Sequence[tuple[str, str]] = ()
) -> list[Action]:
    """What `create_project` would do. Writes nothing."""
    names = _check_arguments(project, agents, repo, links)
    root = f"{home}/projects/{project}"
    if os.path.lexists(root):
        raise ProjectExists(f"project root already exists: {root}")
    tree = _tree(project, names, repo, links)
    steps = dict.fromkeys(("", *tree.folders), "create_directory") | dict.fromkeys(tree.files, "create_file")
    ordered = sorted(steps, key=_components)
    actions = [Action(f"{root}/{path}" if path else root, steps[path]) for path in ordered]
    actions += [Action(f"{home}/agents/{name}/{PROFILE_FILE}", "ensure_project_membership") for name in names]
    missing = dict(tree.skipped)
    for source, destination in links:
        operation = "skip_missing_source" if destination in missing else "create_symlink"
        actions.append(Action(f"{root}/artifacts/{destination}", operation, _source(repo, source)))
    return actions


def create_project(
    home: str,
    project: str,
    agents: Iterable[str],
    *,
    at: datetime,
    repo: str = "",
    links: Sequence[tuple[str, str]] = (),
    shared: bool = False,
) -> CreatedProject:
    """Make a project with its agents, all of it or none. `shared` lets the group pass through to the inboxes."""
    names = _check_arguments(project, agents, repo, links)
    passage = PASSAGE if shared else PRIVATE
    with _make_home(home, passage) as root, root.make("projects", passage) as projects, lock_folder(projects):
        if projects.stat(project) is not None:
            raise ProjectExists(f"project root already exists: {home}/projects/{project}")
        for name in names:
            read_profile(root, name)  # an unusable one is better met before anything is made
        tree = _tree(project, names, repo, links, at)
        _build(projects, project, tree, passage)
        for name in names:
            register(root, name, project)
    return CreatedProject(f"{home}/projects/{project}", tree.links, tree.skipped)


def make_own_home(folder: str) -> str:
    """The home inside a repository, which git ignores before anything else is in it. Its path."""
    home = os.path.join(folder, OWN_HOME)
    with _make_home(home, PRIVATE) as root, suppress(NameExists):
        place(root, ".gitignore", b"*\n", _FILE_MODE)
    return home


def add_agent(
    home: str, project: str, agent: str, *, at: datetime, runtime: str = "", shared: bool = False
) -> AddedAgent:
    """Give a project an agent, or complete one that is there already; nothing that exists is changed."""
    workspace = Workspace(home, project)
    name = agent_name(agent)
    if runtime and runtime not in seeds.RUNTIMES:
        raise Invalid(f"runtime must be one of {', '.join(seeds.RUNTIMES)}, not {runtime!r}")
    passage = PASSAGE if shared else PRIVATE
    created: list[str] = []
    existing: list[str] = []
    with Folder.root(home) as root, workspace.open() as folder:
        profile = read_profile(root, name) or {}
        with folder.make("agents", passage) as agents, agents.make(name, passage) as own:
            for path, content in _agent_files(name, runtime, profile, at).items():
                is_new = _place_below(own, path, content)
                (created if is_new else existing).append(f"agents/{name}/{path}")
        change = register(root, name, project, runtime)
    return AddedAgent(
        f"{workspace.path}/agents/{name}", created, existing, f"{home}/agents/{name}/{PROFILE_FILE}", change
    )


def read_card(agent: AgentFolder) -> dict[str, str]:
    """Name, runtime and description from an agent's card; without a usable card nothing."""
    try:
        with agent.open() as folder:
            scalars = read_scalars_of(folder, _CARD_FILE)
    except ParleyError:
        return {}
    return {key: scalars[key].strip() for key in _CARD_KEYS if key in scalars}


def _check_arguments(project: str, agents: Iterable[str], repo: str, links: Sequence[tuple[str, str]]) -> list[str]:
    """The agents' names without doubles, after everything was found to be allowed."""
    project_name(project)
    names = [agent_name(name) for name in dict.fromkeys(agents)]
    if links and not repo:
        raise Invalid("--link requires --repo")
    destinations: list[list[str]] = []
    for _, destination in links:
        parts = _components(destination)
        if not parts or destination.startswith("/") or ".." in parts or "\0" in destination:
            raise Invalid("artifact destination must be a relative path inside artifacts/")
        if parts[0] == _PLACEHOLDER:
            raise Invalid("artifact destination collides with workspace layout")
        if parts in destinations:
            raise Invalid("duplicate artifact destination")
        if any(parts[: len(other)] == other or other[: len(parts)] == parts for other in destinations):
            raise Invalid("artifact destinations must not contain each other")
        destinations.append(parts)
    return names


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _source(repo: str, source: str) -> str:
    return os.path.join(os.path.realpath(repo), source)


def _tree(
    project: str, names: list[str], repo: str, links: Sequence[tuple[str, str]], at: datetime | None = None
) -> _Tree:
    """All of a project; the files have their content when `at` is given."""
    plain_folders = [*_PLAIN_FOLDERS]
    placeholder_folders = [
        *_PLACEHOLDER_FOLDERS,
        *(f"agents/{name}/{folder}" for name in names for folder in _AGENT_FOLDERS),
    ]
    files = {f"{folder}/{_PLACEHOLDER}": "" for folder in placeholder_folders}
    files |= {f"agents/{name}/config.yaml": seeds.CONFIG for name in names}
    files |= {
        "memory/decision_log.md": seeds.DECISIONS.format(day=at.astimezone().date().isoformat()) if at else "",
        "memory/known_debt.md": seeds.DEBT,
        "memory/open_threads.md": seeds.THREADS,
        "memory/project_facts.md": seeds.FACTS,
        "workspace.json": seeds.workspace(project, os.path.realpath(repo) if repo else "", at) if at else "",
    }
    targets = [(destination, _source(repo, source)) for source, destination in links]
    present = [target for target in targets if os.path.exists(target[1])]
    return _Tree(
        sorted(plain_folders + placeholder_folders, key=_components),
        files,
        present,
        [target for target in targets if target not in present],
    )


def _build(projects: Folder, project: str, tree: _Tree, passage: int) -> None:
    """The tree under its name, complete and durable in one step."""
    staged = f".{project}.new"
    with os_errors(f"{projects.path}/{project}"):
        if projects.stat(staged) is not None:
            _sweep(projects, staged)
        try:
            with projects.make(staged, PRIVATE) as root:
                _fill(root, tree, passage)
            os.rename(staged, project, src_dir_fd=projects.fd, dst_dir_fd=projects.fd)
        except OSError as error:
            _sweep(projects, staged)
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise ProjectExists(f"project root already exists: {projects.path}/{project}") from None
            raise
    projects.sync()


def _fill(root: Folder, tree: _Tree, passage: int) -> None:
    """Write the tree. The new folder is not reachable by others yet, so paths in it are safe and modes come last."""
    folders: dict[str, int] = {}
    for path in (*tree.folders, *(f"artifacts/{destination}" for destination, _ in tree.links)):
        parts = _components(path)
        for depth in range(1, len(parts) + (path in tree.folders)):
            folders.setdefault("/".join(parts[:depth]), PRIVATE)
    for path in folders:
        os.mkdir(path, PRIVATE, dir_fd=root.fd)
        if path.split("/")[0] == "agents":
            folders[path] = _agent_mode(path, passage)
    for path, content in tree.files.items():
        _write(root, path, content)
    for path, target in tree.links:
        os.symlink(target, "artifacts/" + "/".join(_components(path)), dir_fd=root.fd)
    for path, mode in (*reversed(folders.items()), (".", passage)):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root.fd)
        try:
            os.fchmod(fd, mode)
            os.fsync(fd)
        finally:
            os.close(fd)


def _agent_mode(path: str, passage: int) -> int:
    """agents, agents/<name> are passages; agents/<name>/inbox is where others drop messages."""
    parts = path.split("/")
    if len(parts) <= 2:
        return passage
    return INBOX_MODE if parts[2:] == ["inbox"] else PRIVATE


def _write(root: Folder, path: str, content: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, _FILE_MODE, dir_fd=root.fd)
    try:
        view = memoryview(content.encode())
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, _FILE_MODE)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sweep(projects: Folder, name: str) -> None:
    """Remove what an earlier attempt left aside; the lock on the folder says that its process is dead."""
    import shutil

    shutil.rmtree(name, dir_fd=projects.fd)


def _agent_files(agent: str, runtime: str, profile: dict[str, object], at: datetime) -> dict[str, str]:
    files = {f"{folder}/{_PLACEHOLDER}": "" for folder in _AGENT_FOLDERS} | {"config.yaml": seeds.CONFIG}
    if not runtime:
        return files
    model, description = (str(profile.get(key) or "") for key in ("model", "description"))
    files["status.yaml"] = seeds.status(runtime, model, at)
    files[_CARD_FILE] = seeds.card(agent, runtime, model, description)
    return files


def _place_below(own: Folder, path: str, content: str) -> bool:
    """Whether the file was made; one that is there stays as it is."""
    *folders, name = path.split("/")
    current = own
    for folder in folders:
        child = current.make(folder, INBOX_MODE if folder == "inbox" else PRIVATE)
        if current is not own:
            current.close()
        current = child
    try:
        place(current, name, content.encode(), _FILE_MODE)
    except NameExists:
        return False
    finally:
        if current is not own:
            current.close()
    return True


def _make_home(home: str, mode: int) -> Folder:
    """The home, made when it is missing."""
    try:
        return Folder.root(home)
    except NotFound:
        above = os.path.dirname(os.path.abspath(home))
        with os_errors(home):
            os.makedirs(above, exist_ok=True)
        with Folder.root(above) as parent, os_errors(home):
            try:
                os.mkdir(home, PRIVATE)
            except FileExistsError:
                return Folder.root(home)
            created = Folder.root(home)
            os.fchmod(created.fd, mode)
            parent.sync()
        return created
