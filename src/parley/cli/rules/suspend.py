"""`parley suspend|resume agent|pair|org|tenant` and `parley suspensions`: stop messages at once, with an admin key."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import (
    actor_column,
    add_server_options,
    age_column,
    connection_of,
    field_column,
    parse_time_from_now,
    show_result,
    show_table,
    time_column,
    time_text,
)
from parley.cli.parts.unknown_names import note_unknown
from parley.cli.table import ALWAYS, Column, text_column
from parley.domain.agents.party import PAIR_MARK
from parley.domain.rules.suspension import Stopped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

# The second word of the command, and its arguments.
_NAMES: dict[Stopped, tuple[str, tuple[str, ...]]] = {
    Stopped.AGENT: ("agent", ("name",)),
    Stopped.PAIR: ("pair", ("a", "b")),
    Stopped.ORG_UNIT: ("org", ("unit",)),
    Stopped.TENANT: ("tenant", ()),
}
# An argument's kind of value, and its help.
_HELP = {
    "name": ("AGENT", "the agent"),
    "a": ("AGENT", "one agent"),
    "b": ("AGENT", "the other agent, in any order"),
    "unit": ("UNIT", "the org unit"),
}
_DESCRIPTIONS = {
    Stopped.AGENT: "an agent",
    Stopped.PAIR: "messages between two agents",
    Stopped.ORG_UNIT: "an org unit",
    Stopped.TENANT: "the whole tenant",
}
_EXAMPLES = {Stopped.AGENT: "agent codex", Stopped.PAIR: "pair claude codex", Stopped.ORG_UNIT: "org sales"}


def _add_names(what: Stopped, parser: argparse.ArgumentParser) -> None:
    for name in _NAMES[what][1]:
        kind, text = _HELP[name]
        parser.add_argument(name, metavar=kind, help=text)
    add_server_options(parser, agent=False)


def _add_suspend(what: Stopped, parser: argparse.ArgumentParser) -> None:
    _add_names(what, parser)
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="reason, for the audit log and for refused senders"
    )
    parser.add_argument(
        "--until", default="", metavar="TIME", help="when it is lifted by itself: 2h, 7d, a day (its end), or a time"
    )
    parser.add_argument("--preview", action="store_true", help="show what it would halt, and suspend nothing")


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)


def _names(what: Stopped, args: argparse.Namespace) -> list[str]:
    return [str(getattr(args, name)) for name in _NAMES[what][1]]


def _suspend(what: Stopped, args: argparse.Namespace) -> int:
    names = _names(what, args)
    connection = connection_of(args, agent=False)
    if args.preview:
        query = {"what": what.value, "name": PAIR_MARK.join(names)}
        preview = connection.get("suspensions", "preview", query=query)
        show_result(args, screen_of(args), preview, _preview_text(preview))
        return OK
    body = {"what": what.value, "name": PAIR_MARK.join(names), "reason": args.reason}
    until = parse_time_from_now(args.until, "--until", ends=True)
    if until:
        body["until"] = until
    suspension = connection.post("suspensions", body=body)
    end = f", until {time_text(suspension['until'])}" if suspension["until"] else ""
    text = f"Suspended {_suspended_name(suspension)}, from the next message on{end}"
    show_result(args, screen_of(args), suspension, text)
    if names and not args.json:
        note_unknown(connection, "org" if what is Stopped.ORG_UNIT else "agent", *names)
    return OK


def _preview_text(preview: Mapping[str, Any]) -> str:
    halts = [
        count_of(preview["agents"], "agent"),
        count_of(preview["exchanges"], "open exchange"),
        count_of(preview["approvals"], "held message"),
        count_of(preview["asks"], "unanswered request"),
    ]
    verb = "halts" if preview["suspended"] else "would halt"
    return f"Suspending {_suspended_name(preview)} {verb} {', '.join(halts[:-1])} and {halts[-1]}. Nothing was changed."


def _resume(what: Stopped, args: argparse.Namespace) -> int:
    query = {"what": what.value, "name": PAIR_MARK.join(_names(what, args))}
    lifted = connection_of(args, agent=False).send("DELETE", "suspensions", query=query).document
    show_result(args, screen_of(args), lifted, f"Resumed {_suspended_name(query)}, from the next message on")
    return OK


def _suspended_name(suspension: Mapping[str, Any]) -> str:
    what = Stopped(suspension["what"])
    names = safe(" and ".join(suspension["name"].split(PAIR_MARK)))
    return f"{_NAMES[what][0]} {names}" if names else "the tenant"


def _list(args: argparse.Namespace) -> int:
    suspensions = connection_of(args, agent=False).get("suspensions")
    columns = (
        Column("KIND", field_column("what"), 8),
        Column("NAME", lambda suspension: suspension["name"].replace(PAIR_MARK, ", ") or "-", ALWAYS),
        Column("SINCE", age_column("at"), 7),
        Column("UNTIL", time_column("until"), 5),
        Column("BY", actor_column("by"), 6),
        text_column("REASON", field_column("reason"), 8),
    )
    show_table(args, screen_of(args), suspensions, columns, "No suspensions.")
    return OK


COMMANDS = {
    **{
        f"suspend {_NAMES[what][0]}": Command(
            f"Suspend {_DESCRIPTIONS[what]}",
            partial(_add_suspend, what),
            partial(_suspend, what),
            (
                f"parley suspend {_EXAMPLES.get(what, 'tenant')} --reason 'endless loop'",
                f"parley suspend {_EXAMPLES.get(what, 'tenant')} --preview",
                f"parley suspend {_EXAMPLES.get(what, 'tenant')} --until 2h",
            ),
        )
        for what in Stopped
    },
    **{
        f"resume {_NAMES[what][0]}": Command(
            f"Resume {_DESCRIPTIONS[what]}",
            partial(_add_names, what),
            partial(_resume, what),
            (f"parley resume {_EXAMPLES.get(what, 'tenant')}",),
        )
        for what in Stopped
    },
    "suspensions": Command("List suspensions", _add_list, _list, ("parley suspensions", "parley suspensions --json")),
}
