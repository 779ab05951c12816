"""`oacp agent add`: give a project an agent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.cli.oacp.arguments import make_parser
from parley.cli.oacp.cells import harmless
from parley.cli.oacp.places import NAME_PATTERN, check_project, home_of, shown
from parley.cli.oacp.refusal import Refusal
from parley.domain.errors.errors import BadAgentName, BadConfig, ParleyError, UnknownProject
from parley.settings import load

if TYPE_CHECKING:
    import argparse

_OTHERS = ("init", "sync", "show", "list")
_RUNTIMES = ("claude", "codex", "cursor", "gemini")


def run(arguments: list[str]) -> int:
    group = _group()
    args, rest = group.parse_known_args(arguments)
    if args.subcommand is None:
        if rest:
            group.error(f"unrecognized arguments: {' '.join(rest)}")
        group.print_help()
        return 0
    if args.subcommand in _OTHERS:
        name = args.subcommand
        sys.stderr.write(f"Error: Parley has no 'agent {name}' command — use the OACP tool itself: oacp agent {name}\n")
        return 2
    inner = _parser().parse_args(args.rest)
    oacp_dir = args.oacp_dir if inner.oacp_dir is None else inner.oacp_dir
    try:
        return _add(inner.project_name, inner.agent_name, inner.runtime or "", oacp_dir)
    except Refusal as refusal:
        sys.stderr.write(harmless(f"Error: {refusal}\n"))
    except ParleyError as error:
        sys.stderr.write(harmless(f"Error: {error.message}\n"))
    return 1


def _group() -> argparse.ArgumentParser:
    group = make_parser(prog="oacp agent", allow_abbrev=False, description="Agents of a project.")
    group.add_argument("--oacp-dir", help="OACP home (default: $OACP_HOME, a marker, ~/oacp)")
    commands = group.add_subparsers(dest="subcommand", prog=group.prog)
    form = group.formatter_class
    for name, text in (("add", "add an agent to a project"), *((name, "only in the OACP tool") for name in _OTHERS)):
        # What follows the sub-command is for its own parser: here no character starts an option.
        command = commands.add_parser(name, help=text, add_help=False, prefix_chars="\0", formatter_class=form)
        command.add_argument("rest", nargs="*")
    return group


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(prog="add_agent.py", description="Add an agent to a project.")
    parser.add_argument("project_name", help="project name")
    parser.add_argument("agent_name", help="agent name")
    parser.add_argument("--runtime", choices=_RUNTIMES, help="also write a status file and a card for this runtime")
    parser.add_argument("--oacp-dir", help="OACP home (default: $OACP_HOME, a marker, ~/oacp)")
    return parser


def _add(project: str, agent: str, runtime: str, oacp_dir: str | None) -> int:
    from parley.adapters.files.layout import add_agent
    from parley.adapters.process import SystemClock

    home = home_of(oacp_dir, load())
    check_project(project)
    try:
        added = add_agent(home, project, agent, at=SystemClock().now().at, runtime=runtime)
    except BadAgentName:
        raise Refusal(f"Invalid agent name '{agent}': must match {NAME_PATTERN}") from None
    except UnknownProject:
        raise Refusal(f"Project '{project}' not found at {shown(home, 'projects', project)}") from None
    except BadConfig as error:
        is_project_error = error.message.startswith("projects must be")
        raise Refusal(
            error.message if is_project_error else f"could not load global profile for '{agent}': {error.message}"
        ) from None
    lines = [f"Agent '{agent}' added to project '{project}':", f"  {shown(added.path)}"]
    lines += [f"  + {path}" for path in added.created]
    lines += [f"  ~ {path} (already exists, skipped)" for path in added.existing]
    mark = "+" if added.profile_change == "created" else "~"
    lines.append(f"  {mark} {shown(added.profile)} (registry {added.profile_change})")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
