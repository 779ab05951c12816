"""`parley suspend|resume agent|pair|org|tenant` and `parley suspensions`: stop messages at once, with an admin key."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.remote import add_server_options, age_column, connection_of, field_column, show_result, show_table
from parley.cli.parts.unknown_names import note_unknown
from parley.domain.agents.party import PAIR_MARK
from parley.domain.rules.suspension import Stopped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

# The second word of the command, and its arguments.
_NAMES: dict[Stopped, tuple[str, tuple[str, ...]]] = {
    Stopped.AGENT: ("agent", ("NAME",)),
    Stopped.PAIR: ("pair", ("A", "B")),
    Stopped.ORG_UNIT: ("org", ("UNIT",)),
    Stopped.TENANT: ("tenant", ()),
}
_HELP = {"NAME": "the agent", "A": "one agent", "B": "the other agent, in any order", "UNIT": "the org unit"}
_DESCRIPTIONS = {
    Stopped.AGENT: "an agent",
    Stopped.PAIR: "messages between two agents",
    Stopped.ORG_UNIT: "an org unit",
    Stopped.TENANT: "the whole tenant",
}
_EXAMPLES = {Stopped.AGENT: "agent codex", Stopped.PAIR: "pair claude codex", Stopped.ORG_UNIT: "org sales"}


def _add_names(what: Stopped, parser: argparse.ArgumentParser) -> None:
    for name in _NAMES[what][1]:
        parser.add_argument(name.lower(), metavar=name, help=_HELP[name])
    add_server_options(parser, agent=False)


def _add_suspend(what: Stopped, parser: argparse.ArgumentParser) -> None:
    _add_names(what, parser)
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="reason, for the audit log and for refused senders"
    )


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)


def _names(what: Stopped, args: argparse.Namespace) -> list[str]:
    return [str(getattr(args, name.lower())) for name in _NAMES[what][1]]


def _suspend(what: Stopped, args: argparse.Namespace) -> int:
    names = _names(what, args)
    body = {"what": what.value, "name": PAIR_MARK.join(names), "reason": args.reason}
    connection = connection_of(args, agent=False)
    suspension = connection.post("suspensions", body=body)
    show_result(args, screen_of(args), suspension, f"Suspended {_suspended_name(suspension)}, from the next message on")
    if names and not args.json:
        note_unknown(connection, "org" if what is Stopped.ORG_UNIT else "agent", *names)
    return OK


def _resume(what: Stopped, args: argparse.Namespace) -> int:
    query = {"what": what.value, "name": PAIR_MARK.join(_names(what, args))}
    lifted = connection_of(args, agent=False).send("DELETE", "suspensions", query=query).document
    show_result(args, screen_of(args), lifted, f"Resumed {_suspended_name(query)}, from the next message on")
    return OK


def _suspended_name(suspension: Mapping[str, str]) -> str:
    what = Stopped(suspension["what"])
    names = safe(" and ".join(suspension["name"].split(PAIR_MARK)))
    return f"{_NAMES[what][0]} {names}" if names else "the tenant"


def _list(args: argparse.Namespace) -> int:
    suspensions = connection_of(args, agent=False).get("suspensions")
    columns = {
        "KIND": field_column("what"),
        "NAME": lambda suspension: safe(suspension["name"].replace(PAIR_MARK, ", ")) or "-",
        "SINCE": age_column("at"),
        "BY": field_column("by"),
        "REASON": lambda suspension: safe(suspension["reason"]) or "-",
    }
    show_table(args, screen_of(args), suspensions, columns, "No suspensions.")
    return OK


COMMANDS = {
    **{
        f"suspend {_NAMES[what][0]}": Command(
            f"Suspend {_DESCRIPTIONS[what]}",
            partial(_add_suspend, what),
            partial(_suspend, what),
            (f"parley suspend {_EXAMPLES.get(what, 'tenant')} --reason 'endless loop'",),
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
