"""`parley agent register|heartbeat|leave`, and `parley agent list|show --server`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.payload import json_object
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    field_column,
    show_fields,
    show_result,
    show_table,
    split_names,
    time_text,
    without_none,
)
from parley.cli.table import ALWAYS, Column, text_column
from parley.domain.agents.presence import presence_of
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.domain.errors.errors import Forbidden, UnknownSender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley.sdk.blocking.connection import Connection


def _add_register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="default: --agent or $PARLEY_AGENT")
    parser.add_argument(
        "--capability", action="append", default=[], metavar="WORD", help="capability; repeat the option or use commas"
    )
    parser.add_argument("--role", default=None, metavar="ROLE", help="role; messages to role:ROLE reach the agent")
    parser.add_argument("--title", default=None, metavar="TEXT", help="display name")
    parser.add_argument("--endpoint", default=None, metavar="URL", help="address of the agent")
    parser.add_argument("--metadata", default="", metavar="JSON", help="JSON object with anything else")
    _add_rule_attributes(parser)
    add_server_options(parser)


def _add_rule_attributes(parser: argparse.ArgumentParser) -> None:
    """Add what policies use about an agent; the agent cannot set it itself."""
    group = parser.add_argument_group("for policies (needs an admin key)")
    levels, purposes = [level.value for level in Classification], [purpose.value for purpose in Purpose]
    group.add_argument("--user", default=None, metavar="USER", help="person that the agent acts for")
    group.add_argument("--org-unit", default=None, metavar="UNIT", help="org unit of the agent")
    group.add_argument("--team", default=None, metavar="TEAM", help="team in the org unit")
    group.add_argument(
        "--max-classification",
        default=None,
        choices=levels,
        metavar="LEVEL",
        help=f"highest level that it may send or receive: {', '.join(levels)}",
    )
    group.add_argument(
        "--queries",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether other agents may ask it questions",
    )
    group.add_argument(
        "--auto-respond",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether it may answer without approval",
    )
    group.add_argument(
        "--exchange-types", default=None, metavar="PURPOSES", help=f"comma-separated, of {', '.join(purposes)}"
    )
    group.add_argument("--max-rounds", type=int, default=None, metavar="N", help="most rounds of an exchange")


def _attributes(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "user_id": args.user,
        "org_unit": args.org_unit,
        "team": args.team,
        "max_classification": args.max_classification,
        "can_receive_queries": args.queries,
        "can_auto_respond": args.auto_respond,
        "supported_exchange_types": None if args.exchange_types is None else split_names([args.exchange_types]),
        "max_rounds_accepted": args.max_rounds,
    }


def _add_heartbeat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="AGENT", help="default: --agent or $PARLEY_AGENT")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="number of tasks in progress")
    add_server_options(parser)


def _add_leave(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="AGENT", help="default: --agent or $PARLEY_AGENT")
    parser.add_argument("--drain", action="store_true", help="accept nothing new, and leave later")
    add_server_options(parser)


def _agent_name(args: argparse.Namespace) -> str:
    name: str = args.name or settings_of(args).agent
    if not name:
        raise UnknownSender("no agent given", hint="name it, add --agent NAME, or set PARLEY_AGENT")
    return name


def _register(args: argparse.Namespace) -> int:
    body = without_none(
        {
            "agent_id": _agent_name(args),
            "capabilities": split_names(args.capability),
            "role_id": args.role,
            "name": args.title,
            "endpoint": args.endpoint,
            "metadata": json_object(args.metadata, "--metadata") if args.metadata else None,
            **_attributes(args),
        }
    )
    agent = connection_of(args).post("agents", "register", body=body)
    role = f" as {safe(agent['role_id'])}" if agent["role_id"] else ""
    show_result(args, screen_of(args), agent, f"Registered agent {safe(agent['agent_id'])}{role} ({agent['status']})")
    return OK


def _heartbeat(args: argparse.Namespace) -> int:
    who = _agent_name(args)
    body = {"status": "active", "current_load": args.load}
    answer = connection_of(args).post("agents", who, "heartbeat", body=body)
    show_result(
        args,
        screen_of(args),
        answer,
        f"{safe(who)} is active; next heartbeat due at {time_text(answer['next_heartbeat_at'])}",
    )
    return OK


def _leave(args: argparse.Namespace) -> int:
    who, status = _agent_name(args), "draining" if args.drain else "deregistered"
    left = connection_of(args).send("PATCH", "agents", who, "status", body={"status": status}).document
    line = f"{safe(who)} accepts nothing new" if args.drain else f"{safe(who)} has left the server and all its channels"
    show_result(args, screen_of(args), left, line)
    return OK


def list_registered(args: argparse.Namespace) -> int:
    """`parley agent list --server`."""
    connection = connection_of(args, agent=False)
    agents = connection.get("agents", query={"status": args.status, "role_id": args.role})
    is_suspended = _suspensions(connection) if agents else None
    if args.json and is_suspended:
        agents = [{**agent, "suspended": is_suspended(agent)} for agent in agents]
    columns = (
        Column("AGENT", field_column("agent_id"), ALWAYS),
        Column("STATUS", lambda agent: "suspended" if is_suspended and is_suspended(agent) else _presence(agent), 8),
        Column("LAST SEEN", age_column("last_seen_at"), 7, usual=None),
        Column("ROLE", field_column("role_id"), 6),
        Column("ORG UNIT", field_column("org_unit"), 5, usual="default"),
        Column("FOR", field_column("user_id"), 4),
        Column("LEVEL", field_column("max_classification"), 1),
        text_column("CAPABILITIES", field_column("capabilities"), 3),
    )
    nothing = "No registered agents; register one with: parley agent register NAME"
    show_table(args, screen_of(args), agents, columns, nothing)
    return OK


def _suspensions(connection: Connection) -> Callable[[Mapping[str, Any]], bool] | None:
    """Whether an agent is suspended, by its name, its org unit or its tenant; None where the key may not know."""
    try:
        stopped = {(entry["what"], entry["name"]) for entry in connection.get("suspensions")}
    except Forbidden:
        return None
    return lambda agent: bool(stopped & {("agent", agent["agent_id"]), ("org_unit", agent["org_unit"]), ("tenant", "")})


def _presence(agent: Mapping[str, Any]) -> str:
    # A server of before 0.7 knows heartbeats only.
    last_seen = agent.get("last_seen_at", agent["last_heartbeat_at"])
    return safe(presence_of(agent["status"], last_seen, online=agent.get("online", bool(last_seen))))


def show_registered(args: argparse.Namespace) -> int:
    """`parley agent show --server`."""
    show_fields(args, screen_of(args), connection_of(args, agent=False).get("agents", args.name, "record"))
    return OK


COMMANDS = {
    "agent register": Command(
        "Register an agent on the server",
        _add_register,
        _register,
        (
            "parley agent register codex --capability python,review --role reviewer",
            "parley agent register codex --user ann --org-unit sales --max-classification confidential",
        ),
    ),
    "agent heartbeat": Command(
        "Send a heartbeat for an agent",
        _add_heartbeat,
        _heartbeat,
        ("parley agent heartbeat codex", "parley agent heartbeat --load 2"),
    ),
    "agent leave": Command(
        "Deregister an agent; its open requests expire",
        _add_leave,
        _leave,
        ("parley agent leave codex", "parley agent leave codex --drain"),
    ),
}
