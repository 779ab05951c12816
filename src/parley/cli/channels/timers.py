"""`parley timer`: messages that are posted later; `parley post --at` and `--in` set them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.remote import (
    add_server_options,
    connection_of,
    field_column,
    show_result,
    show_table,
    time_column,
)

if TYPE_CHECKING:
    import argparse


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser)


def _add_cancel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("timer", metavar="TIMER", help="id of the timer")
    add_server_options(parser)


def _list(args: argparse.Namespace) -> int:
    timers = sorted(connection_of(args).get("timers"), key=lambda timer: str(timer["deliver_at"]))
    columns = {
        "AT": time_column("deliver_at"),
        "STATUS": field_column("status"),
        "FROM": field_column("sender"),
        "TO": field_column("to"),
        "TYPE": field_column("message_type"),
        "ID": field_column("id"),
        "ERROR": field_column("error"),
    }
    show_table(args, screen_of(args), timers, columns, "No timers; set one with: parley post ... --in 5m")
    return OK


def _cancel(args: argparse.Namespace) -> int:
    connection_of(args).send("DELETE", "timers", args.timer)
    show_result(args, screen_of(args), {"status": "cancelled", "id": args.timer}, f"Cancelled {safe(args.timer)}")
    return OK


COMMANDS = {
    "timer list": Command("List your timers", _add_list, _list, ("parley timer list --agent claude --json",)),
    "timer cancel": Command("Cancel a timer", _add_cancel, _cancel, ("parley timer cancel timer_01K... -a claude",)),
}
