"""The mailboxes that a command looks into at once: several agents, several projects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.cli.command import settings_of
from parley.domain.errors.errors import Invalid, UnknownAgent, UnknownProject
from parley.wiring import Kernel, agents_of, find_home, find_place, find_project, open_kernel, projects_of

if TYPE_CHECKING:
    import argparse


class OpenMailbox(NamedTuple):
    """A mailbox with the names that tell it from the others."""

    home: str
    project: str
    agent: str
    kernel: Kernel


def add_several(parser: argparse.ArgumentParser) -> None:
    """Add the options that name more than one mailbox."""
    parser.add_argument("--all", action="store_true", help="every agent of the project")
    parser.add_argument("--all-projects", action="store_true", help="in every project of the home directory")


def names_several(args: argparse.Namespace) -> bool:
    """Return whether the options may name more than one mailbox."""
    settings = settings_of(args)
    return args.all or args.all_projects or "," in settings.agent or "," in settings.project


def mailboxes_of(args: argparse.Namespace) -> list[OpenMailbox]:
    """Open the mailboxes that the options name, by project and agent."""
    settings = settings_of(args)
    if args.all and args.agent:
        raise Invalid("--all and --agent together", hint="leave one of them out")
    if not names_several(args):
        place = find_place(settings)
        home, project, agent = place.home.value, place.project.value, place.agent.value
        return [OpenMailbox(home, project, agent, open_kernel(home, project, agent, settings))]
    home = find_home(settings).value
    if args.all_projects:
        projects = projects_of(home)
    else:
        projects = _names(settings.project) or [find_project(settings, home).value]
    if not projects:
        raise UnknownProject(f"no project in {home}", hint="create one with: parley init PROJECT")
    chosen = [] if args.all else _names(settings.agent)
    mailboxes = []
    for project in projects:
        present = agents_of(home, project)
        # In all projects, an agent is looked at where it is.
        agents = [name for name in chosen if name in present or not args.all_projects] if chosen else present
        mailboxes += [OpenMailbox(home, project, name, open_kernel(home, project, name, settings)) for name in agents]
    if not mailboxes:
        raise UnknownAgent(f"no agent {', '.join(chosen) or 'at all'} in {', '.join(projects)}")
    return mailboxes


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
