"""`parley init`: create a project with its agents, and bind a repository to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files.binding import OWN_HOME, bound_projects, repo_path
from parley.adapters.files.seeds import RUNTIMES
from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.domain.errors.errors import Invalid, ProjectExists
from parley.domain.names import agent_name, name_from
from parley.wiring import (
    add_agent,
    agents_of,
    create_project,
    find_bound_place,
    find_bound_project,
    find_home,
    is_by_repo_path,
    make_own_home,
)

if TYPE_CHECKING:
    import argparse

    from parley.settings import Settings, Value

# The command of each coding agent, and its runtime.
_CODING_AGENTS = (
    ("claude", "claude"),
    ("codex", "codex"),
    ("gemini", "gemini"),
    ("cursor-agent", "cursor"),
    ("opencode", "opencode"),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        default=None,
        metavar="PROJECT",
        help="letters, digits, '.', '_' and '-' (default: the name of the repository)",
    )
    parser.add_argument(
        "--agents", default="", help="agents to add, separated by commas (default without PROJECT: those installed)"
    )
    parser.add_argument("--repo", default="", help="repository that the project is about; commands inside it find it")
    parser.add_argument(
        "--here", action="store_true", help="keep the mailboxes in the repository, in .parley/, which git ignores"
    )
    parser.add_argument("--shared", action="store_true", help="let other users of your group deliver to the inboxes")
    parser.add_argument(
        "--home", "--oacp-dir", default="", help="directory of all projects (default: see parley config)"
    )
    add_json(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Without PROJECT, inside a git repository: the project has the name of the\n"
        "repository and a mailbox for each coding agent that is installed (claude, codex,\n"
        "gemini, cursor-agent, opencode), and commands in every folder of the repository\n"
        "find it. If the repository has a project already, init shows it, and adds the\n"
        "agents of --agents that it does not have."
    )


class _NewProject(NamedTuple):
    """A project that is created, or that is there already."""

    home: str
    name: str
    agents: tuple[str, ...]
    repository: str

    @property
    def path(self) -> str:
        return f"{self.home}/projects/{self.name}"


def _init(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    if args.here and (args.home or args.repo):
        raise Invalid(f"--here and {'--home' if args.home else '--repo'} together", hint="leave one of them out")
    repository = settings.repository or (settings.cwd if args.here else "")
    if args.name is None and args.repo and os.path.realpath(args.repo) != os.path.realpath(repository or "/"):
        # Another repository than the one around: it names the project, as it would inside.
        args.name = name_from(os.path.basename(os.path.realpath(args.repo))) or "project"
        args.agents = args.agents or ",".join(_installed_agents(settings))
    if args.name is not None and not args.here:
        return _create_named(args, settings)
    if not repository:
        raise Invalid(
            f"no project name given, and {settings.cwd} is not in a git repository",
            hint="use parley init PROJECT, or run it inside a repository",
        )
    bound = find_bound_place(settings)
    replaces = bound is not None and is_by_repo_path(bound[1]) and _may_replace(args, repository, bound)
    if bound is not None and not replaces:
        return _show_existing(args, settings, repository, *(value.value for value in bound))
    home = make_own_home(repository) if args.here else find_home(settings).value
    # A parley.toml may name one that is not there yet.
    named = find_bound_project(settings, home) if not replaces else None
    name = args.name
    if name is None:
        name = named.value if named else name_from(os.path.basename(repository)) or "project"
    installed = _installed_agents(settings)
    agents = _names(args.agents) or installed
    _create(args, _NewProject(home, name, agents, repository))
    for agent in agents:
        if agent in RUNTIMES:
            add_agent(home, name, agent, runtime=agent, shared=args.shared)
    note = " (installed on this machine)" if agents is installed else ""
    _show_created(args, settings, _NewProject(home, name, agents, repository), note)
    if bound is not None and not args.json:
        before = f"project {bound[1].value} in {safe(bound[0].value)}"
        screen_of(args).line(f"note: {before} was used here before; its messages stay there")
    return OK


def _may_replace(args: argparse.Namespace, repository: str, bound: tuple[Value, Value]) -> bool:
    """Whether a project bound by `repo_path` may be left: for mailboxes here, or as it is of a repository around."""
    home, name = (value.value for value in bound)
    if args.here and not _is_own(home, repository):
        return True
    around = os.path.realpath(repo_path(home, name))
    return os.path.realpath(repository).startswith(around + os.sep)


def _is_own(home: str, repository: str) -> bool:
    return os.path.realpath(home) == os.path.realpath(os.path.join(repository, OWN_HOME))


def _create_named(args: argparse.Namespace, settings: Settings) -> int:
    project = _NewProject(find_home(settings).value, args.name, _names(args.agents), args.repo)
    if args.repo:
        project = project._replace(repository=os.path.realpath(args.repo))
        _check_repository(project)
    _create(args, project)
    return _show_created(args, settings, project)


def _check_repository(project: _NewProject) -> None:
    """A repository belongs to one project of a home: with two, no command could tell which is meant."""
    if not os.path.isdir(project.repository):
        raise Invalid(f"no folder {project.repository}", hint="--repo takes the folder of the repository")
    others, _ = bound_projects(project.home, [project.repository])
    others = [name for name in others if name != project.name]
    if others:
        raise ProjectExists(
            f"{project.repository} belongs to project {others[0]} in {project.home}",
            hint=f"add agents to it: parley agent add NAME --project {others[0]}",
        )


def _create(args: argparse.Namespace, project: _NewProject) -> None:
    try:
        create_project(project.home, project.name, project.agents, repo=project.repository, shared=args.shared)
    except ProjectExists as error:
        if args.name is not None:
            error.hint = f"use another name, or add agents to it: parley agent add NAME --project {project.name}"
        else:
            error.hint = "it belongs to another repository or to none; choose a name: parley init PROJECT --repo ."
        raise


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip(" "))))


def _installed_agents(settings: Settings) -> tuple[str, ...]:
    """The coding agents that are installed, and the one that runs this command."""
    import shutil

    installed = [runtime for command, runtime in _CODING_AGENTS if shutil.which(command)]
    running = [runtime for _, runtime in _CODING_AGENTS if runtime == settings.runtime]
    return tuple(dict.fromkeys((*installed, *running)))


def _show_existing(args: argparse.Namespace, settings: Settings, repository: str, home: str, name: str) -> int:
    """Print what the repository has already; `ProjectExists` when something else was asked for."""
    if args.name not in (None, name) or (args.here and not _is_own(home, repository)):
        raise ProjectExists(
            f"this repository has project {name} in {home}",
            hint="use it, or unbind it first: repo_path in its workspace.json, parley.toml or .oacp",
        )
    added = _add_missing_agents(args, home, name)
    project = _NewProject(home, name, tuple(agents_of(home, name)), repository)
    screen = screen_of(args)
    if args.json:
        screen.json({**_fields(project, created=False), "added": added})
        return OK
    screen.prose(f"This repository has project {name} already, in {safe(project.path)}")
    if added:
        screen.prose(f"Added: {', '.join(added)}")
    screen.prose(f"Agents: {', '.join(project.agents) or 'none'}")
    for agent in [agent for agent in _installed_agents(settings) if agent not in project.agents]:
        runtime = f" --runtime {agent}" if agent in RUNTIMES else ""
        screen.prose(f"Installed and not in the project: {agent} (add it with: parley agent add {agent}{runtime})")
    return OK


def _add_missing_agents(args: argparse.Namespace, home: str, name: str) -> list[str]:
    """Add the agents of --agents that the project does not have."""
    missing = [agent_name(agent) for agent in _names(args.agents) if agent not in agents_of(home, name)]
    if args.shared and not missing:
        raise ProjectExists(f"project {name} has its mailboxes already", hint="--shared is for new ones")
    for agent in missing:
        add_agent(home, name, agent, runtime=agent if agent in RUNTIMES else "", shared=args.shared)
    return missing


def _show_created(args: argparse.Namespace, settings: Settings, project: _NewProject, note: str = "") -> int:
    screen = screen_of(args)
    if args.json:
        screen.json(_fields(project, created=True))
        return OK
    screen.prose(f"Created project {project.name} in {safe(project.path)}")
    if args.here:
        screen.prose(
            f"Git ignores {OWN_HOME}/; commands in every folder of {safe(project.repository)} find the project."
        )
    elif project.repository:
        screen.prose(f"Commands in every folder of {safe(project.repository)} find the project.")
    if project.agents:
        screen.prose(f"Agents: {', '.join(project.agents)}{note}")
        screen.prose(f"Try: parley send {project.agents[-1]} 'Hello?' --from {project.agents[0]}")
    elif args.name is None:
        commands = ", ".join(command for command, _ in _CODING_AGENTS)
        screen.prose(f"No coding agent is installed here: found none of {commands}.")
        screen.prose(
            f"Add agents with: parley agent add NAME --project {project.name}, a coding agent with --runtime"
            f" {'|'.join(RUNTIMES)}"
        )
    else:
        screen.prose(f"Add agents with: parley agent add NAME --project {project.name}")
    if args.here and settings.is_given("home"):
        variable = settings.source_of("home").removeprefix("$")
        screen.prose(f"note: {variable} is set and goes before {OWN_HOME}/; unset it to use this project")
    return OK


def _fields(project: _NewProject, *, created: bool) -> dict[str, object]:
    return {
        "project": project.name,
        "home": project.home,
        "path": project.path,
        "agents": list(project.agents),
        "repo": project.repository or None,
        "created": created,
    }


COMMANDS = {
    "init": Command(
        "Create a project with mailboxes for its agents",
        _add_arguments,
        _init,
        (
            "parley init",
            "parley init --here",
            "parley init demo --agents claude,codex,gemini",
            "parley init demo --repo .",
        ),
    ),
}
