"""`parley init`: create a project with its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import OK
from parley.domain.errors.errors import ProjectExists
from parley.wiring import create_project, find_home

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="PROJECT", help="letters, digits, '.', '_' and '-'")
    parser.add_argument("--agents", default="", help="agents to add, separated by commas")
    parser.add_argument("--repo", default="", help="repository that the project is about")
    parser.add_argument("--shared", action="store_true", help="let other users of your group deliver to the inboxes")
    parser.add_argument(
        "--home", "--oacp-dir", default="", help="directory of all projects (default: see parley config)"
    )
    add_json(parser)


def _init(args: argparse.Namespace) -> int:
    home = find_home(settings_of(args)).value
    agents = tuple(name for part in args.agents.split(",") if (name := part.strip(" ")))
    try:
        created = create_project(home, args.name, agents, repo=args.repo, shared=args.shared)
    except ProjectExists as error:
        error.hint = f"use another name, or add agents to it: parley agent add NAME --project {args.name}"
        raise
    screen = screen_of(args)
    if args.json:
        screen.json({"project": args.name, "home": home, "path": created.path, "agents": list(agents)})
        return OK
    screen.line(f"Created project {args.name} in {created.path}")
    if agents:
        screen.line(f"Agents: {', '.join(agents)}")
        screen.line(
            f"Try: parley send --from {agents[0]} --to {agents[-1]} --type question --subject Hello --body 'Hi.'"
        )
    else:
        screen.line(f"Add agents with: parley agent add NAME --project {args.name}")
    if args.repo:
        screen.line(f"To find it from the repository: ln -s {created.path}/workspace.json {args.repo}/.oacp")
    return OK


COMMANDS = {
    "init": Command(
        "Create a project with mailboxes for its agents",
        _add_arguments,
        _init,
        ("parley init demo --agents claude,codex,gemini", "parley init demo --repo ."),
    ),
}
