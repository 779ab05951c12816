"""`oacp init`: create a project workspace."""

from __future__ import annotations

import argparse
import json
import os
import sys

from parley.cli.oacp.arguments import make_parser
from parley.cli.oacp.cells import harmless
from parley.cli.oacp.places import check_project, home_of, shown
from parley.cli.oacp.refusal import Refusal
from parley.domain.errors.errors import BadAgentName, ParleyError, ProjectExists
from parley.domain.names import is_name
from parley.settings import load

_EXISTS = 3
_NAME_RULE = "must start with alphanumeric, contain only [A-Za-z0-9._-], and be 1-64 chars"


def run(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    home = home_of(args.oacp_dir, load())
    root = shown(home, "projects", args.project_name)
    agents = list(dict.fromkeys(name.strip() for name in args.agents.split(",") if name.strip()))
    repo = os.path.realpath(os.path.expanduser(args.repo)) if args.repo else ""
    try:
        check_project(args.project_name)
        for name in agents:
            if not is_name(name):
                raise BadAgentName(f"Invalid agent name '{name}': {_NAME_RULE}")
        if args.dry_run:
            return _plan(home, root, agents, repo, args)
        return _create(home, root, agents, repo, args)
    except ProjectExists:
        return _refused(f"project root already exists: {root}", "already_exists", _EXISTS, args)
    except (Refusal, ParleyError) as error:
        return _refused(str(error), "initialization_failed", 1, args)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(prog="init_project_workspace.py", description="Create a new project workspace.")
    parser.add_argument("project_name", help="project name")
    parser.add_argument("--repo", help="repository that belongs to the project")
    parser.add_argument(
        "--link",
        action="append",
        default=[],
        type=_link,
        metavar="SRC:DST",
        help="link SRC in the repository as artifacts/DST; may be repeated",
    )
    parser.add_argument("--agents", default="claude,codex,cursor", help="agents, separated by commas")
    parser.add_argument("--oacp-dir", help="OACP home (default: $OACP_HOME, a marker, ~/oacp)")
    parser.add_argument("--fail-if-exists", action="store_true", help="accepted for old scripts; always so")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _link(text: str) -> tuple[str, str]:
    source, _, destination = text.partition(":")
    if not source or not destination:
        raise argparse.ArgumentTypeError("link must be SRC:DST")
    return source, destination


def _refused(message: str, code: str, status: int, args: argparse.Namespace) -> int:
    if args.json:
        sys.stdout.write(json.dumps({"version": 1, "error": code, "message": message}) + "\n")
    else:
        sys.stderr.write(harmless(f"Error: {message}\n"))
    return status


def _plan(home: str, root: str, agents: list[str], repo: str, args: argparse.Namespace) -> int:
    from parley.adapters.files.layout import Action, plan_project

    actions: list[Action] = []
    reason = None
    try:
        actions = plan_project(home, args.project_name, agents, repo, args.link)
    except ProjectExists:
        reason = "project_exists"
    if args.json:
        steps = [
            {"path": shown(path), "operation": operation, **({"target": target} if target else {})}
            for path, operation, target in actions
        ]
        plan = {"version": 1, "project_root": root, "can_apply": reason is None, "reason": reason, "actions": steps}
        sys.stdout.write(json.dumps(plan, indent=2) + "\n")
    else:
        lines = [f"Plan: {root}", *([f"Refused: {reason}"] if reason else [])]
        lines += [f"  {action.operation}: {shown(action.path)}" for action in actions]
        sys.stdout.write("\n".join(lines) + "\n")
    return _EXISTS if reason else 0


def _create(home: str, root: str, agents: list[str], repo: str, args: argparse.Namespace) -> int:
    from parley.adapters.files.layout import create_project
    from parley.adapters.process import SystemClock

    created = create_project(home, args.project_name, agents, at=SystemClock().now().at, repo=repo, links=args.link)
    skipped = [f"Skipped artifacts/{place} — {target} not found" for place, target in created.skipped]
    workspace = shown(root, "workspace.json")
    if args.json:
        manifest: dict[str, object] = {
            "project_root": root,
            "workspace_path": workspace,
            "repo_dir": repo or None,
            "created_links": created.links,
            "warnings": skipped,
            "version": 1,
        }
        sys.stdout.write(json.dumps(manifest, indent=2) + "\n")
        return 0
    lines = [f"Creating artifact symlinks from repo: {repo}"] if created.links else []
    lines += [f"  + artifacts/{place} -> {target}" for place, target in created.links]
    lines += [f"  ! {text}" for text in skipped]
    lines.append(f"Initialized project workspace: {root}")
    if repo:
        lines.append("  To link a runtime repo, symlink workspace.json into the repo root:")
        lines.append(f"    ln -sf {workspace} <repo>/.oacp")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
