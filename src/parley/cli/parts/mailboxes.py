"""The mailboxes that a command looks into at once, and those that who has no server may have meant."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files.workspace import Workspace
from parley.cli.command import settings_of
from parley.domain.errors.errors import Invalid, ParleyError, UnknownAgent, UnknownProject
from parley.settings import DEFAULT
from parley.wiring import Kernel, agents_of, find_agent, find_home, find_place, find_project, open_kernel, projects_of

if TYPE_CHECKING:
    import argparse

    from parley.settings import Settings


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


class MailboxPlace(NamedTuple):
    """A project, its agents, and which of them runs the command ("" when that cannot be told)."""

    project: str
    agents: list[str]
    agent: str


def mailbox_place(settings: Settings) -> MailboxPlace | None:
    """The mailbox project that mailbox commands would use here; None without one."""
    try:
        home = find_home(settings).value
        project = find_project(settings, home).value
        agents = agents_of(home, project)
    except ParleyError:
        return None
    try:
        agent = find_agent(settings, Workspace(home, project)).value
    except ParleyError:
        agent = ""
    return MailboxPlace(project, agents, agent if agent in agents else "")


def has_no_server(error: ParleyError, args: argparse.Namespace) -> bool:
    """Whether a command failed because no server runs, and none was configured or saved."""
    if error.facts.get("arrived") is not False:
        return False
    from parley.cli.parts.remote import access_of

    access = access_of(args)
    return access.url_source == DEFAULT and access.login is None and not access.key


def mailbox_hint(command: str, args: argparse.Namespace) -> str:
    """The command on mailboxes that does what a command on a server would; "" where there is none."""
    settings = settings_of(args)
    place = mailbox_place(settings) if command in ("ask", "post", "answer", "listen") else None
    if place is None:
        return ""
    sender = f" --from {settings.agent}" if getattr(args, "agent", "") in place.agents and args.agent else ""
    if command in ("ask", "post"):
        name = args.to or args.channel
        if name not in place.agents:
            return ""
        wait = " --wait 5m" if command == "ask" else ""
        return f"for mailboxes: parley send {name} {quote(args.text or 'TEXT')}{wait}{sender}"
    if (getattr(args, "for_agent", "") or settings.agent) not in place.agents:
        return ""
    if command == "answer":
        return f"for mailboxes: parley reply {args.message} {quote(args.text or 'TEXT')}{sender}"
    return f"for mailboxes: parley next --wait 5m --agent {args.for_agent or settings.agent}"
