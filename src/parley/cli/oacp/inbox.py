"""`oacp inbox`: list pending messages."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.oacp.arguments import make_parser
from parley.cli.oacp.cells import cell, table
from parley.cli.oacp.listing import Row, moment_of, rows_of
from parley.cli.oacp.places import check_project, home_of, require_agent, shown
from parley.cli.oacp.policy import SigningPolicy, policy_of
from parley.cli.oacp.refusal import Refusal
from parley.domain.names import is_name
from parley.domain.times import age, format_time
from parley.settings import Settings, load

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

_HEADS = ("#", "From", "Type", "Priority", "Subject", "Age")


class Section(NamedTuple):
    """One agent's inbox."""

    agent: str
    path: str
    policy: SigningPolicy
    rows: list[tuple[Row, datetime]]


def run(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    settings = load()
    home = home_of(args.oacp_dir or None, settings)
    sections = [_section(home, args.project, agent, settings) for agent in _agents(home, args)]
    now = _now()
    if args.json:
        shown_sections = [_as_json(section, now) for section in sections]
        document = {"project": args.project, "mode": "all" if args.all else "agent", "agents": shown_sections}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.write("\n\n".join(_as_text(args.project, section, now) for section in sections) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(prog="oacp_inbox.py", description="List pending inbox messages.")
    parser.add_argument("project", help="project name")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--agent", help="the agent whose inbox to list")
    who.add_argument("--all", action="store_true", help="list the inboxes of all agents")
    parser.add_argument("--oacp-dir", help="OACP home (default: $OACP_HOME, a marker, ~/oacp)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _agents(home: str, args: argparse.Namespace) -> list[str]:
    check_project(args.project)
    if not os.path.isdir(f"{home}/projects/{args.project}"):
        raise Refusal(f"project '{args.project}' not found under {shown(home, 'projects')}")
    agents = f"{home}/projects/{args.project}/agents"
    if not os.path.isdir(agents):
        raise Refusal(f"project '{args.project}' has no agents directory")
    if not args.all:
        require_agent(home, args.project, args.agent)
        return [args.agent]
    return sorted(name for name in os.listdir(agents) if is_name(name) and os.path.isdir(f"{agents}/{name}"))


def _section(home: str, project: str, agent: str, settings: Settings) -> Section:
    policy = policy_of(home, project, agent)
    rows = []
    for row in rows_of(home, project, agent, settings, policy):
        moment = moment_of(row.created_at) or row.modified()
        if moment is not None:
            rows.append((row, moment))
    return Section(agent, shown(home, "projects", project, "agents", agent, "inbox"), policy, rows)


def _now() -> datetime:
    from parley.adapters.process import SystemClock

    return SystemClock().now().at


def _age(moment: datetime, now: datetime) -> str:
    """The age as the OACP tool shows it, in minutes at least."""
    text = age(moment, now)
    return "0m" if text.endswith("s") else text


def _as_text(project: str, section: Section, now: datetime) -> str:
    count = len(section.rows)
    head = f"INBOX: {cell(section.agent)} ({cell(project)}) — {count} message{'' if count == 1 else 's'}"
    if not count:
        return f"{head}\n\nNo pending messages."
    lines = [
        (str(number), *map(cell, (row.sender, row.kind, row.priority, row.subject)), _age(moment, now))
        for number, (row, moment) in enumerate(section.rows, 1)
    ]
    return "\n".join([head, "", *table(_HEADS, lines)])


def _as_json(section: Section, now: datetime) -> dict[str, object]:
    messages = []
    for row, moment in section.rows:
        message = {
            "from": row.sender,
            "type": row.kind,
            "priority": row.priority,
            "subject": row.subject,
            "created_at_utc": row.created_at or format_time(moment),
            "age": _age(moment, now),
            "path": shown(section.path, row.file),
        }
        extras = {"load_error": row.error, "auth": row.auth}
        messages.append(message | {key: text for key, text in extras.items() if text})
    listed: dict[str, object] = {
        "agent": section.agent,
        "inbox_path": section.path,
        "verify_mode": section.policy.verify_mode,
        "message_count": len(messages),
        "messages": messages,
    }
    return listed | ({"policy_error": section.policy.error} if section.policy.error else {})
