"""`parley timer`: messages that are posted later; `parley post --at` and `--in` set them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.lookup import id_of
from parley.cli.parts.remote import (
    add_server_options,
    connection_of,
    field_column,
    show_result,
    show_table,
    time_column,
)
from parley.cli.table import ALWAYS, Column, id_column, text_column
from parley.sdk.protocol.lookup import TIMERS

if TYPE_CHECKING:
    import argparse


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser)


def _add_cancel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("timer", metavar="TIMER", help="id of the timer, or the end of it; see: timer list")
    add_server_options(parser)


def _list(args: argparse.Namespace) -> int:
    timers = sorted(connection_of(args).get("timers"), key=lambda timer: str(timer["deliver_at"]))
    columns = (
        Column("AT", time_column("deliver_at"), ALWAYS),
        Column("STATUS", field_column("status"), 7, usual="scheduled"),
        Column("FROM", field_column("sender"), 4),
        Column("TO", field_column("to"), 6),
        Column("TYPE", field_column("message_type"), 3, usual="notify"),
        id_column("ID", field_column("id")),
        text_column("ERROR", field_column("error"), 5),
    )
    show_table(args, screen_of(args), timers, columns, "No timers; set one with: parley post ... --in 5m")
    return OK


def _cancel(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    timer = id_of(connection, TIMERS, args.timer)
    connection.send("DELETE", "timers", timer)
    show_result(args, screen_of(args), {"status": "cancelled", "id": timer}, f"Cancelled {safe(timer)}")
    return OK


COMMANDS = {
    "timer list": Command("List your timers", _add_list, _list, ("parley timer list --agent claude --json",)),
    "timer cancel": Command("Cancel a timer", _add_cancel, _cancel, ("parley timer cancel 7K2M -a claude",)),
}
