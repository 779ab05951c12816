"""`parley traffic`: who talked to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    parse_time_ago,
    show_table,
    time_text,
    without_none,
)
from parley.cli.reports import note
from parley.cli.table import ALWAYS, Column

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

_GROUPINGS = {"agent": "agent", "user": "user", "org": "org_unit"}
_NOBODY = {"agent": "-", "user": "(no person)", "org_unit": "(no org unit)"}


def _add_traffic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        default="agent",
        choices=list(_GROUPINGS),
        metavar="WHAT",
        help="count by agent, user (the person an agent acts for) or org (default: agent)",
    )
    parser.add_argument(
        "--since", default="", metavar="TIME", help="from a time or a day on, or 7d ago (default: the last 24 hours)"
    )
    parser.add_argument("--until", default="", metavar="TIME", help="before a time, or to the end of a day")
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="number of pairs at most (default: 1000)")
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Delivered messages count as long as their channels keep them; held and denied\n"
        "ones by the audit log. A message to several agents counts for each of them;\n"
        "one to everyone in a channel counts as `*`. An agent sees what it may read, a\n"
        "person what its agents may read, an admin and an auditor everything."
    )


def _traffic(args: argparse.Namespace) -> int:
    connection, screen = connection_of(args), screen_of(args)
    query = without_none(
        {
            "by": _GROUPINGS[args.by],
            "since": parse_time_ago(args.since, "--since"),
            "until": parse_time_ago(args.until, "--until", ends=True),
            "limit": args.limit,
        }
    )
    traffic = connection.get("traffic", query=query)
    if args.json:
        screen.json(traffic)
        return OK
    columns = (
        Column("FROM", _name_column("from", traffic["by"]), ALWAYS),
        Column("TO", _name_column("to", traffic["by"]), ALWAYS),
        Column("DELIVERED", _count_column("delivered"), ALWAYS),
        Column("HELD", _count_column("held"), 8),
        Column("DENIED", _count_column("denied"), 8),
        Column("LAST", age_column("last_at"), 5),
    )
    show_table(args, screen, traffic["pairs"], columns, f"No messages since {time_text(traffic['since'])}.")
    if not traffic["complete"]:
        note(_incomplete(traffic))
    return OK


def _incomplete(traffic: Mapping[str, Any]) -> str:
    """Why the counts are lower than what was sent."""
    if traffic["evicted_channels"]:
        channels = count_of(traffic["evicted_channels"], "channel")
        return f"not counted: messages of the period that {channels} evicted before Parley counted them"
    return f"only the busiest pairs, and messages since {time_text(traffic['since'])}, are counted"


def _name_column(field: str, by: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda pair: safe(pair[field] or _NOBODY[by])


def _count_column(field: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda pair: f"{pair[field]:,}" if pair[field] else ""


COMMANDS = {
    "traffic": Command(
        "Count who talked to whom",
        _add_traffic,
        _traffic,
        ("parley traffic", "parley traffic --by org --since 7d", "parley traffic --since 2026-11-16 --json"),
    )
}
